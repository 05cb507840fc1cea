"""Exact sums of exponentials, for batch-invariant rows that begin anywhere in a vector.

exp(x - max) is at most 1. As integer multiples of 2^-42, exponentials add up exactly. No bit then depends on a row's
alignment, lanes or blocks. So such rows are computed as in any other call.
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
from kernelzoo.kernels.numba.tiling import RowView

CLUSTER_HOLDS, BLOCK_HOLDS = 2**16, 2**14
"""The most elements of an unaligned row in the registers of the largest cluster, and of the largest block."""

units = machine.make_intrinsic(
    lambda x: types.int64(x),
    lambda builder, x: machine.asm(
        builder, machine.I64, "cvt.rni.s64.f32 $0, $1;", builder.fmul(x, machine.F32(2**42))
    ),
)
"""A float32 number as an integer multiple of 2^-42. Up to 2^20 numbers of at most 1 add up exactly, in any order."""


def view_for_exact_sums(v: RowView) -> RowView:
    """Return v planned as if not batch-invariant, which exact sums allow. Return v unchanged if it can't have these."""
    if not v.single or v.dtype == "float64" or v.n > (CLUSTER_HOLDS if v.device.cluster_blocks >= 16 else BLOCK_HOLDS):
        return v
    x_phase, out_phase = v.phases
    v = replace(v, single=False, planned=v.total, x_phase=x_phase, out_phase=out_phase, exact=True)
    vec = math.gcd(v.vector_elements, v.alignment_difference) if v.n > 1 else 1
    return replace(v, vec=vec, edges=(x_phase | v.n | v.x_outer | v.x_inner) % vec != 0)


@cache
def sum_functions(dtype: str, exact: bool) -> tuple[Any, Any, Any, Any]:
    """Return ``kind, larger, term, total``: a sum's type, the maximum of two elements, and an exponential as a summand.
    ``total(s, top)`` is the sum as a float. If exact, it is NaN if the row's maximum ``top`` is not finite."""

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
