"""Tensors whose storages are freed, shrunk, moved, grown or set to others between two calls."""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

import kernelzoo
from kernelzoo.errors import InputTypeError, KernelZooError, OutputError
from kernelzoo.launch import void

LOST, STILL_THERE = ("freed", "shrunk"), ("moved", "grown", "set")
BEFORE = 64
"""Elements of a storage before the tensor that is a view into it: a freed one then has an address that is not 0."""


def tensor(values: torch.Tensor, before: int) -> torch.Tensor:
    """A tensor of its own storage with these values and strides."""
    memory = torch.zeros(before + values.numel(), dtype=values.dtype, device=values.device)
    return memory.as_strided(values.shape, values.stride(), before).copy_(values)


def change(x: torch.Tensor, how: str) -> None:
    """What a program may do to a storage under a tensor, whose values stay where it has memory."""
    values, storage = x.detach().clone(), x.untyped_storage()
    size = storage.nbytes()
    with torch.no_grad():
        if how == "set":
            other = torch.empty(2 * size, dtype=torch.uint8, device=x.device).untyped_storage()
            x.data = x.detach().set_(other, x.storage_offset(), x.shape, x.stride())  # as x.set_(), if x is no leaf
        else:
            storage.resize_({"freed": 0, "shrunk": size - 4, "moved": 0, "grown": 2 * size}[how])
        if how == "moved":
            storage.resize_(size)
        if how in STILL_THERE:
            x.detach().copy_(values)


def mend(x: torch.Tensor, values: torch.Tensor, size: int) -> None:
    x.untyped_storage().resize_(size)
    with torch.no_grad():
        x.detach().copy_(values)


@dataclass
class Way:
    """One way into a launch, on tensors of its own: called once, again, and once more."""

    name: str
    tensors: dict[str, torch.Tensor]
    call: Callable[[], Any]
    expected: torch.Tensor

    def right(self, found: Any) -> bool:
        """Whether what was returned, or written into an output, is as expected."""
        result = self.tensors.get("out", self.tensors.get("least", found))
        return torch.allclose(result.detach(), self.expected, rtol=1e-4, atol=1e-5)


def ways(backend: Any, values: torch.Tensor, dim: int, before: int) -> Iterator[Way]:
    y, least, half = torch.softmax(values, dim), values.amin(dim), values.half()
    backward = y * (values - (values * y).sum(dim, keepdim=True))
    known = {"x": values, "out": values, "least": least, "grad": values, "y": y, "half": half}

    def way(name: str, names: str, call: Callable[..., Any], expected: torch.Tensor) -> Way:
        tensors = {one: tensor(known[one], before) for one in names.split()}
        return Way(name, tensors, lambda: call(**tensors), expected)

    yield way("call", "x", lambda x: backend.softmax(x, dim), y)
    yield way("min", "x", lambda x: backend.min(x, dim), least)
    yield way("out", "x out", lambda x, out: backend.softmax(x, dim, out=out), y)
    yield way("min out", "x least", lambda x, least: backend.min(x, dim, out=least), least)
    several = backend.softmax_backward
    yield way("several", "grad y", lambda grad, y: several(grad, y, dim), backward)
    yield way("several out", "grad y out", lambda grad, y, out: several(grad, y, dim, out=out), backward)
    learnt = way("gradient", "x", lambda x: backend.softmax(x, dim), y)
    learnt.tensors["x"].requires_grad_()
    yield learnt
    yield way("dtype", "x", lambda x: backend.softmax(x, dim, dtype=torch.float64), y.double())
    if values.is_cuda:  # where autocast converts half precision

        def under_autocast(half: torch.Tensor) -> Any:
            with torch.autocast("cuda"):
                return backend.softmax(half, dim)

        yield way("autocast", "half", under_autocast, torch.softmax(half.float(), dim))
    for name, op, names, expected in (
        ("launch", "softmax", "x out", y),
        ("several launch", "softmax_backward", "grad y out", backward),
    ):
        bound = way(name, names, void, expected)
        *inputs, out = bound.tensors.values()
        bound.call = kernelzoo.implementation(f"{backend.name}/{op}/auto").launch(*inputs, dim=dim, out=out)
        yield bound
    if values.ndim == 2 and dim == 1:
        shown = way("bind", "x out", void, y)
        views = [one.as_strided((len(one), one.size(1), 1), (*one.stride(), 1)) for one in shown.tensors.values()]
        shown.call = kernelzoo.implementation(f"{backend.name}/softmax/auto").bind(*views)
        yield shown


LAYOUTS: dict[str, Callable[[str], tuple[torch.Tensor, int]]] = {
    "rows": lambda device: (torch.randn(8, 64, device=device), 1),
    "columns": lambda device: (torch.randn(64, 96, device=device), 0),
    "copied": lambda device: (torch.randn(3, 4, 5, 6, device=device).permute(2, 0, 3, 1), 1),
    "long": lambda device: (torch.randn(2, 2**18 if device == "cuda" else 2**12, device=device), 1),
}
"""The last one in parts, by kernels that have a workspace."""


def tried(backend: Any, device: str, layout: str, how: str) -> Iterator[str]:
    """What goes wrong where the storages of tensors are changed so, in each way."""
    for before in (0, BEFORE):
        for repeats in (0, 1 if backend.emulator else 3):  # which keeps no launch
            values, dim = LAYOUTS[layout](device)
            for way in ways(backend, values, dim, before):
                for name, x in way.tensors.items():
                    said = f"{backend.name}, {layout}, {way.name}, {name} {how} at {before} after {repeats} calls"
                    yield from _tried(way, name, x, how, repeats, said)


def _tried(way: Way, name: str, x: torch.Tensor, how: str, repeats: int, said: str) -> Iterator[str]:
    for _ in range(repeats):
        if not way.right(way.call()):
            yield f"{said}: wrong before"
    values, size = x.detach().clone(), x.untyped_storage().nbytes()
    change(x, how)
    wanted = OutputError if name in ("out", "least") else InputTypeError
    try:
        found = way.call()
    except KernelZooError as error:
        if how in STILL_THERE or type(error) is not wanted:
            yield f"{said}: {error!r}"
    else:
        if how in LOST:
            yield f"{said}: it ran"
        elif not way.right(found) and not (how == "set" and way.name in BOUND):
            yield f"{said}: wrong after"
    mend(x, values, size if how in LOST else x.untyped_storage().nbytes())
    if how != "set" and not way.right(way.call()):
        yield f"{said}: wrong once it is mended"


BOUND = ("launch", "several launch", "bind")
"""Ways that stay with the memory that they were bound to, though a tensor was set to other memory."""


def backwards(backend: Any, device: str) -> Iterator[str]:
    """What goes wrong where what a gradient needs loses its storage after the call."""
    for keepdim in (False, True):
        for lose in ("x", "found", "grad"):
            for _ in range(3):
                x = torch.randn(8, 64, device=device, requires_grad=True)
                softmax = backend.softmax(x, 1)
                found = backend.min(x, 1, keepdim) if keepdim or lose == "x" else softmax
                found.sum().backward()
            x = torch.randn(8, 64, device=device, requires_grad=True)
            found = backend.min(x, 1, keepdim) if keepdim or lose == "x" else backend.softmax(x, 1)
            grad = torch.ones_like(found)
            {"x": x, "found": found, "grad": grad}[lose].untyped_storage().resize_(0)
            try:
                found.backward(grad)
            except InputTypeError:
                continue
            yield f"{backend.name}, gradient of min={keepdim}, {lose} freed: it ran"


def main(name: str, device: str) -> None:
    backend = kernelzoo.get(name)
    for layout in LAYOUTS:
        for how in (*STILL_THERE, *LOST):  # first what should run
            for line in tried(backend, device, layout, how):
                print(line, flush=True)
    for line in backwards(backend, device):
        print(line, flush=True)
    if device == "cuda":
        torch.cuda.synchronize()
    print("walked")


if __name__ == "__main__":
    main(*sys.argv[1:])
