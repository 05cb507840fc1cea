"""A call written down: everything about it, as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kernelzoo import operations
from kernelzoo.check.fuzz import values
from kernelzoo.errors import KernelZooError

FAR = 2**30
"""Elements from one row to the next of a case that is ``far``, more or less: multiples of it don't fit 32 bits."""


class CaseError(KernelZooError, ValueError):
    """The text describes no case."""


@dataclass(frozen=True)
class Layout:
    """Where the elements of a tensor lie: strides, and the offset of the first from a 16-byte boundary, in elements."""

    strides: tuple[int, ...]
    offset: int = 0


@dataclass(frozen=True)
class Case:
    """One call. ``fault`` names what is wrong with it, see FAULTS; the rest is then as it would be without."""

    dtype: str
    shape: tuple[int, ...]
    x: Layout
    dim: Any = -1
    keepdim: bool = False
    out: Layout | None = None
    """None: the call makes its own."""
    values: str = "normal"
    seed: int = 0
    specials: tuple[tuple[str, int], ...] = ()
    """Special values and where they go: the number of the element in memory, modulo how many there are."""
    negated: bool = False
    """X is a lazily negated view."""
    fault: str = ""

    def __str__(self) -> str:
        """Compact JSON, without what is at its default."""
        said: dict[str, Any] = {"dtype": self.dtype, "shape": self.shape, "dim": self.dim, "strides": self.x.strides}
        said |= {"offset": self.x.offset} if self.x.offset else {}
        said |= {"keepdim": True} if self.keepdim else {}
        said |= {"out": [self.out.strides, self.out.offset]} if self.out else {}
        said |= {"values": self.values, "seed": self.seed}
        said |= {"specials": self.specials} if self.specials else {}
        said |= {"negated": True} if self.negated else {}
        said |= {"fault": self.fault} if self.fault else {}
        return json.dumps(said, separators=(",", ":"))

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    @property
    def far(self) -> bool:
        """Whether x spans more memory than is ever filled or compared."""
        return any(stride >= FAR for stride in self.x.strides)

    @property
    def axes(self) -> tuple[int, ...]:
        """The axes that are reduced, where nothing is wrong with them."""
        return operations.axes_of(self.dim, len(self.shape))

    def out_shape(self, op: str) -> tuple[int, ...]:
        return operations.OPERATIONS[op].out_shape(self.shape, self.axes, self.keepdim)


def parse(text: str, op: str) -> Case:
    """The case that ``str`` of one wrote down. Raises CaseError."""
    try:
        said = json.loads(text)
        known = {"dtype", "shape", "dim", "strides", "offset", "keepdim", "out", "values", "seed", "specials"}
        if strange := set(said) - known - {"negated", "fault"}:
            raise CaseError(f"a case has no {', '.join(sorted(strange))}; it has {', '.join(sorted(known))}")
        shape, dim = tuple(map(int, said["shape"])), said.get("dim", -1)
        case = Case(
            operations.full_dtype(said["dtype"]),
            shape,
            Layout(tuple(map(int, said.get("strides", contiguous(shape)))), int(said.get("offset", 0))),
            tuple(dim) if isinstance(dim, list) else dim,
            bool(said.get("keepdim", False)),
            Layout(tuple(map(int, said["out"][0])), int(said["out"][1])) if said.get("out") else None,
            said.get("values", "normal"),
            int(said.get("seed", 0)),
            tuple((str(name), int(place)) for name, place in said.get("specials", ())),
            bool(said.get("negated", False)),
            said.get("fault", ""),
        )
        for kind, name, names in (
            (f"{op} dtype", case.dtype, operations.OPERATIONS[op].dtypes),
            ("fault", case.fault, ("", *faults(case.dtype))),
        ):
            if name not in names:
                raise CaseError(f"a case has no {kind} {name!r}; known: {', '.join(filter(None, names))}")
        for kind, name, names in (
            ("values", case.values, values.families(case.dtype)),
            *(("special value", name, values.specials(case.dtype)) for name, _ in case.specials),
        ):
            if name not in names:
                raise CaseError(f"a case of {case.dtype} has no {kind} {name!r}; known: {', '.join(names)}")
        if len(case.x.strides) != len(shape) or min((*shape, *case.x.strides, case.x.offset), default=0) < 0:
            raise CaseError(f"a case has as many strides as axes, and nothing negative; got {text}")
        if case.out is not None and len(case.out.strides) != len(case.out_shape(op)):
            raise CaseError(f"out of {text} must have {len(case.out_shape(op))} strides")
    except (ValueError, KeyError, TypeError, IndexError) as error:
        if isinstance(error, KernelZooError):
            raise
        raise CaseError(f"no case {text!r}: {type(error).__name__}: {error}") from error
    return case


def contiguous(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides of a contiguous tensor."""
    strides, step = list[int](), 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(1, size)
    return tuple(reversed(strides))


def span(shape: Sequence[int], strides: Sequence[int]) -> int:
    """Elements of memory from the first to the last, both counted; 0 if there are none."""
    if not math.prod(shape):
        return 0
    return 1 + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))


# What may be wrong with a call, and the error that it must raise. The module faulty makes such calls.

FAULTS: dict[str, str] = {
    "an axis out of range": "AxisError",
    "no axis": "AxisError",
    "half an axis": "AxisError",
    "an axis twice": "AxisError",
    "another dtype": "InputTypeError",
    "a list": "InputTypeError",
    "a sparse tensor": "InputTypeError",
    "a tensor elsewhere": "DeviceError",
    "a gradient": "GradientError",
    "no such variant": "UnknownNameError",
    "out of another shape": "OutputError",
    "out of another dtype": "OutputError",
    "out within x": "OutputError",
    "out upon itself": "OutputError",
    "out that is none": "OutputError",
}


def faults(dtype: str) -> tuple[str, ...]:
    """What may be wrong with a call on a tensor of that dtype."""
    return tuple(name for name in FAULTS if name != "a gradient" or dtype in operations.FLOATS)
