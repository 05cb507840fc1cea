"""The axes of a tensor as text, such as ``"M N>=4"``: names, and bounds on their sizes."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache

from kernelzoo.errors import RegistrationError

_AXIS = re.compile(r"(\w+)((?:,?(?:>=\d+|<=\d+|%\d+==0))*)")
_BOUND = re.compile(r"(>=|<=|%)(\d+)")
_FORM = "an axis is a name or a size, and a name may have bounds: N, 4, N>=4, N<=1024, N%8==0, N>=4,<=1024"


@dataclass(frozen=True)
class Limit:
    """The sizes that an axis may have."""

    least: int = 0
    most: int | None = None
    steps: tuple[int, ...] = ()
    """Numbers that divide the size."""

    def __str__(self) -> str:
        """Return the limit as in a declaration: ``">=4,%8==0"``."""
        said = [f">={self.least}"] if self.least else []
        said += [f"<={self.most}"] if self.most is not None else []
        return ",".join(said + [f"%{step}==0" for step in self.steps])

    def allows(self, size: int) -> bool:
        inside = size >= self.least and (self.most is None or size <= self.most)
        return inside and not any(size % step for step in self.steps)

    def nearest(self, size: int) -> int:
        """Return an allowed size of at least 1, close to ``size``. Raises ValueError if there is none."""
        step = math.lcm(1, *self.steps)
        size = max(size, self.least, 1)
        up = -(-size // step) * step
        if self.most is None or up <= self.most:
            return up
        down = self.most // step * step
        if down < max(self.least, 1):
            raise ValueError(f"no size is {self}")
        return down


@cache
def parse_axes(text: str) -> tuple[tuple[str, ...], tuple[tuple[str, Limit], ...]]:
    """Parse the names of axes, and the limits of those with bounds. Raises RegistrationError for a wrong text.

    >>> parse_axes("M N>=4 8")
    (('M', 'N', '8'), (('N', Limit(least=4, most=None, steps=())),))
    """
    names, limits = list[str](), list[tuple[str, Limit]]()
    for word in text.split():
        found = _AXIS.fullmatch(word)
        name, bounds = found.groups() if found else ("", "")
        if not (name.isidentifier() or (name.isdigit() and not bounds)):
            raise RegistrationError(f"axes {text!r}: can't read {word!r}; {_FORM}")
        names.append(name)
        if bounds:
            limits.append((name, _parse_limit(_BOUND.findall(bounds), text)))
    return tuple(names), tuple(limits)


def _parse_limit(bounds: Iterable[tuple[str, str]], text: str) -> Limit:
    numbers: dict[str, list[int]] = {">=": [0], "<=": [], "%": []}
    for sign, number in bounds:
        numbers[sign].append(int(number))
    if 0 in numbers["%"]:
        raise RegistrationError(f"axes {text!r}: nothing is a multiple of 0")
    return Limit(max(numbers[">="]), min(numbers["<="], default=None), tuple(numbers["%"]))


def merge_limits(texts: Iterable[str]) -> dict[str, Limit]:
    """Combine the bounds of each axis in all texts. Raises RegistrationError if no size satisfies them."""
    found: dict[str, Limit] = {}
    for name, more in (pair for text in texts for pair in parse_axes(text)[1]):
        known = found.get(name, Limit())
        most = [most for most in (known.most, more.most) if most is not None]
        steps = tuple(dict.fromkeys((*known.steps, *more.steps)))
        found[name] = Limit(max(known.least, more.least), min(most, default=None), steps)
    for name, limit in found.items():
        try:
            limit.nearest(1)
        except ValueError as error:
            raise RegistrationError(f"axis {name}: {error}") from None
    return found


def broken_limit(limits: Mapping[str, Limit], sizes: Mapping[str, int]) -> str:
    """Say which size breaks which bound; "" if none does."""
    return "; ".join(
        f"{axis} is {sizes[axis]}, must be {limit}"
        for axis, limit in limits.items()
        if axis in sizes and not limit.allows(sizes[axis])
    )
