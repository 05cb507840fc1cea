"""Sums of exponentials without an order: of batch-invariant rows that begin anywhere in a vector.

Below the row's maximum they are at most 1, and whole numbers of 2^-42 add up exactly. So such rows are taken as those
of any other call: no bit depends on where they begin, or on how many lanes and blocks share one.
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
"""Elements of a row, of any alignment, in the registers of the largest cluster and of the largest block."""

units = machine.made_of(
    lambda x: types.int64(x),
    lambda builder, x: machine.asm(
        builder, machine.I64, "cvt.rni.s64.f32 $0, $1;", builder.fmul(x, machine.F32(2**42))
    ),
)
"""A float of 32 bits as a whole number of 2^-42: up to 2^20 that are at most 1 add up exactly, in any order."""


def exactly(v: View) -> View:
    """The view by which a row is added exactly, if it can be: that of a call that is not batch-invariant."""
    if not v.single or v.dtype == "float64" or v.n > (CLUSTER_HOLDS if v.device.cluster_blocks >= 16 else BLOCK_HOLDS):
        return v
    x_phase, out_phase = v.phases
    v = replace(v, single=False, planned=v.total, x_phase=x_phase, out_phase=out_phase, exact=True)
    vec = math.gcd(v.whole_vector, v.apart) if v.n > 1 else 1
    return replace(v, vec=vec, edges=(x_phase | v.n | v.x_outer | v.x_inner) % vec != 0)


@cache
def sum_functions(dtype: str, exact: bool) -> tuple[Any, Any, Any, Any]:
    """``kind, larger, term, total``: the type of a sum of exponentials, the maximum that they are below, what each of
    them adds, and ``total(s, top)``, the sum as a float: NaN where the row's maximum ``top`` is no number."""

    @cuda.jit(device=True, inline="always")
    def itself(e):
        return e

    @cuda.jit(device=True, inline="always")
    def as_it_is(s, top):
        return s

    @cuda.jit(device=True, inline="always")
    def from_units(s, top):
        return types.float32(s) * np.float32(2**-42) + (top - top)

    if exact:
        return types.int64, machine.nan_maximum, units, from_units
    return WIDE[dtype], maximum, itself, as_it_is
