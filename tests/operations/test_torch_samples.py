"""Torch's own samples (OpInfo) of the operations: results, and gradients, within the bounds of kernelzoo's.

Torch's norms are over last axes alone: here each is taken over the first one too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any
from unittest import mock

import pytest
import torch
from running_here import backends, variants
from sampled import has_auto

import kernelzoo
from kernelzoo.check.running import slow_to_bind
from kernelzoo.errors import BackendUnavailableError, UnsupportedProblemError
from kernelzoo.operations import FLOATS, INTEGERS, OPERATIONS, axes_of
from kernelzoo.operations.declared import ROW

DEVICES = backends()
INFOS = {
    **{op: op for op in ("softmax", "sum", "logsumexp", "argmin", "cumsum")},
    **{op: f"nn.functional.{op}" for op in ("rms_norm", "layer_norm", "cross_entropy")},
    "min": "amin",
}
"""Torch's name of each operation that it has samples of."""
LEFT_OUT = {"probabilities": 10, "class weights": 3, "another dtype": 1}
"""What a sample says that no call of kernelzoo does, and how many of one operation and dtype do."""
FORMS = pytest.mark.nightly, pytest.mark.sampled(4)
"""Marks of forms that ``auto`` chooses among."""
Call = tuple[list[torch.Tensor], dict[str, Any]]
"""The inputs of a call, and what it says by name."""


def translated(op: str, x: torch.Tensor, *rest: Any, **named: Any) -> Call | str:
    """Torch's call as one of kernelzoo's, or why there is none. Axes that a norm is over become one, and so do all that
    an argmin is over. A loss is that of each row, whatever torch makes of all of them."""
    if op == "cross_entropy":
        (labels,) = rest
        if labels.is_floating_point():
            return "probabilities"
        named.pop("reduction", None)
        return "class weights" if "weight" in named else ([x, labels], {**named, "dim": min(1, x.ndim - 1)})
    if op in ("rms_norm", "layer_norm"):
        shape, *given = rest
        given = given or [x.new_ones(shape), x.new_zeros(shape)][: len(OPERATIONS[op].inputs) - 1]
        eps = named.get("eps", 1e-5 if op == "layer_norm" else torch.finfo(x.dtype).eps)
        return [x.flatten(x.ndim - len(shape)), *(one.flatten() for one in given)], {"eps": eps}
    wide = x.dtype if x.is_floating_point() else torch.int64
    if op == "cumsum" and named.pop("dtype", wide) != wide:
        return "another dtype"
    named = {**dict(zip(("dim", "keepdim"), rest, strict=False)), **named}
    if named.get("dim") is None:
        return ([x.reshape(-1)], {"dim": 0}) if op == "argmin" else ([x], {**named, "dim": ()})
    return [x], named


def samples(op: str, device: str) -> Iterator[tuple[torch.dtype, Call | str]]:
    """Each sample in each dtype that kernelzoo takes or converts, as it is and with other strides."""
    with mock.patch("torch.backends.disable_global_flags"):  # which the import calls: other tests set such flags
        from torch.testing._internal.common_methods_invocations import op_db

    def there(x: Any) -> Any:
        return x.to(device) if isinstance(x, torch.Tensor) else x

    for info in (info for info in op_db if info.name == INFOS[op]):
        for name in FLOATS + INTEGERS if info.variant_test_name == "with_dtype" else OPERATIONS[op].dtypes:
            dtype = getattr(torch, name)
            for one in info.reference_inputs(device, dtype) if dtype in info.supported_dtypes(device) else ():
                for sample in (one, one.noncontiguous()):
                    sample = sample.transform(there)  # some of torch's are on the host whatever the device
                    call = translated(op, sample.input, *sample.args, **sample.kwargs)
                    yield dtype, call
                    if op in ("rms_norm", "layer_norm") and not isinstance(call, str):
                        (x, *rest), named = call
                        yield dtype, ([x.movedim(-1, 0), *rest], {**named, "dim": 0})


def check_gradients(op: str, result: torch.Tensor, inputs: Sequence[torch.Tensor], named: dict[str, Any]) -> None:
    """Check those of a call's floats: within the bounds of the gradient, if it is an operation, else beside torch's."""
    operation, x, differentiated = OPERATIONS[op], inputs[0], [x for x in inputs if x.requires_grad]
    grad = torch.linspace(-1, 2, result.numel(), dtype=result.dtype, device=result.device).view(result.shape)
    found = torch.autograd.grad(result, differentiated, grad)
    if operation.gradient == "reference":
        right = torch.autograd.grad(getattr(torch, operation.in_torch)(x, **named), differentiated, grad)
        near = 4 * torch.finfo(x.dtype).eps
        torch.testing.assert_close(found, right, rtol=near, atol=near, equal_nan=True)
        return
    dims = axes_of(named.get("dim", -1), x.ndim) or (0,)
    rows = [d for d in range(x.ndim) if d not in dims]

    def along_last(tensor: torch.Tensor, names: tuple[str, ...]) -> torch.Tensor:
        if names == ROW and x.ndim:  # the axes of a row, as the one that the gradient's operation takes
            tensor = tensor.permute(*rows, *dims).flatten(len(rows))
        return tensor.detach().reshape([x.size(d) for d in rows] if names == ("outer", "inner") else tensor.shape)

    known = {**dict(zip(operation.inputs, inputs, strict=True)), "y": result, "grad": grad}
    backward = OPERATIONS[operation.gradient]
    of = len(backward.inputs)
    tensors = tuple(map(along_last, [*(known[name] for name in backward.inputs), *found], backward.axes))
    scalars = {name: value for name, value in named.items() if name in operation.scalars}
    backward.assert_close(tensors[of:], tensors[:of], **scalars)


@pytest.mark.xdist_group("torch's own samples")  # one process imports them
@pytest.mark.parametrize(
    "id",
    [
        pytest.param(id, marks=FORMS if has_auto(*id.split("/")[:2]) and "/auto" not in id else ())
        for id in variants(*INFOS)
        if not slow_to_bind(id)
    ],
)
def test_torch_s_own_samples(id: str) -> None:
    pytest.importorskip("expecttest")  # which torch's samples need
    backend, op, variant = id.split("/")
    method, operation, seen = getattr(kernelzoo.get(backend), op), OPERATIONS[op], 0
    left_out = Counter[tuple[torch.dtype, str]]()
    for dtype, call in samples(op, DEVICES[backend]):
        if isinstance(call, str):
            left_out[dtype, call] += 1
            continue
        plain, named = [x.detach() for x in call[0]], call[1]
        inputs = [x.detach().requires_grad_(x.is_floating_point() and bool(operation.gradient)) for x in plain]
        try:
            result = method(*inputs, **named, variant=variant)
        except (UnsupportedProblemError, BackendUnavailableError):
            continue
        seen += 1
        converted = named.pop("dtype", plain[0].dtype)
        operation.assert_close(result.detach(), (plain[0].to(converted), *plain[1:]), **named)
        if result.requires_grad and converted == plain[0].dtype:
            check_gradients(op, result, inputs, named)
    assert all(count <= 2 * LEFT_OUT[why] for (_, why), count in left_out.items()), left_out
    if not seen:
        pytest.skip("refuses all of them")
