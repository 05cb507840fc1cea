"""The programs that a bind of Triton or Gluon compiles for a device that is described. Memory is never touched."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from unittest import mock

import pytest
import torch
from ahead import Ahead
from compiled_steps import Binds
from triton.runtime.jit import JITFunction

from kernelzoo import operations
from kernelzoo.device import ARCHITECTURES, Device
from kernelzoo.kernels.shared import described
from kernelzoo.kernels.shared import jit as launch
from kernelzoo.launch import LaunchStep


@dataclass(frozen=True)
class Program:
    """One step of a launch, compiled."""

    compiled: Any
    """Triton's own, with ``asm`` and ``metadata``."""
    step: LaunchStep
    registers: int
    spilled: int
    """As a driver counts them: in registers."""

    @property
    def name(self) -> str:
        return str(self.compiled.name)

    @property
    def metadata(self) -> Any:
        return self.compiled.metadata

    def __str__(self) -> str:
        return f"{self.name}: {self.spilled} spilled, {self.registers} registers"

    @property
    def ptx(self) -> str:
        """PTX, or AMD's assembly."""
        asm = self.compiled.asm
        return str(asm["ptx"] if "ptx" in asm else asm["amdgcn"])


def bound(
    op: operations.Operation, form: Any, x: torch.Tensor, axis: int, arch: str, backend: str = "triton"
) -> list[Program]:
    """The programs of what a form, a name or a bind of its own, launches for x, in order."""
    device, made, real = ARCHITECTURES[arch], list[Any](), launch.compile_program

    def noted(*args: Any) -> Any:
        made.append(real(*args))
        return made[-1]

    with described.target(device), mock.patch.object(launch, "compile_program", noted):
        found = Binds(backend).bound(op, form, x, axis, arch)
    programs = []
    for own, (found_of, step) in zip(made[-len(found) :], found, strict=True):
        # Scalar ones of AMD go to lanes of vector registers.
        key = b".vgpr_spill_count"
        spilled = found_of.local_bytes // 4 if device.is_nvidia else launch._msgpack_int(own.kernel, key)
        programs.append(Program(own, step, found_of.registers or 0, spilled))
    return programs


def compiled(backend: str) -> Callable[..., list[Program]]:
    """``programs(op, form, shape, axis, dtype, arch)``: the same for a contiguous problem of a backend."""

    def programs(
        op: operations.Operation, form: str, shape: tuple[int, ...], axis: int, dtype: Any, arch: str
    ) -> list[Program]:
        return bound(op, form, torch.empty(shape, dtype=dtype, device="meta"), axis, arch, backend)

    return programs


def lanes_disagree(program: Program) -> bool:
    """Whether a product is fused with the first addition of a butterfly: of two lanes, each rounds another product."""
    fused = r"shfl\.sync\.bfly\.b32\s+(%r\d+),(?:(?!shfl)[\s\S])*?fma\.rn\.f32\s+%r\d+, %r\d+, %r\d+, \1;"
    return re.search(fused, program.ptx) is not None


def loops(program: Program) -> list[str]:
    """The bodies of its loops in PTX."""
    lines, labels, found = program.ptx.splitlines(), dict[str, int](), []
    for number, line in enumerate(lines):
        if label := re.match(r"(\$L\w+):", line):
            labels[label[1]] = number
        elif (back := re.search(r"\bbra(?:\.uni)?\s+(\$L\w+);", line)) and back[1] in labels:
            found.append("\n".join(lines[labels[back[1]] : number]))
    return found


def resident(program: Program, device: Device) -> int:
    """How many of its programs run at once, whose registers are given to a warp in pieces of 256."""
    threads = 32 * program.metadata.num_warps
    registers = -(-program.registers // 8) * 8 * threads
    return min(device.registers // registers, device.threads // threads) * device.multiprocessors


class OfTriton(Ahead):
    """What Triton's kernels and Gluon's hold."""

    @classmethod
    def kernels(cls) -> Iterator[Any]:
        for module, key, function in cls.functions():
            if isinstance(function, JITFunction) and key.endswith("_kernel") and function.module == module.__name__:
                yield function.fn

    @pytest.mark.parametrize("summing", ["sum", "argmin", "logsumexp", "cross_entropy"])
    def test_threads_meet_after_the_loop(self, summing: str) -> None:
        for form, shape, axis in (("rows", (8192, 4096), 1), ("rows", (65536, 4096), 0), ("split", (32, 256000), 1)):
            if (summing, axis) != ("cross_entropy", 0):
                op = operations.OPERATIONS[summing]
                program, *_ = self.programs(op, form, shape, axis, torch.bfloat16, "sm_90")
                body, *_ = loops(program)
                assert body.count("ld.global.v4") == 4 and not re.search(r"shfl|bar\.sync|shared", body), program
