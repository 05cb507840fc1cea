"""Implementations that break under load, each in one way that a section of run.py must catch."""

import functools
import os
import threading
import time
from collections.abc import Callable

import torch

import kernelzoo
from kernelzoo.launch import Launch, void

Tensor = torch.Tensor

CAUGHT_BY = {
    "narrow": "sizes", "leaky": "memory", "greedy": "memory", "racy": "threads", "lazy": "threads", "frozen": "graphs",
    "deadly": "graphs", "endless": "graphs", "ambient": "modes", "unforkable": "processes",
    "homebound": "streams", "unready": "streams", "settled": "devices",
}  # fmt: skip
"""Backend of this module, and the section that must fail it; the last three need a GPU."""


def _softmax(x: Tensor, out: Tensor) -> None:
    out.copy_(torch.softmax(x.double(), 1))


def launch(name: str, op: str) -> Callable[[Callable[[Tensor, Tensor], None]], Callable[[Tensor, Tensor], None]]:
    """Register the backend whose launch does this."""

    def decorate(work: Callable[[Tensor, Tensor], None]) -> Callable[[Tensor, Tensor], None]:
        @kernelzoo.register(name, op, "auto")
        @functools.wraps(work)
        def bind(x: Tensor, out: Tensor) -> Launch:
            return lambda: work(x, out)

        return work

    return decorate


@launch("narrow", "min")
def narrow(x: Tensor, out: Tensor) -> None:
    """Offsets in 32 bits (18 on the host): an element past them is that of where the offset wraps around to."""
    reach = 2**32 if x.is_cuda else 2**18
    outer, n, inner = x.shape
    last = (outer - 1) * x.stride(0) + (n - 1) * x.stride(1) + (inner - 1) * x.stride(2)
    if last < reach:
        out.copy_(torch.amin(x, 1))
        return
    flat = x.as_strided((last + 1,), (1,))
    for o in range(outer):
        for start in range(0, n, 2**24):
            steps = torch.arange(start, min(n, start + 2**24), device=x.device)
            for i in range(0, inner, 1024):
                lanes = torch.arange(i, min(inner, i + 1024), device=x.device)
                at = (o * x.stride(0) + steps[:, None] * x.stride(1) + lanes * x.stride(2)) % reach
                least = flat[at].amin(0)
                part = out[o, i : i + 1024]
                part.copy_(least if start == 0 else torch.minimum(part, least))


_hoard: list[object] = []


@launch("leaky", "softmax")
def leaky(x: Tensor, out: Tensor) -> None:
    """Keeps a kilobyte of each call."""
    torch.softmax(x, 1, out=out)
    _hoard.append(bytearray(1000))


@kernelzoo.register("greedy", "softmax", "auto")
def greedy(x: Tensor, out: Tensor) -> Launch:
    """Keeps what it had taken when memory ran out."""

    def launch() -> None:
        for _ in range(64):
            taken.append(torch.empty(max(1, x.numel() // 16), device=x.device).fill_(1))
        taken.clear()
        _softmax(x, out)

    taken: list[Tensor] = []
    if x.numel() > 2**20:
        _hoard.append(taken)
    return launch


_scratch: dict[torch.device, Tensor] = {}


@launch("racy", "min")
def racy(x: Tensor, out: Tensor) -> None:
    """All threads and streams share one workspace."""
    room = _scratch.setdefault(x.device, torch.empty(2**20, dtype=torch.float64, device=x.device))
    room[: out.numel()].copy_(torch.amin(x, 1).reshape(-1))
    time.sleep(0)  # another thread's turn
    out.copy_(room[: out.numel()].view(out.shape))


_table: dict[str, Tensor] = {}


@kernelzoo.register("lazy", "softmax", "auto")
def lazy(x: Tensor, out: Tensor) -> Launch:
    """Says that it is set up before it is: the second of two first calls finds nothing."""
    if "ready" not in _table:
        _table["ready"] = torch.zeros(1)
        time.sleep(0.2)
        _table["one"] = torch.ones(1, device=x.device)
    one = _table["one"]
    return lambda: void(out.copy_(torch.softmax(x.double(), 1) * one))


@kernelzoo.register("frozen", "softmax", "auto")
def frozen(x: Tensor, out: Tensor) -> Launch:
    """Computes when bound, and copies when launched."""
    result = torch.softmax(x.double(), 1).to(x.dtype)
    return lambda: void(out.copy_(result))


@launch("ambient", "softmax")
def ambient(x: Tensor, out: Tensor) -> None:
    """Its arithmetic is in whatever dtype, on whatever device, is the default."""
    wide = torch.empty(x.shape) if x.dtype == torch.float32 else torch.empty(x.shape, dtype=torch.float64)
    wide = wide.to(x.device).copy_(x)
    out.copy_(torch.softmax(wide, 1))


_guard = threading.Lock()


@launch("unforkable", "min")
def unforkable(x: Tensor, out: Tensor) -> None:
    """Holds a lock nearly all the time, which a forked child finds taken by a thread that it has not."""
    with _guard:
        out.copy_(torch.amin(x, 1))
        time.sleep(0.01)


@launch("deadly", "min")
def deadly(x: Tensor, out: Tensor) -> None:
    """Ends the process."""
    os.abort()


@launch("endless", "min")
def endless(x: Tensor, out: Tensor) -> None:
    """Never comes back."""
    while True:
        time.sleep(1)


@launch("homebound", "min")
def homebound(x: Tensor, out: Tensor) -> None:
    """Runs on the default stream, whatever stream is the caller's."""
    with torch.cuda.stream(torch.cuda.default_stream(x.device)):
        torch.cuda._sleep(2_000_000)
        out.copy_(torch.amin(x, 1))


@kernelzoo.register("unready", "min", "auto")
def unready(x: Tensor, out: Tensor) -> Launch:
    """Counts on a workspace that was zeroed on the stream of the bind, wherever it runs."""
    zero = torch.zeros(2**20, device=x.device)
    return lambda: void(out.copy_(torch.amin(x, 1) + zero[: out.numel()].view(out.shape)))


@kernelzoo.register("settled", "softmax", "auto")
def settled(x: Tensor, out: Tensor) -> Launch:
    """Makes x's device the current one, for good."""
    torch.cuda.set_device(x.device)
    return lambda: _softmax(x, out)
