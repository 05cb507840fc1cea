import torch

from kernelzoo.kernels.cute.launch import device_of
from kernelzoo.kernels.cute.softmax.split_cluster import fit_cluster
from kernelzoo.kernels.cute.tiles import long_row_tile, longest_row, make_problem
from kernelzoo.kernels.shared.cut import choose_gradient_variant
from kernelzoo.registry import chooser
from kernelzoo.tables import knob, launch_table, of


@launch_table("cute", "softmax")
class Knobs:
    crowd: int = knob(
        1,
        among=(1, 2, 4),
        unit="rows per multiprocessor",
        why="from which on a row that no cluster holds is one block's",
    )
    fused_bytes: int = knob(
        32768, among=(32768, 65536, 131072), unit="bytes", why="of the longest row, as computed, that one block holds"
    )


@chooser("cute", "softmax", "auto")
def auto(x: torch.Tensor, out: torch.Tensor) -> str:
    """One block keeps a row in registers, or else a cluster does. Others are read twice: if few, by several blocks."""
    given, device = make_problem(x, out), device_of(x)
    knobs, holds, count = of(Knobs, device.index), given.row_length <= longest_row(given, 1), given.planned_row_count
    if given.across:
        return "fused" if holds else choose_gradient_variant(long_row_tile(given).count_tiles(count), device)
    # In half precision, an unaligned row would have incomplete vectors in every block of a cluster.
    longest = knobs.fused_bytes * (2 if given.has_partial_vectors and given.rows.itemsize == 2 else 1)
    fits_block = holds and given.row_length * given.rows.accumulator_bytes <= longest
    if not fits_block and fit_cluster(given, device) is not None:
        return "split_cluster"
    if holds:
        return "fused"
    return "online" if count >= knobs.crowd * device.multiprocessors else "split_two_launches"


@chooser("cute", "softmax", "split")
def split(x: torch.Tensor, out: torch.Tensor) -> str:
    """Several blocks share a row: in a cluster if it fits there, else in two launches, which pass (max, sum)."""
    return "split_cluster" if fit_cluster(make_problem(x, out), device_of(x)) is not None else "split_two_launches"
