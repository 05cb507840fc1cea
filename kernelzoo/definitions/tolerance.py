"""The tolerances that a problem set states. They are only shown, unless the user asks to replace bounds by them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from kernelzoo.definitions.files import Json, safe_name
from kernelzoo.errors import ContractError
from kernelzoo.lazy import torch
from kernelzoo.operations.expected import Bounds, Expected

VARIABLE = "KERNELZOO_THEIR_TOLERANCE"
"""The environment variable that ``--their-tolerance`` sets to 1 for the processes that judge."""


@dataclass(frozen=True)
class Tolerance:
    """The error that a problem set's own check allows. The defaults are those of the set SOL-ExecBench."""

    max_atol: float = 1e-2
    max_rtol: float = 1e-2
    required_matched_ratio: float = 0.99
    max_error_cap: float | None = None
    allow_negative_inf: bool = False

    def __str__(self) -> str:
        more = "" if self.max_error_cap is None else f", none off by more than {self.max_error_cap:g}"
        within = f"{self.max_atol:g} + {self.max_rtol:g} of the result"
        return f"{self.required_matched_ratio:.4g} of all elements within {within}{more}"


def uses_tolerance_of_problem_set() -> bool:
    """Whether the user asked for the tolerances of the problem sets in place of kernelzoo's bounds."""
    return os.environ.get(VARIABLE) == "1"


def tolerance_of(workloads: Sequence[Json], sizes: dict[str, int]) -> Tolerance | None:
    """Return the tolerance of the workload with these sizes, else of the first that states one; None if none does."""
    stated = [one for one in workloads if one.get("tolerance")]
    for one in workloads if sizes else stated:
        scalars = {name: x["value"] for name, x in one["inputs"].items() if x["type"] == "scalar" and "value" in x}
        if all(sizes.get(safe_name(name), size) == size for name, size in {**one["axes"], **scalars}.items()):
            return _parse_tolerance(one.get("tolerance") or {})
    return _parse_tolerance(stated[0]["tolerance"]) if stated else None


def _parse_tolerance(said: Json) -> Tolerance:
    known = {"required_matched_ratio": said.get("required_match_ratio"), **said}
    return Tolerance(**{name: known[name] for name in Tolerance.__annotations__ if known.get(name) is not None})


@dataclass(frozen=True)
class ToleratedResults(Expected):
    """The results that a set's own check accepts: most elements are close to the reference as it is written."""

    tolerance: Tolerance = Tolerance()

    def check_within_bounds(self, outs: Sequence[torch.Tensor]) -> None:
        """Raise ContractError for results that the problem set's own check would reject."""
        for bounds, out in zip(self.outputs, outs, strict=True):
            if (out.shape, out.dtype) != (bounds.lower.shape, bounds.lower.dtype):
                Bounds(bounds.name, bounds.lower, bounds.upper).check(out)
            result, right = out.float(), bounds.lower.float()
            same = (result == right) & (right == -torch.inf) if self.tolerance.allow_negative_inf else result != result
            off = (result - right).abs()
            near = off <= self.tolerance.max_atol + self.tolerance.max_rtol * right.abs()
            close = same | (near & result.isfinite() & right.isfinite())
            cap = self.tolerance.max_error_cap
            most = cap is not None and bool((off[~same] > cap).any())
            share = float(close.double().mean()) if close.numel() else 1.0
            finite = bool((same | (result.isfinite() & right.isfinite())).all())
            if share < self.tolerance.required_matched_ratio or most or not finite:
                words = f"{share:.4g} of {close.numel()} elements within their tolerance ({self.tolerance})"
                raise ContractError(f"{bounds.name}: {words}{'' if finite else ', and some not finite'}", "wrong value")
