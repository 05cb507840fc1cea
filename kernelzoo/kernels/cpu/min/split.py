import torch

from kernelzoo.kernels.cpu.launch import make_launch, move_lanes_last, vectorises_across
from kernelzoo.kernels.cpu.min.rows import LANES, choose_chunk_kernel
from kernelzoo.launch import Launch, RebindableLaunch, chain_launches
from kernelzoo.registry import register

CHUNK = 32768
"""Elements per unit of work of ``split``. They take some microseconds, and merging their minimum much less."""


@register("cpu", "min", "split")
def split(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Parallel over the reduced axis as well: the minima of a row's chunks, then the minimum of these minima."""
    tensors = x, out = move_lanes_last(x, out)
    groups, n, lanes = x.shape
    chunk = max(1, CHUNK // min(lanes, LANES)) if vectorises_across(x) else CHUNK
    partial = x.new_empty((groups, -(-n // chunk), lanes))
    first = make_launch((x, partial), *choose_chunk_kernel(x, partial, chunk))
    second = make_launch((partial, out), *choose_chunk_kernel(partial, out.unsqueeze(1), partial.size(1)))
    if not (isinstance(first, RebindableLaunch) and isinstance(second, RebindableLaunch)):  # recorded
        return chain_launches(first, second)
    into, out_of = first.at, second.at  # neither keeps the tensors alive

    def launch_at(x: int, out: int) -> None:
        own = torch.empty_like(partial)  # not shared with another thread's launch
        into(x, own.data_ptr())
        out_of(own.data_ptr(), out)

    return RebindableLaunch(launch_at, *tensors)
