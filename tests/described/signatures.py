"""Makes the operations of kernelzoo/signatures.pyi from their classes: ``python tests/described/signatures.py``."""

from __future__ import annotations

import inspect
from pathlib import Path

import kernelzoo
from kernelzoo import operations
from kernelzoo.calls.methods import signature_of

FILE = Path(kernelzoo.__file__).parent / "signatures.pyi"
HOW = ("batch_invariant", "variant")
"""Parameters that all operations have alike."""
BEGIN = "# Written by tests/described/signatures.py\n"


def typed(op: operations.Operation, name: str, given: inspect.Parameter, tensor: str) -> str:
    """A parameter with its type."""
    axis = "_Axes" if op.several_axes else "_Axis"
    outs = len(op.outputs)
    out = tensor if outs == 1 else f"tuple[{', '.join([tensor] * outs)}] | list[{tensor}]"
    if name in op.inputs:
        return f"{name}: {tensor}" + (" | None = None" if given.default is None else "")
    if name in op.scalars:
        return f"{name}: {type(given.default).__name__} = {given.default!r}"
    return {
        "dim": f"dim: {axis} = -1",
        "keepdim": "keepdim: bool = False",
        "axis": f"axis: {axis} = ...",
        "keepdims": "keepdims: bool | None = None",
        "dtype": "dtype: torch.dtype | npt.DTypeLike | None = None" if tensor == "_T" else "dtype: Any = None",
        "out": "out: Any = None" if tensor == "_Other" else f"out: {out} | None = None",
    }[name]


def call(op: operations.Operation, tensor: str) -> str:
    """One ``__call__``: _T is a tensor or NumPy's array, _U also an array of another library."""
    arguments, keyword = ["self"], False
    for name, given in signature_of(op).parameters.items():
        if given.kind is inspect.Parameter.KEYWORD_ONLY and not keyword:
            arguments, keyword = [*arguments, "*"], True
        if name not in HOW:
            arguments.append(typed(op, name, given, tensor))
    arguments.append("**how: Unpack[_How]")
    outs = len(op.outputs)
    result = "Any" if tensor == "_Other" else tensor if outs == 1 else f"tuple[{', '.join([tensor] * outs)}]"
    return f"    def __call__({', '.join(arguments)}) -> {result}: ...\n"


def title(name: str) -> str:
    return f"_{name.title().replace('_', '')}"


def protocol(op: operations.Operation) -> str:
    """The body of an operation's class: overloads where arrays of other libraries give Any."""
    known = {*operations.MAPPED, *(operations.OPERATIONS[name].gradient for name in operations.MAPPED)}
    return (
        f"    @overload\n{call(op, '_T')}\n    @overload\n{call(op, '_Other')}" if op.name in known else call(op, "_U")
    )


def written() -> str:
    """Everything below BEGIN, before ruff formats it. Operations that are called alike share a class."""
    classes: dict[str, str] = {}
    kinds = {
        name: classes.setdefault(protocol(operations.OPERATIONS[name]), title(name)) for name in operations.BUILT_IN
    }
    text = "".join(f"\n\nclass {name}(Protocol):\n{body}" for body, name in classes.items())
    lines = [f"{name}: {kind}\n" for name, kind in kinds.items()]
    text += f"\n\n{''.join(lines)}"
    text += "\n\nclass _Operations:  # as methods of a backend\n"
    return text + "".join(f"    {line}" for line in lines)


if __name__ == "__main__":
    head = FILE.read_text(encoding="utf-8").partition(BEGIN)[0]
    FILE.write_text(head + BEGIN + written(), encoding="utf-8")
    print("written; now: ruff format", FILE)
