"""Suggestions for a pattern that matches no implementation."""

from collections.abc import Sequence

from kernelzoo.errors import close


def unknown(pattern: str, ids: Sequence[str], ops: Sequence[str]) -> str:
    """The message for a pattern without a match."""
    shorthands, meant = dict[str, str](), dict[str, str]()
    for backend, op, variant in (id.split("/") for id in ids):
        if not ops or op in ops:
            shorthands |= {backend: f"'{backend}/*'", f"{backend}/{variant}": f"'{backend}/*/{variant}'"}
            meant |= {f"{backend}/{op}/{variant}": "", op: f"'*/{op}/*'", variant: f"'*/*/{variant}'"}
            meant[f"{backend}/{op}"] = f"'{backend}/{op}/*'"
    meant |= dict.fromkeys(shorthands, "") if ops else shorthands
    near = next(iter([pattern] if pattern in meant else close(pattern, list(meant), 1)), "")
    return (
        f"no implementation {pattern!r}{' of ' if ops else ''}{' or '.join(ops)}; "
        + (f"did you mean {meant[near] or near}?" if near else "kernelzoo list shows them all")
        + (f" With --op, {pattern!r} is enough" if not ops and pattern in shorthands else "")
    )
