"""A thread's arithmetic on its elements of a row of both inputs: the sum of products, and the results.

Half precision is computed in float32. Sums are merged in a fixed order, so that the same input gives the same bits.
"""

from functools import cache
from typing import Any

from numba import cuda

from kernelzoo.kernels.numba import machine
from kernelzoo.kernels.numba.device_functions import opaque
from kernelzoo.kernels.numba.dtypes import constant, is_packed


@cache
def gradient_functions(dtype: str, vec: int, words: int) -> tuple[Any, Any]:
    """Return ``sum_products(grads, weights, k)`` and ``compute_gradient(grads, weights, k, total)``, for ``words``
    registers. The first is the sum of grads * weights. The second replaces grads by weights * (grads - total)."""
    ZERO: Any = constant(dtype, 0)
    PACKED = is_packed(dtype, vec)
    low, high, pack, _, _ = machine.packed_functions(dtype)

    @cuda.jit(device=True, inline="always")
    def sum_products(grads, weights, k):
        s, other = ZERO, ZERO
        if PACKED:
            for j in range(words):
                grad, weight = opaque(grads[k + j]), opaque(weights[k + j])
                s += low(grad) * low(weight)
                other += high(grad) * high(weight)
            return s + other
        for j in range(words // 2):
            s += grads[k + 2 * j] * weights[k + 2 * j]
            other += grads[k + 2 * j + 1] * weights[k + 2 * j + 1]
        if words % 2:
            s += grads[k + words - 1] * weights[k + words - 1]
        return s + other

    @cuda.jit(device=True, inline="always")
    def compute_gradient(grads, weights, k, total):
        for j in range(words):
            if PACKED:
                grad, weight = opaque(grads[k + j]), opaque(weights[k + j])
                grads[k + j] = pack(low(weight) * (low(grad) - total), high(weight) * (high(grad) - total))
            else:
                grads[k + j] = weights[k + j] * (grads[k + j] - total)

    return sum_products, compute_gradient
