import torch

from kernelzoo.errors import BackendUnavailableError
from kernelzoo.kernels.torch.natural import drop_unit_axis
from kernelzoo.launch import Launch
from kernelzoo.registry import register

CHUNK = 2**20
"""Elements per chunk: few enough for the cache that cores share, and enough to make three parallel calls pay off."""


@register("torch", "softmax", "renormalized")
def renormalized(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """torch.softmax in the sums' precision, then each row is divided by its own sum, a chunk of rows at a time.

    An error in torch.softmax's sum scales the whole row. torch.sum, which adds pairwise, finds it, and the division
    corrects it. A chunk is read again from cache. So of 3MN elements read and 2MN written, only MN each go to memory,
    unless a single row is longer than a chunk. On the host only.
    """
    if x.device.type != "cpu":
        reason = "on a GPU nothing stays in cache from one kernel to the next"
        raise BackendUnavailableError("torch/softmax/renormalized", reason, "use the variant eager or naive")
    x, out, dim = drop_unit_axis(x, out)
    half = x.dtype in (torch.float16, torch.bfloat16)
    count = min(x.size(0), max(1, CHUNK // x[0].numel()))
    scratch = x.new_empty((count, *x.shape[1:]), dtype=torch.float32) if half else None

    def launch() -> None:
        for rows, results in zip(torch.split(x, count), torch.split(out, count), strict=True):
            terms = results if scratch is None else scratch[: rows.size(0)]
            torch.softmax(rows, dim, terms.dtype, out=terms)
            torch.div(terms, terms.sum(dim, keepdim=True), out=results)

    return launch
