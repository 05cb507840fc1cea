"""Suggestions for a pattern that matches no implementation."""

from collections.abc import Sequence
from fnmatch import fnmatchcase

from kernelzoo.errors import close


def unknown(pattern: str, ids: Sequence[str], ops: Sequence[str]) -> str:
    """The message for a pattern without a match."""
    wanted = f" of {' or '.join(ops)}" if ops else ""
    near = _meant(pattern, [id for id in ids if not ops or id.split("/")[1] in ops], short=bool(ops))
    meant = f"did you mean {' or '.join(near)}?" if near else "kernelzoo list shows them all"
    backend, _, variant = pattern.partition("/")
    short = not ops and any(id.split("/")[0] == backend and (not variant or id.split("/")[2] == variant) for id in ids)
    return f"no implementation {pattern!r}{wanted}; {meant}" + (f" With --op, {pattern!r} is enough" if short else "")


# Possible positions of a pattern's words in an id, and of a shorthand's words with --op.
_PLACES = {1: ((0,), (1,), (2,)), 2: ((0, 1), (0, 2), (1, 2)), 3: ((0, 1, 2),)}
_SHORT = {1: ((0,),), 2: ((0, 2),), 3: ((0, 1, 2),)}


def _meant(pattern: str, ids: Sequence[str], *, short: bool) -> list[str]:
    """Patterns, shorthands or ids with a match and a similar spelling, the closest first."""
    parts = pattern.split("/")
    columns = [sorted(set(column)) for column in zip(*(id.split("/") for id in ids), strict=True)]
    found: list[tuple[float, str]] = []
    for places in (_SHORT if short else _PLACES).get(len(parts), ()) if columns else ():
        words = {
            place: part if "*" in part else next(iter(close(part, columns[place], 1)), "")
            for place, part in zip(places, parts, strict=True)
        }
        whole = "/".join(words.get(place, "*") for place in range(3))
        if all(words.values()) and any(fnmatchcase(id, whole) for id in ids):
            off = sum(words[place] != part for place, part in zip(places, parts, strict=True))
            if short and len(parts) < 3:
                found.append((off, "/".join(words.values())))
            else:
                shorter = whole.removesuffix("/*") if whole.endswith("/*/*") else whole  # cpu/* for cpu/*/*
                found.append((off, f"'{shorter}'" if "*" in whole else whole))
    best = min((off for off, _ in found), default=0)
    meant = list(dict.fromkeys(text for off, text in sorted(found) if off == best))
    return meant[:3] or close(pattern, ids)
