"""Device functions that Triton's and Gluon's kernels share. Gluon compiles them like its own functions."""

import triton
import triton.language as tl

INTERPRETED: tl.constexpr = tl.constexpr(triton.knobs.runtime.interpret)

FINE: tl.constexpr = tl.constexpr(1.5 * 2.0**-17)
"""A float32 whose last bit is worth 2^-40: adding and subtracting it rounds to multiples of 2^-40."""

TOGETHER: tl.constexpr = tl.constexpr(256)
"""After this many blocks, lanes merge their sums. In longer sums of equal terms, rounding errors would add up."""


@triton.jit
def align(start, VECTOR: tl.constexpr):
    """Return the offset of a row's first aligned vector. VECTOR: elements per vector, or 0 to return ``start``."""
    return (start + VECTOR - 1) // VECTOR * VECTOR if VECTOR else start


@triton.jit
def end_of_vectors(n, VECTOR: tl.constexpr):
    """Round n down to vectors of VECTOR elements (0: not at all). An unaligned row may have one vector fewer."""
    return n // VECTOR * VECTOR if VECTOR else n


# --- Sums and minima -------------------------------------------------------------------------------------------------


@triton.jit
def add_exactly(total, lost, x):
    """Return (total + x, lost + the sum's rounding error), after Knuth (TAOCP 2, 4.2.2). Integer sums are exact."""
    new = total + x
    if total.dtype.is_floating():
        back = new - total
        lost += (total - (new - back)) + (x - back)
    return new, lost


@triton.jit
def accumulate(total, lost, x, IS_ONLY_TERM: tl.constexpr):
    """Add x as ``add_exactly`` does. If IS_ONLY_TERM is true, x is the only term, and so the sum."""
    if IS_ONLY_TERM:
        total = x
    else:
        total, lost = add_exactly(total, lost, x)
    return total, lost


@triton.jit
def add_up(total, lost):
    """Return total + lost. If the sum is infinite, ``lost`` is NaN and is ignored."""
    return total + tl.where(lost == lost, lost, 0)


@triton.jit
def min_or_nan(a, b):
    """Return the elementwise minimum; NaN if either is NaN."""
    return tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def quotient(a, b):
    """Return ``a / b`` rounded to nearest. A device's plain float32 division is less exact."""
    return a / b if a.dtype == tl.float64 else tl.div_rn(a, b)


@triton.jit
def split_gradient(grad, count, DTYPE: tl.constexpr):
    """Return the gradient of each of ``count`` equal minima, and that of other elements (NaN if count is 0)."""
    rest = tl.where(count > 0, grad * 0.0, float("nan"))
    return quotient(grad, count.to(grad.dtype)).to(DTYPE), rest.to(DTYPE)


# --- Exponentials ----------------------------------------------------------------------------------------------------
#
# All kernels first subtract the maximum, then scale by log2(e) (in ``exponential``). The other order loses bits on rows
# with a large offset. ``tl.max`` ignores NaN, but the sum does not: exp(NaN - max) is NaN.


@triton.jit
def exponential(x):
    """Return e^x. In float32 it is computed as 2^(x log2(e)), and subnormal results become zero."""
    return tl.exp(x) if x.dtype == tl.float64 else tl.exp2(x * 1.4426950408889634)


@triton.jit
def split_coarse_fine(x):
    """Split x (at most 1) into a multiple of 2^-20 and a multiple of 2^-40. In float32, up to 16 multiples of either
    kind add up without rounding, in any order; in float64, any number of them."""
    coarse = (x + 8.0) - 8.0
    return coarse, (x - coarse + FINE) - FINE


@triton.jit
def zero_if_empty(maximum):
    """Return what to subtract from a row: its ``maximum``, or 0 if that is -inf, so that no lane computes -inf - -inf.
    The softmax of such a row is still NaN, by 0 / 0."""
    return tl.where(maximum == float("-inf"), 0.0, maximum)


@triton.jit
def float8_bits(value):
    """Round float32 to float8_e4m3fn, ties to even, and return its bits. Overflow gives the largest number."""
    if not INTERPRETED and tl.target_info.cuda_capability_geq(8, 9):
        found = value.to(tl.float8e4nv).to(tl.uint8, bitcast=True)
    else:
        bits = value.to(tl.int32, bitcast=True)
        magnitude = bits & 0x7FFFFFFF
        normal = (magnitude - (120 << 23) + 0x7FFFF + ((magnitude >> 20) & 1)) >> 20
        # Below 2^-6, float8 numbers are multiples of 2^-9, as float32 numbers from 2^14 on are: adding 2^14 rounds.
        small = (tl.abs(value) + 16384).to(tl.int32, bitcast=True) - (141 << 23)
        eight = tl.where(magnitude < (121 << 23), small, tl.minimum(normal, 0x7E))
        found = (tl.where(value == value, eight, 0x7F) | ((bits >> 24) & 0x80)).to(tl.uint8)
    return found
