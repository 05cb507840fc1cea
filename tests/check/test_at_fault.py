"""What is the operation's own fault, or nobody's, is named, and counts for no kernel."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from registered import forget, forget_operation

import kernelzoo
from kernelzoo.check import accuracy, fuzz, running, verifying
from kernelzoo.check.cases import cases
from kernelzoo.check.fuzz.running import run
from kernelzoo.check.plugin import Conformance
from kernelzoo.check.weak import accepted_wrong_results
from kernelzoo.errors import OperationError, UndecidableError
from kernelzoo.launch import Launch, void
from kernelzoo.operations import Operation

Tensor = torch.Tensor
Declare = Callable[..., Operation]
CPU = torch.device("cpu")
HERE = Path(__file__).name


@pytest.fixture
def declare(declare: Declare) -> Declare:
    usual: dict[str, Any] = {"reference": lambda x: x * 2, "error": lambda ref, unit, tiny: ref.abs() * unit * 2 + tiny}

    def declared(axes: str = "M N", **body: Any) -> Operation:
        tensors = {"x": kernelzoo.Input(axes), "out": kernelzoo.Output(axes)}
        return declare(("float32", "bfloat16"), **tensors, **(usual | body))

    return declared


def doubled(x: Tensor, out: Tensor) -> Launch:
    return lambda: void(out.copy_(x.float() * 2))


def verified(bind: Callable[..., Launch] = doubled) -> verifying.CheckResults:
    forget("own")
    kernelzoo.register("own", "own", "only")(bind)
    implementation = kernelzoo.implementation("own/own/only")
    small = {case.name for case in cases("own") if case.elements <= 2**16 and case.place is None}
    found = [check for check in verifying.checks_of(implementation, CPU, whole=True) if check.name in small]
    return verifying.verify(implementation, found, CPU, whole=True, progress=lambda name, known: None)


# The operation's own faults


def fails(x: Tensor, **more: Any) -> Tensor:
    raise ValueError("not today")


LINE = next(n for n, line in enumerate(Path(__file__).read_text().splitlines(), 1) if "not today" in line)


@pytest.mark.parametrize("hook", ["reference", "error", "special", "sample"])
def test_a_function_that_raises_is_named(declare: Declare, hook: str) -> None:
    raising: dict[str, Any] = {
        "reference": lambda x: fails(x),
        "error": lambda ref: fails(ref),
        "special": lambda ref: fails(ref),
        "sample": lambda x, generator: fails(x),
    }
    operation = declare(**{hook: raising[hook]})
    found = verified()
    assert found.findings == [] and found.passed == 0 and len(found.at_fault) == len(cases("own"))
    words = f"operation own is at fault, no kernel: its {hook} raised ValueError: not today ("
    assert all(told.startswith(words) for told in found.at_fault.values())
    assert all(told.endswith(f"{HERE}:{LINE})") for told in found.at_fault.values())
    assert accepted_wrong_results(operation) == ()
    implementation = kernelzoo.implementation("own/own/only")
    fuzzed = run(implementation, [case for case in fuzz.draw("own", 64, 0, 2**8) if not case.fault], CPU)
    if hook != "sample":  # fuzzing has values of its own
        assert fuzzed.wrong == [] and words in fuzzed.unavailable and ', in the case {"dtype"' in fuzzed.unavailable
        with pytest.raises(OperationError, match="no kernel: its"):
            Conformance().test_conforms(implementation, cases("own")[0])
    if hook in ("reference", "error"):
        (row,) = accuracy.measure("own", "float32", [implementation.id], 2**12, 0, CPU)
        assert words in row["unavailable"] and not row["problems"]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"reference": lambda x: x.sum(1)[:, None, None]}, "its reference returned shape"),
        ({"reference": lambda x: (x, x)}, "its reference returned 2 results, must return 1"),
        ({"reference": lambda x: 3.0}, "its reference returned builtins.float for out, must return a tensor"),
        ({"error": lambda x: x.new_ones(3, 1, 1)}, "its error returned shape (3, 1, 1) for out, must be"),
        ({"samples": lambda: 1 / 0}, "its samples raised ZeroDivisionError"),
        ({"domain": {"x": lambda info, n: 1 / n}}, "its domain raised ZeroDivisionError"),
    ],
    ids=["shape", "results", "number", "bound", "samples", "domain"],
)
def test_a_function_that_returns_what_it_must_not_is_named(declare: Declare, body: dict[str, Any], words: str) -> None:
    declare(**body)
    if "samples" in body:
        with pytest.raises(OperationError, match=r"its samples raised ZeroDivisionError: .*test_at_fault.py:"):
            cases("own")
        return
    found = verified()
    assert found.findings == [] and found.at_fault
    assert all(words in told and f"{HERE}:" in told for told in found.at_fault.values())


def test_only_the_cases_it_fails_are_left_out(declare: Declare) -> None:
    def reference(x: Tensor) -> Tensor:
        if x.size(1) == 100:
            raise IndexError("100")
        return x * 2

    declare(reference=reference)
    found = verified()
    assert {*found.at_fault} == {case.name for case in cases("own") if ",N=100" in case.name} != set()
    assert found.findings == [] and found.passed == len(cases("own")) - len(found.at_fault)
    found = verified(lambda x, out: lambda: void(out.copy_(x)))
    assert len(found.findings) > 30 and not {finding.case for finding in found.findings} & {*found.at_fault}


def test_where_both_fail_the_operation_is_named(declare: Declare) -> None:
    """A kernel need not take what the reference does not."""
    declare(reference=lambda x: x + x[:, 3:4])
    found = verified(lambda x, out: lambda: void(out.copy_(x + x[:, 3:4])))
    assert found.findings == [] and found.passed and len(found.at_fault) > 3


def test_what_a_kernel_broke_is_no_fault_of_the_reference(declare: Declare, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error on a GPU shows at a later call, often that of the reference."""

    def lost() -> None:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    operation = declare(reference=lambda x: lost())
    args = operation.arguments((torch.ones(2, 2),))
    with pytest.raises(OperationError):
        operation.expect(args)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "synchronize", lost)
    with pytest.raises(RuntimeError, match=r"^CUDA error"):
        operation.expect(args)


def test_a_kernel_that_raises_is_its_own_fault(declare: Declare) -> None:
    declare()
    found = verified(lambda x, out: fails)  # type: ignore[arg-type,return-value]
    assert found.at_fault == {} and {finding.kind for finding in found.findings} == {"raises"}


def test_lack_of_memory_is_no_fault(declare: Declare) -> None:
    def reference(x: Tensor) -> Tensor:
        raise torch.OutOfMemoryError("none left")

    operation = declare(reference=reference)
    with pytest.raises(torch.OutOfMemoryError):
        operation.reference(operation.arguments((torch.ones(2, 2),)))


# Nobody's fault


def cancelling(x: Tensor) -> Tensor:
    """Equal to 2 x, if nothing is rounded away."""
    return (x + 1e7) + (x - 1e7)


@pytest.mark.parametrize("axes", ["M N", "outer n inner"])
def test_a_case_whose_reference_exceeds_its_bounds_counts_for_nobody(declare: Declare, axes: str) -> None:
    declare(axes, reference=cancelling)
    right, wrong = verified(), verified(lambda x, out: lambda: void(out.copy_(cancelling(x.float()))))
    assert right.undecidable == wrong.undecidable != {}
    assert right.findings == wrong.findings == [] and right.passed == wrong.passed < len(right.undecidable)
    words = next(iter(right.undecidable.values()))
    assert "own float32-" in words and "its reference, computed in the dtypes of kernels, is wrong: own: " in words
    implementation = kernelzoo.implementation("own/own/only")
    plain = next(case for case in cases("own") if case.name == next(iter(right.undecidable)))
    with pytest.raises(pytest.skip.Exception, match="its reference"):
        Conformance().test_conforms(implementation, plain)
    with pytest.raises(UndecidableError):
        running.check(implementation, plain, "cpu")
    drawn = [case for case in fuzz.draw("own", 200, 0, 2**8) if not (case.has_far_rows or case.fault)]
    fuzzed = run(implementation, drawn, CPU)
    assert fuzzed.wrong == [] and fuzzed.undecidable > 20
    assert fuzzed.undecidable + fuzzed.right + fuzzed.faults == len(drawn)
    alone = [run(implementation, [case], CPU) for case in drawn]
    assert [one for one in alone if one.wrong] == [] and sum(one.undecidable for one in alone) == fuzzed.undecidable


def test_what_is_wrong_otherwise_is_still_found(declare: Declare) -> None:
    """Where the bounds decide nothing, a kernel must not write elsewhere all the same."""
    declare(reference=cancelling)

    def changes(x: Tensor, out: Tensor) -> Launch:
        def launch() -> None:
            out.copy_(cancelling(x.float()))
            x.fill_(1)

        return launch

    assert {finding.kind for finding in verified(changes).findings} == {"changes its input"}


def test_special_values_and_honest_bounds_are_decided(declare: Declare) -> None:
    """Where ``special`` departs from the reference, as of operations that round nothing, and in half precision."""
    declare(special=lambda ref, x: ref.masked_fill(x.isinf(), 7.0), reference=lambda x: x * 2 + (x - x))
    found = verified(lambda x, out: lambda: void(out.copy_((x.float() * 2).masked_fill(x.isinf(), 3.0))))
    assert found.undecidable == {} and found.findings == []
    forget_operation("own")
    declare(
        "outer n inner", reference=lambda x: x.softmax(1), error=lambda ref, n, unit: ref * unit * (100 + n) + 1e-30
    )
    found = verified(lambda x, out: lambda: void(out.copy_(x.double().softmax(1))))
    assert found.undecidable == {} and found.findings == []
