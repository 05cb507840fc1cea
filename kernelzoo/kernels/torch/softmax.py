"""Softmax in torch: what a user would pick without this package, and the unfused form that shows why kernels fuse."""

import torch

from kernelzoo.errors import BackendUnavailableError, UnsupportedProblemError
from kernelzoo.kernels.torch.compiled import compiled
from kernelzoo.ops import void
from kernelzoo.registry import Launch, register


@register("torch", "softmax", "auto")
def auto(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Eager, since compiling takes seconds that no call earns back; where it may miss the contract, another way."""
    if not (_rounds_inside(x) or _adds_in_order(x) or _too_long(x)):
        return eager(x, out)
    return renormalized(x, out) if x.device.type == "cpu" else naive(x, out)


@register("torch", "softmax", "eager")
def eager(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """torch.softmax, a fused kernel of torch's own. On rows of equal terms it can miss the contract."""
    if _rounds_inside(x):
        raise UnsupportedProblemError(
            "torch/softmax/eager", "torch's CPU kernel keeps half-precision exponentials unless the axis is the last"
        )
    if _too_long(x):
        raise UnsupportedProblemError(
            "torch/softmax/eager", f"torch's GPU kernel takes rows of up to {2**31 - 1} elements"
        )
    if _adds_too_much_in_order(x):
        raise UnsupportedProblemError(
            "torch/softmax/eager",
            "torch's kernel adds up a column in one sum, which past 1000 elements leaves the contract on ordinary data",
        )
    x, out, dim = _natural(x, out)

    def launch() -> None:
        torch.softmax(x, dim, out=out)

    return launch


@register("torch", "softmax", "compile")
def compile(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """torch.softmax under torch.compile with static shapes, so that Inductor may specialise on each problem.

    On a GPU only: what Inductor makes for the host missed the contract on 19 of the 12.6 million elements of three
    inputs of (4096, 1024), by up to 54 units of float32's roundoff.
    """
    if x.device.type == "cpu":
        reason = "what Inductor makes for the host is not exact enough for the contract"
        raise BackendUnavailableError("torch/softmax/compile", reason, "use a GPU, or the variant eager")
    x, out, dim = _natural(x, out)
    return compiled("torch/softmax/compile", _softmax_into, x, dim, out)


@register("torch", "softmax", "naive")
def naive(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Five eager operations (max, subtract, exp, sum, divide): reads 5MN + 2M elements, writes 3MN + 2M.

    Half-precision inputs widen to float32 at the subtraction, by type promotion and not by a pass of their own.
    """
    wide = torch.float32 if x.dtype in (torch.float16, torch.bfloat16) else x.dtype

    def launch() -> None:
        shifted = torch.sub(x, x.amax(1, keepdim=True).to(wide))
        exponentials = torch.exp(shifted)
        torch.div(exponentials, exponentials.sum(1, keepdim=True), out=out)

    return launch


@register("torch", "softmax", "renormalized")
def renormalized(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """torch.softmax in the precision of the sums, each row then divided by its own sum, a chunk of rows at a time.

    What is wrong with torch.softmax's sum is wrong with the whole row alike: torch.sum, which adds up in pairs, finds
    it, and the division mends it. A chunk is in cache when it is read again, so that of the 3MN elements read and the
    2MN written only MN each are of memory, unless a single row is longer than a chunk. On the host alone.
    """
    if x.device.type != "cpu":
        reason = "on a GPU nothing stays in cache from one kernel to the next"
        raise BackendUnavailableError("torch/softmax/renormalized", reason, "use the variant eager or naive")
    x, out, dim = _natural(x, out)
    half = x.dtype in (torch.float16, torch.bfloat16)
    count = min(x.size(0), max(1, CHUNK // x[0].numel()))
    scratch = torch.empty((count, *x.shape[1:]), dtype=torch.float32) if half else None

    def launch() -> None:
        for rows, results in zip(torch.split(x, count), torch.split(out, count), strict=True):
            terms = results if scratch is None else scratch[: rows.size(0)]
            torch.softmax(rows, dim, terms.dtype, out=terms)
            torch.div(terms, terms.sum(dim, keepdim=True), out=results)

    return launch


CHUNK = 2**20
"""Elements of a chunk: few enough for a cache that cores share, and enough to be worth waking them three times."""


def _rounds_inside(x: torch.Tensor) -> bool:
    """Whether torch.softmax would round its intermediates to x's dtype, which the contract forbids.

    Its CPU kernel does for a half-precision softmax over any axis but the last: 0.53 % off in bfloat16 on a
    (21, 2, 3, 5) tensor over axis 0 with torch 2.13, where half a unit in the last place is 0.39 %.
    """
    return x.device.type == "cpu" and x.size(2) > 1 and x.dtype in (torch.float16, torch.bfloat16)


def _adds_in_order(x: torch.Tensor) -> bool:
    """Whether torch.softmax may miss the contract on a row of equal terms, whose rounding errors don't cancel.

    Its CPU kernel adds up a contiguous row in as many sums as a register has elements, and any other in one: with torch
    2.13, 64 and 129 units of roundoff off on 2048 and 512 equal float64 terms, where the contract allows 39 and 27. Its
    GPU kernel takes one thread, and so one sum, to a row of an axis with more than 64 rows side by side; and 1024
    threads to any row of the last axis, which with torch 2.11 left the contract on 16,777,259 float32 elements.
    """
    side_by_side = x.size(2)
    if x.device.type == "cpu":
        return x.size(1) > (512 if side_by_side == 1 else 32)
    return x.size(1) > (32 if side_by_side > 64 else 2**23)


def _adds_too_much_in_order(x: torch.Tensor) -> bool:
    """Whether torch.softmax misses the contract on ordinary data, not only on equal terms.

    Seen over other axes than the last, on normal values: with torch 2.13 on the host from (5, 1025, 96) on, with torch
    2.11 on a GPU from (64, 1024, 96) on, 5 of its 6,291,456 elements. Half precisions have room for it.
    """
    least = 1 if x.device.type == "cpu" else 64
    return x.size(2) > least and x.size(1) > 1000 and x.dtype in (torch.float32, torch.float64)


def _too_long(x: torch.Tensor) -> bool:
    """Whether torch.softmax can't address a row: of 2^31 elements its GPU kernel fails, or returns wrong values.

    Seen with torch 2.11: an internal assertion (SoftMax.cu, potential_reg_cnt > 0) at 2^31 + 4099 elements of float16
    and float32, and a wrong result without a word at 2^32 + 4099 of bfloat16.
    """
    return x.device.type == "cuda" and x.size(1) >= 2**31


def _natural(x: torch.Tensor, out: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, int]:
    """The tensors as a user of torch would hold them: torch has a faster kernel where the reduced axis is the last."""
    return (x[:, :, 0], out[:, :, 0], 1) if x.size(2) == 1 else (x, out, 1)


def _softmax_into(x: torch.Tensor, dim: int, out: torch.Tensor) -> None:
    void(out.copy_(torch.softmax(x, dim)))
