"""Exact sums of exponentials, for batch-invariant rows that begin anywhere in a vector.

Exponentials of x - max are at most 1, and add up exactly as whole numbers of 2^-42. So such rows are computed as in any
other call: no bit depends on where they begin, or on how many lanes and blocks share one.
"""

import math
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from numba import cuda
from numba.cuda import types

from kernelzoo.kernels.numba import machine
from kernelzoo.kernels.numba.device_functions import maximum
from kernelzoo.kernels.numba.dtypes import WIDE
from kernelzoo.kernels.numba.tiling import View

CLUSTER_HOLDS, BLOCK_HOLDS = 2**16, 2**14
"""Elements of a row, of any alignment, that fit in the registers of the largest cluster and of the largest block."""

units = machine.intrinsic_of(
    lambda x: types.int64(x),
    lambda builder, x: machine.asm(
        builder, machine.I64, "cvt.rni.s64.f32 $0, $1;", builder.fmul(x, machine.F32(2**42))
    ),
)
"""A float32 number as a whole number of 2^-42. Up to 2^20 of these that are at most 1 add up exactly, in any order."""


def exact_view(v: View) -> View:
    """Return the view in which a row is added exactly, if it can be: that of a call that is not batch-invariant."""
    if not v.single or v.dtype == "float64" or v.n > (CLUSTER_HOLDS if v.device.cluster_blocks >= 16 else BLOCK_HOLDS):
        return v
    x_phase, out_phase = v.phases
    v = replace(v, single=False, planned=v.total, x_phase=x_phase, out_phase=out_phase, exact=True)
    vec = math.gcd(v.whole_vector, v.apart) if v.n > 1 else 1
    return replace(v, vec=vec, edges=(x_phase | v.n | v.x_outer | v.x_inner) % vec != 0)


@cache
def sum_functions(dtype: str, exact: bool) -> tuple[Any, Any, Any, Any]:
    """Return ``kind, larger, term, total``: the type of a sum of exponentials, the maximum of two elements, what an
    exponential adds, and ``total(s, top)``, the sum as a float: NaN if the row's maximum ``top`` is not finite."""

    @cuda.jit(device=True, inline="always")
    def keep_term(e):
        return e

    @cuda.jit(device=True, inline="always")
    def keep_sum(s, top):
        return s

    @cuda.jit(device=True, inline="always")
    def from_units(s, top):
        return types.float32(s) * np.float32(2**-42) + (top - top)

    if exact:
        return types.int64, machine.nan_maximum, units, from_units
    return WIDE[dtype], maximum, keep_term, keep_sum
