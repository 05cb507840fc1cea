"""What a usual run takes of the contract: in every language each class of special rows, each dtype and each form."""

from __future__ import annotations

import re
from collections import defaultdict
from functools import cache

import pytest
import sampled

import kernelzoo
from kernelzoo.check.case import Case
from kernelzoo.check.cases import cases
from kernelzoo.operations import OPERATIONS
from kernelzoo.packages import BUILT_IN

pytestmark = pytest.mark.xdist_group("sampled")  # what is taken is asked once

CLASSES = {
    "special values, NaN, both infinities and subnormal ones among them": r"-special-values-300$",
    "mostly -inf": r"-mostly-minus-inf$",
    "empty": r"-empty-",
    "strided": r"-(columns-stepped|rows-stepped|rows-expanded)$",
    "across": r"-(dim0|middle)$",
    "large offsets": r"-apart$",
}


@cache
def taken(backend: str) -> dict[str, dict[str, list[Case]]]:
    """By operation and variant."""
    found: dict[str, dict[str, list[Case]]] = defaultdict(dict)
    for i in kernelzoo.implementations(backend):
        found[i.op][i.variant] = [case for case in cases(i.op) if not sampled.is_left_out(i, case)]
    return found


@pytest.mark.parametrize("core", [False, True], ids=["whole", "core"])
@pytest.mark.parametrize("backend", BUILT_IN)
def test_every_language_meets_every_class_in_every_operation(backend: str, core: bool) -> None:
    """Of the core too, with which sessions whose emulators are slow are content."""
    for op, variants in taken(backend).items():
        leading = variants.get("auto") or next(iter(variants.values()))
        chosen = [case for case in leading if not core or case.core or sampled.needed(case)]
        names = [case.name for case in chosen]
        whole = [case.name for case in cases(op)]
        for what, pattern in CLASSES.items():
            assert any(re.search(pattern, name) for name in names) or not any(
                re.search(pattern, name) for name in whole
            ), (backend, op, what)
        if "auto" in variants:
            assert {case.dtype for case in chosen} == set(OPERATIONS[op].dtypes), (backend, op)


@pytest.mark.parametrize("backend", BUILT_IN)
def test_every_form_meets_special_values_and_other_kinds(backend: str) -> None:
    for op, variants in taken(backend).items():
        for variant, chosen in variants.items():
            kinds = {sampled._kind(case) for case in chosen}
            assert {"special-values-300", "special-values-dim0", "dim0"} <= kinds, (backend, op, variant)
            assert len(kinds) >= 5, (backend, op, variant, kinds)


def test_most_is_left_out_and_always_the_same() -> None:
    auto = kernelzoo.implementation("triton/softmax/auto")
    for i in (auto, kernelzoo.implementation("triton/softmax/fused")):
        left = [case.name for case in cases("softmax") if sampled.is_left_out(i, case)]
        assert left == [case.name for case in cases("softmax") if sampled.is_left_out(i, case)]
        assert len(left) > len(cases("softmax")) / 3
