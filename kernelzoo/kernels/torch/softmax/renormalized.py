import torch

from kernelzoo.errors import BackendUnavailableError
from kernelzoo.kernels.torch.natural import natural
from kernelzoo.launch import Launch
from kernelzoo.registry import register

CHUNK = 2**20
"""Elements of a chunk: few enough for a cache that cores share, and enough to be worth waking them three times."""


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
    x, out, dim = natural(x, out)
    half = x.dtype in (torch.float16, torch.bfloat16)
    count = min(x.size(0), max(1, CHUNK // x[0].numel()))
    scratch = x.new_empty((count, *x.shape[1:]), dtype=torch.float32) if half else None

    def launch() -> None:
        for rows, results in zip(torch.split(x, count), torch.split(out, count), strict=True):
            terms = results if scratch is None else scratch[: rows.size(0)]
            torch.softmax(rows, dim, terms.dtype, out=terms)
            torch.div(terms, terms.sum(dim, keepdim=True), out=results)

    return launch
