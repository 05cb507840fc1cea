"""Device functions that Triton's and Gluon's kernels share. Called from Gluon, they are compiled as Gluon's own are."""

import triton
import triton.language as tl

INTERPRETED: tl.constexpr = tl.constexpr(triton.knobs.runtime.interpret)

FINE: tl.constexpr = tl.constexpr(1.5 * 2.0**-17)
"""A float32 whose last bit is 2^-40."""

TOGETHER: tl.constexpr = tl.constexpr(256)
"""Blocks after which lanes combine their sums: in longer sums of equal terms, rounding errors would add up."""


@triton.jit
def aligned(start, EDGES: tl.constexpr):
    """Return the start of a row's first aligned vector; the row's own start if EDGES is 0."""
    return (start + EDGES - 1) // EDGES * EDGES if EDGES else start


@triton.jit
def end_of_vectors(n, EDGES: tl.constexpr):
    """Return the latest end of the whole vectors in n elements, counted from the first vector."""
    return n // EDGES * EDGES if EDGES else n


# --- Sums and minima -------------------------------------------------------------------------------------------------


@triton.jit
def add_exactly(total, lost, x):
    """Return (total + x, lost + the rounding error of that), after Knuth (TAOCP 2, 4.2.2). Integers lose nothing."""
    new = total + x
    if total.dtype.is_floating():
        back = new - total
        lost += (total - (new - back)) + (x - back)
    return new, lost


@triton.jit
def accumulate(total, lost, x, ONE: tl.constexpr):
    """Do as ``add_exactly``. If there is only ONE term, return the term: nothing is lost."""
    if ONE:
        total = x
    else:
        total, lost = add_exactly(total, lost, x)
    return total, lost


@triton.jit
def whole(total, lost):
    """Return total + lost. ``lost`` is NaN if the sum is infinite, and is then left out."""
    return total + tl.where(lost == lost, lost, 0)


@triton.jit
def lower(a, b):
    """Return the elementwise minimum; NaN if either is NaN."""
    return tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def quotient(a, b):
    """Return ``a / b`` rounded to nearest. A device's plain float32 division is less exact."""
    return a / b if a.dtype == tl.float64 else tl.div_rn(a, b)


@triton.jit
def shares_of(grad, count, DTYPE: tl.constexpr):
    """Return the gradients of each of ``count`` equal minima and of every other element; NaN if count is 0."""
    rest = tl.where(count > 0, grad * 0.0, float("nan"))
    return quotient(grad, count.to(grad.dtype)).to(DTYPE), rest.to(DTYPE)


# --- Exponentials ----------------------------------------------------------------------------------------------------
#
# All kernels subtract the maximum first and scale by log2(e) after (``exponential`` does), since the other order loses
# bits on rows with a large offset. ``tl.max`` drops a NaN, and the sum brings it back: exp(NaN - max) is NaN.


@triton.jit
def exponential(x):
    """Return e^x. In float32 it is a power of two, and results below the smallest normal number are flushed to zero."""
    return tl.exp(x) if x.dtype == tl.float64 else tl.exp2(x * 1.4426950408889634)


@triton.jit
def exactly(x):
    """Split x, at most 1, into (multiple of 2^-20, multiple of 2^-40). Up to 16 of either add up without rounding, in
    any order; in float64 all do."""
    coarse = (x + 8.0) - 8.0
    return coarse, (x - coarse + FINE) - FINE


@triton.jit
def zero_if_empty(top):
    """Return what to subtract from a row: its maximum, or 0 if all elements are -inf. Then no lane computes
    -inf - -inf, and the result's NaN comes from 0 / 0."""
    return tl.where(top == float("-inf"), 0.0, top)


@triton.jit
def float8_bits(value):
    """Round float32 to float8_e4m3fn, ties to even, and return its bits. Too large values become the largest."""
    if not INTERPRETED and tl.target_info.cuda_capability_geq(8, 9):
        found = value.to(tl.float8e4nv).to(tl.uint8, bitcast=True)
    else:
        bits = value.to(tl.int32, bitcast=True)
        magnitude = bits & 0x7FFFFFFF
        normal = (magnitude - (120 << 23) + 0x7FFFF + ((magnitude >> 20) & 1)) >> 20
        # Below 2^-6 the spacing is 2^-9, that of float32 from 2^14 to 2^15: adding 2^14 rounds to it.
        small = (tl.abs(value) + 16384).to(tl.int32, bitcast=True) - (141 << 23)
        eight = tl.where(magnitude < (121 << 23), small, tl.minimum(normal, 0x7E))
        found = (tl.where(value == value, eight, 0x7F) | ((bits >> 24) & 0x80)).to(tl.uint8)
    return found
