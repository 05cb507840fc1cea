from kernelzoo.device import Device
from kernelzoo.kernels.cupy.lanes import FEWEST, aligned_width, choose_lanes, choose_whole_warp_width, template_instance
from kernelzoo.kernels.cupy.launch import I32, I64, Argument, Plan, Step, plan_once
from kernelzoo.kernels.cupy.parts import STATE_BYTES, choose_parts
from kernelzoo.layout import Rows, cdiv
from kernelzoo.registry import register


@register("cupy", "cumsum", "split")
@plan_once()
def split(rows: Rows, device: Device) -> Plan:
    """Several blocks share a row and store the sums of its parts. A second launch scans each part, beginning with the
    sum of the parts before."""
    parts, span = choose_parts(rows, device)
    n = min(rows.n, span)
    wide, few = choose_whole_warp_width(n, aligned_width(rows), FEWEST)
    lanes, together = choose_lanes(rows, n, wide, few)
    blocks, threads = cdiv(rows.total, together) * parts, lanes * together
    arguments: tuple[Argument, ...] = ((I32, lanes), (I32, int(rows.is_strided)), "partial", (I32, parts), (I64, span))
    sums = Step(template_instance("sums_of_parts", (rows.dtype,), wide), blocks, threads, arguments)
    scans = Step(template_instance("split", (rows.dtype, rows.out_dtype), wide), blocks, threads, arguments)
    return Plan(rows, (sums, scans), rows.total * parts * STATE_BYTES)
