"""How many programs share a row, chosen by estimated time, and the launches of these programs."""

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import torch

from kernelzoo.device import Device
from kernelzoo.kernels.shared.exchange import EXCHANGE, phase_per_launch
from kernelzoo.kernels.shared.jit import bind_grid, device_of
from kernelzoo.kernels.shared.split import split
from kernelzoo.launch import Launch, chain_launches
from kernelzoo.layout import Rows, cdiv
from kernelzoo.tables import form_knobs, knob, of


@form_knobs
class Knobs:
    wide_elements: int = knob(
        32768,
        among=(16384, 32768, 65536),
        unit="elements per multiprocessor",
        why="up to which split holds halves as their exponentials, computed once, not as the words that were read",
    )
    bytes_per_us: int = knob(
        4200000,
        among=(300000, 600000, 1000000, 2000000, 3000000, 4200000, 6500000),
        unit="bytes per us",
        why="the speed of the memory by which split weighs the number of programs to a row",
    )
    exchange_us: int = knob(
        10, among=(5, 10, 20), unit="us", why="that programs of one row wait for each other, if no other row hides it"
    )


class SplitTiling(NamedTuple):
    """The resources of a program that shares rows. programs: programs per SM. registers: the limit per thread. held:
    16-byte packs per thread in registers. block: packs per thread in a block of the rest, which is read twice."""

    threads: int
    programs: int
    registers: int
    held: int
    block: int


def split_tilings(rows: Rows, words: bool, device: Device) -> tuple[SplitTiling, ...]:
    """Return the tilings to choose from: four warps and, for rows that many programs share, more warps.

    A thread keeps up to 64 registers of a row. With fewer warps, warps wait less for each other, and each has many
    loads in flight. The register limit of an H200 would cause spills on some other architectures, so their limit is
    higher.
    """
    held, block = (16, 8) if words else (16, 4) if rows.itemsize == 4 else (8, 2)
    if device.arch in ("sm_90", "sm_100"):
        # In float64, a thread keeps less than fits in its registers.
        block = 4 if rows.itemsize == 8 else block
        return tuple(SplitTiling(128 * k, 4 // k, 128, held, block) for k in (1, 2, 4))
    return SplitTiling(128, 3, 168, held, block), SplitTiling(512, 1, 128, held // 2, block)


def choose_parts_by_time(
    knobs: Knobs,
    rows: int,
    n: int,
    itemsize: int,
    tilings: tuple[SplitTiling, ...],
    multiprocessors: int,
    tensors_moved: int = 2,
) -> tuple[SplitTiling, int]:
    """Return the (tiling, programs per row) with the least estimated time, in microseconds.

    Programs take rows in rounds. A round costs the time to move its bytes. Speed is full if at most a fifth of the
    programs are idle. If a share doesn't fit in registers, part of it is read twice, after a short delay. A round also
    costs a fixed time, and a row's programs wait for each other. Other rows in progress hide this wait. More warps per
    program are slightly slower. tensors_moved: the number of tensors as large as the rows, each moved once.

    Of equally good choices, the first is returned. Choices that can't be best are skipped, since there are hundreds.
    """
    elements_per_us = knobs.bytes_per_us / (tensors_moved * itemsize)
    end, reread = (4, 1.0) if itemsize == 8 else (1, 0.9)  # a round of float64 ends with its long exponentials
    once, exchange = rows * n / elements_per_us, knobs.exchange_us
    best, least = (tilings[0], 1), math.inf

    def try_parts(tiling: SplitTiling, groups: int, choices: Iterable[int]) -> None:
        """Update the best choice. choices: numbers of parts to try. groups: rows in progress at once."""
        nonlocal best, least
        full, held = 0.8 * tiling.programs * multiprocessors, tiling.held * tiling.threads * (16 // itemsize)
        rounds, each = slower * cdiv(rows, groups), end + exchange / groups
        for parts in choices:
            share = -(-n // parts)
            again = 1 + reread * (1 - held / share) if share > held else 1.0
            seam = 0.75 if share > held else 0.0
            time = rounds * (again * max(groups * parts, full) * share / elements_per_us + each + seam)
            if time < least:
                best, least = (tiling, parts), time

    for tiling in tilings:
        resident, held = tiling.programs * multiprocessors, tiling.held * tiling.threads * (16 // itemsize)
        slower = 1 if tiling.threads == 128 else 1.05
        most = min(tiling.threads, resident, cdiv(n, 64))  # each of a program's threads awaits one pair
        guess = min(cdiv(n, held), most)
        try_parts(tiling, min(rows, resident // guess), (guess,))
        if best == (tiling, guess):
            least *= 1 + 1e-9  # an earlier choice that is as good wins
        # Fewer parts read too much twice: even in the fewest rounds, all bytes take longer than the guess.
        groups = min(rows, resident)
        spare = (least * (1 + 1e-6) / slower - cdiv(rows, groups) * (end + exchange / groups)) / once - 1
        parts = max(1, int(n / held * (1 - spare / reread))) if spare >= 0 else most + 1
        moved_us = once * (1 + reread * max(0.0, 1 - held / cdiv(n, most)))
        while parts <= most:
            groups = min(rows, resident // parts)
            if slower * (moved_us + cdiv(rows, groups) * (end + exchange / groups)) > least * (1 + 1e-6):
                break  # more parts have more rounds, and so are no better
            last = min(resident // groups, most)
            # While programs are idle, more parts are better. The fewest parts with the same share are as good.
            idle = min(int(0.8 * resident / groups), last)
            try_parts(tiling, groups, range(max(parts, cdiv(n, cdiv(n, idle))) if idle > parts else parts, last + 1))
            parts = last + 1
    return best


class PartPlan(NamedTuple):
    """How programs share rows. programs: of the whole launch. registers: the limit per thread. parts: programs per row.
    place: the kernel's arguments parts, span, blocks. sizes: its VECTOR, THREADS, HELD, BLOCK and PARTS."""

    programs: int
    warps: int
    registers: int
    parts: int
    place: tuple[int, int, int]
    sizes: tuple[int, int, int, int, int]


def cut_rows(rows: Rows, edges: int, packed: bool, device: Device, inputs: int = 1, gradient: bool = False) -> PartPlan:
    """Return how programs share rows of ``inputs`` tensors. packed: whether registers have words of two halves."""
    vector = rows.vector_elements
    inside = rows.n // edges * edges if edges else rows.n
    tilings = split_tilings(rows, packed, device)
    if inputs > 1:  # half as much of each input, in as many registers as softmax's one input
        tilings = tuple(t._replace(held=t.held // 2, block=min(2, t.block // 2)) for t in tilings)
    problem = rows.planned, inside, rows.itemsize, tilings, device.multiprocessors
    tiling, most = choose_parts_by_time(of(Knobs, device.index), *problem, 1 + inputs)
    resident, held = tiling.programs * device.multiprocessors, tiling.held * tiling.threads * vector
    # In a gradient, up to a quarter more programs are worth it if their parts then fit in registers.
    if gradient and (least := cdiv(inside, held)) <= min(1.25 * most, tiling.threads, resident):
        most = max(most, least)
    plan = split(rows.total, inside, most, vector, resident)
    blocks = cdiv(max(0, plan.span - held), tiling.block * tiling.threads * vector)
    sizes = (vector, tiling.threads, tiling.held, tiling.block if blocks else 0, tiling.threads)
    place = (plan.parts, plan.span // vector, blocks)
    return PartPlan(plan.blocks, device.warps(tiling.threads), tiling.registers, plan.parts, place, sizes)


def launch_in_parts(
    id: str, x: torch.Tensor, kernel: Any, plan: PartPlan, args: tuple[Any, ...], tensors: int = 2
) -> Launch:
    """Return the one or two launches of a kernel whose programs share each row. args: arguments before PHASE."""

    def part(phase: object) -> Launch:
        waits: dict[str, Any] = {}
        if phase is EXCHANGE:
            waits = {"maxnreg": plan.registers, "launch_cooperative_grid": True}
        return bind_grid(id, kernel, plan.programs, (*args, phase, *plan.sizes), plan.warps, tensors=tensors, **waits)

    return chain_launches(*(part(phase) for phase in phase_per_launch(device_of(x))))
