"""The contract's cases: what they need, what they cost, and that they are what they say."""

import resource
from typing import Any

import pytest
import torch

import kernelzoo
from kernelzoo import operations
from kernelzoo.check import cases as contract
from kernelzoo.check import running, verifying
from kernelzoo.check.bits import bits
from kernelzoo.check.case import Case, Sampler, sampler_of
from kernelzoo.check.special import special_rows
from kernelzoo.errors import NoRoomError
from kernelzoo.testing import Conformance

FAR = [case for op in operations.OPERATIONS for case in contract.cases(op) if case.name.endswith("-apart")]


def test_names_begin_with_the_dtype_of_the_input() -> None:
    for op, operation in operations.OPERATIONS.items():
        assert {case.dtype for case in contract.cases(op)} == set(operation.dtypes)
    small = [case for case in contract.cases("min") if case.elements < 50]
    assert all(str(case.inputs("cpu")[0].dtype) == f"torch.{case.dtype}" for case in small)


def test_large_inputs_are_drawn_on_their_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """From the seed of the case, so that they are the same in each run."""
    device, used = "cuda" if torch.cuda.is_available() else "cpu", list[torch.Generator]()
    monkeypatch.setattr(Sampler, "sample", lambda self, *given: used.append(self.generator) or ())
    for large in (False, True):
        Case("sum", "float32-a", sampler_of((4, 9), large=large)).inputs(device)
    assert [generator.device.type for generator in used] == ["cpu", device]
    assert used[0] is not used[1] and used[0].initial_seed() == used[1].initial_seed()


def test_have_names_of_their_own() -> None:
    for op in operations.OPERATIONS:
        names = [case.name for case in contract.cases(op)]
        assert len(names) == len(set(names))


@pytest.mark.parametrize("dtype", operations.FLOATS + operations.INTEGERS)
def test_special_rows_are_special(dtype: str) -> None:
    """Each changes a row of plain values, to the first element or the last."""
    plain = (torch.arange(9) % 3 + (dtype != "bool")).to(getattr(torch, dtype))
    assert len(special_rows(dtype)) == {"bool": 5, "float64": 34}.get(dtype, 33 if dtype in operations.FLOATS else 7)
    assert len(special_rows(dtype)) + 2 <= contract.RULED
    for name, write in special_rows(dtype).items():
        row = plain.clone()
        write(row)
        assert not torch.equal(bits(row), bits(plain)), name


@pytest.mark.parametrize("op", operations.BUILT_IN)
def test_the_core_has_every_dtype_at_odd_lengths(op: str) -> None:
    """It is all that a form which is slow to bind is asked."""
    core = {case.name for case in contract.cases(op) if case.core}
    assert core >= {f"{dtype}-3x{n}" for dtype in operations.OPERATIONS[op].dtypes for n in (2, 17, 129, 781)}


def test_what_is_left_out_is_counted() -> None:
    slow, quick = (kernelzoo.implementation(f"torch/min/{variant}") for variant in ("compile", "eager"))
    cpu = torch.device("cpu")
    core, everything = (verifying.checks_of(slow, cpu, whole=whole) for whole in (False, True))
    assert verifying._count_left_out(slow, core) == len(everything) - len(core) > 0
    assert verifying._count_left_out(slow, everything) == verifying._count_left_out(quick, core) == 0
    some = verifying.select(core, (), ["uint8"])
    assert verifying._count_left_out(slow, some) == len(verifying.select(everything, (), ["uint8"])) - len(some) > 0


def test_far_apart_costs_no_memory() -> None:
    """Gigabytes lie between the rows, and are never touched."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for case in FAR:
        if case.place is None:
            assert case.inputs("cpu")[0].untyped_storage().nbytes() > 2**32
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2**17  # kB


@pytest.mark.parametrize("case", FAR, ids=str)
def test_far_apart_offsets_of_32_bits_lead_to_other_values(case: contract.Case) -> None:
    """As far as they wrap around at all: to memory that is there, and holds what no result is made of."""
    x = case.inputs("cpu")[0]
    if case.place is not None:
        x = case.place(x)
    far, near = (0, 1) if x.stride(0) > x.stride(1) else (1, 0)
    wrapped = 0
    for row in range(x.size(far)):
        offset = row * x.stride(far)
        for place in ((offset + 2**31) % 2**32 - 2**31, offset % 2**32):  # signed, unsigned
            if place != offset:
                there = x.as_strided((x.size(near),), (1,), x.storage_offset() + place)
                assert bool((there == -128).all())
                wrapped += 1
    assert wrapped


def test_no_room_is_a_skip(monkeypatch: pytest.MonkeyPatch) -> None:
    """And no failure: a machine may refuse addresses that nobody would touch."""
    empty = torch.empty

    def refuse(*size: Any, **kind: Any) -> torch.Tensor:
        if isinstance(size[0], int) and size[0] > 2**31:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory")
        return empty(*size, **kind)

    monkeypatch.setattr(torch, "empty", refuse)
    for case in FAR:
        implementation = kernelzoo.implementations("torch", case.op)[0]  # auto, where there is one
        with pytest.raises(NoRoomError, match=r"no room for . rows .* can't allocate memory") as caught:
            running.check(implementation, case, "cpu")
        assert isinstance(caught.value, kernelzoo.KernelZooError)
        assert isinstance(caught.value, MemoryError)
        with pytest.raises(pytest.skip.Exception, match="no room"):
            Conformance().test_conforms(implementation, case)
