"""The known operations: built-in ones, those of other distributions, and those of a user's module."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from functools import cache
from typing import Any

from kernelzoo.errors import RegistrationError
from kernelzoo.operations.declared import Input, Output, Scalar
from kernelzoo.operations.declaring import HOOK_TYPES, declared
from kernelzoo.operations.meaning import Operation

ENTRY_POINTS = "kernelzoo.operations"
"""Entry-point group of other packages' operations: a name, and the module that declares it."""

MAPPED = ("softmax", "min")
"""Built-in operations that are benchmarked by default on every shape of a set."""

CALLED = (
    *(*MAPPED, "softmax_backward", "min_backward"),
    *("sum", "logsumexp", "logsumexp_backward", "argmin"),
    *("cross_entropy", "cross_entropy_backward"),
    *("rms_norm", "rms_norm_backward", "add_rms_norm"),
    *("layer_norm", "layer_norm_backward", "cumsum", "quantize_rows"),
)
"""The built-in operations that people call, and their gradients."""

BUILT_IN = (
    *CALLED,
    *("softmax_pairs", "softmax_merge", "softmax_finish"),
    *("vecdot", "softmax_backward_finish", "min_backward_counts", "min_backward_finish"),
)
"""The built-in operations, each in a file of this folder."""


@cache
def module_names() -> dict[str, str]:
    """Return the module of each built-in operation, and of each one in ENTRY_POINTS, by name. Imports none of them."""
    import importlib.metadata  # slow to import, and only needed here

    others = {point.name: point.value for point in importlib.metadata.entry_points(group=ENTRY_POINTS)}
    return others | {name: f"{__package__}.{name}" for name in BUILT_IN}


class Operations(Mapping[str, Operation]):
    """All known operations by name. A module of :func:`module_names` is imported when its operation is first used."""

    def __getitem__(self, name: str) -> Operation:
        if name not in declared:
            importlib.import_module(module_names()[name])
            if name not in declared:
                raise RegistrationError(f"{module_names()[name]} is announced as operation {name!r}, and declares none")
        return declared[name]

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys((*module_names(), *declared)))

    def __len__(self) -> int:
        return len({*module_names(), *declared})

    def __contains__(self, name: object) -> bool:
        return name in declared or name in module_names()


OPERATIONS = Operations()


_SENT_HOOKS = {*HOOK_TYPES} - {"domain", "finite"}
"""The hooks whose values another process needs."""


def signature_fields(op: Operation) -> dict[str, Any]:
    """Return an operation's signature as JSON, with the values that another process needs, but no functions."""
    parts = ("inputs", "scalars", "outputs")
    return {
        **{key: getattr(op, key) for key in ("name", "doc", "dtypes", "several_axes", "in_torch")},
        **{part: {name: asdict(one) for name, one in getattr(op, part).items()} for part in parts},
        "hooks": {key: value if key in _SENT_HOOKS else None for key, value in op.hooks.items()}
        | {"derived": op.derived},
    }


def register_signature(json_fields: Mapping[str, Any]) -> None:
    """Register an operation of which only the signature is known, sent by another process."""

    def made(kind: Any, part: str) -> dict[str, Any]:
        return {
            name: kind(**{key: tuple(value) if isinstance(value, list) else value for key, value in one.items()})
            for name, one in json_fields[part].items()
        }

    if json_fields["name"] not in OPERATIONS:
        tensors = {"inputs": made(Input, "inputs"), "outputs": made(Output, "outputs")}
        known = {**json_fields, **tensors, "scalars": made(Scalar, "scalars"), "dtypes": tuple(json_fields["dtypes"])}
        declared[json_fields["name"]] = Operation(**known)
