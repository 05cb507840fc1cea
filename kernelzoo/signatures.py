"""The operations' signatures for type checkers only; no module imports this.

They follow from each operation's class, as :func:`kernelzoo.calls.methods.signature_of` does at run time. Tensors give
tensors, and NumPy arrays give NumPy arrays. Results for other libraries' arrays are untyped.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias, TypedDict, TypeVar, Unpack, overload

import numpy as np
import numpy.typing as npt
import torch

Axis: TypeAlias = "int | np.integer[Any]"
Axes: TypeAlias = "Axis | Sequence[Axis] | None"


class DLPack(Protocol):
    """An array of any library."""

    def __dlpack_device__(self) -> Any: ...


class CudaArray(Protocol):
    """An array on a GPU of a library without DLPack."""

    @property
    def __cuda_array_interface__(self) -> Any: ...


class How(TypedDict, total=False):
    batch_invariant: bool
    variant: str


Other: TypeAlias = DLPack | CudaArray
T = TypeVar("T", torch.Tensor, "npt.NDArray[Any]")
U = TypeVar("U", torch.Tensor, "npt.NDArray[Any]", Other)

# Written by tests/described/signatures.py


class Softmax(Protocol):
    @overload
    def __call__(
        self,
        x: T,
        dim: Axis = -1,
        *,
        axis: Axis = ...,
        dtype: torch.dtype | npt.DTypeLike | None = None,
        out: T | None = None,
        **how: Unpack[How],
    ) -> T: ...

    @overload
    def __call__(
        self, x: Other, dim: Axis = -1, *, axis: Axis = ..., dtype: Any = None, out: Any = None, **how: Unpack[How]
    ) -> Any: ...


class Min(Protocol):
    @overload
    def __call__(
        self,
        x: T,
        dim: Axes = -1,
        keepdim: bool = False,
        *,
        axis: Axes = ...,
        keepdims: bool | None = None,
        out: T | None = None,
        **how: Unpack[How],
    ) -> T: ...

    @overload
    def __call__(
        self,
        x: Other,
        dim: Axes = -1,
        keepdim: bool = False,
        *,
        axis: Axes = ...,
        keepdims: bool | None = None,
        out: Any = None,
        **how: Unpack[How],
    ) -> Any: ...


class SoftmaxBackward(Protocol):
    @overload
    def __call__(
        self, grad: T, y: T, dim: Axis = -1, *, axis: Axis = ..., out: T | None = None, **how: Unpack[How]
    ) -> T: ...

    @overload
    def __call__(
        self, grad: Other, y: Other, dim: Axis = -1, *, axis: Axis = ..., out: Any = None, **how: Unpack[How]
    ) -> Any: ...


class MinBackward(Protocol):
    @overload
    def __call__(
        self, x: T, y: T, grad: T, dim: Axis = -1, *, axis: Axis = ..., out: T | None = None, **how: Unpack[How]
    ) -> T: ...

    @overload
    def __call__(
        self, x: Other, y: Other, grad: Other, dim: Axis = -1, *, axis: Axis = ..., out: Any = None, **how: Unpack[How]
    ) -> Any: ...


class Sum(Protocol):
    def __call__(
        self,
        x: U,
        dim: Axes = -1,
        keepdim: bool = False,
        *,
        axis: Axes = ...,
        keepdims: bool | None = None,
        out: U | None = None,
        **how: Unpack[How],
    ) -> U: ...


class LogsumexpBackward(Protocol):
    def __call__(
        self, x: U, y: U, grad: U, dim: Axis = -1, *, axis: Axis = ..., out: U | None = None, **how: Unpack[How]
    ) -> U: ...


class Argmin(Protocol):
    def __call__(
        self,
        x: U,
        dim: Axis = -1,
        keepdim: bool = False,
        *,
        axis: Axis = ...,
        keepdims: bool | None = None,
        out: U | None = None,
        **how: Unpack[How],
    ) -> U: ...


class CrossEntropy(Protocol):
    def __call__(
        self,
        x: U,
        labels: U,
        dim: Axis = -1,
        keepdim: bool = False,
        *,
        axis: Axis = ...,
        keepdims: bool | None = None,
        ignore_index: int = -100,
        out: U | None = None,
        **how: Unpack[How],
    ) -> U: ...


class CrossEntropyBackward(Protocol):
    def __call__(
        self,
        x: U,
        labels: U,
        grad: U,
        dim: Axis = -1,
        *,
        axis: Axis = ...,
        ignore_index: int = -100,
        out: U | None = None,
        **how: Unpack[How],
    ) -> U: ...


class RmsNorm(Protocol):
    def __call__(
        self,
        x: U,
        weight: U,
        dim: Axis = -1,
        *,
        axis: Axis = ...,
        eps: float = 1e-06,
        out: U | None = None,
        **how: Unpack[How],
    ) -> U: ...


class RmsNormBackward(Protocol):
    def __call__(
        self,
        x: U,
        weight: U,
        grad: U,
        dim: Axis = -1,
        *,
        axis: Axis = ...,
        eps: float = 1e-06,
        out: tuple[U, U] | list[U] | None = None,
        **how: Unpack[How],
    ) -> tuple[U, U]: ...


class AddRmsNorm(Protocol):
    def __call__(
        self,
        x: U,
        residual: U,
        weight: U,
        dim: Axis = -1,
        *,
        axis: Axis = ...,
        eps: float = 1e-06,
        out: tuple[U, U] | list[U] | None = None,
        **how: Unpack[How],
    ) -> tuple[U, U]: ...


class LayerNorm(Protocol):
    def __call__(
        self,
        x: U,
        weight: U,
        bias: U,
        dim: Axis = -1,
        *,
        axis: Axis = ...,
        eps: float = 1e-05,
        out: U | None = None,
        **how: Unpack[How],
    ) -> U: ...


class LayerNormBackward(Protocol):
    def __call__(
        self,
        x: U,
        weight: U,
        grad: U,
        dim: Axis = -1,
        *,
        axis: Axis = ...,
        eps: float = 1e-05,
        out: tuple[U, U, U] | list[U] | None = None,
        **how: Unpack[How],
    ) -> tuple[U, U, U]: ...


class Cumsum(Protocol):
    def __call__(self, x: U, dim: Axis = -1, *, axis: Axis = ..., out: U | None = None, **how: Unpack[How]) -> U: ...


class QuantizeRows(Protocol):
    def __call__(
        self, x: U, dim: Axis = -1, *, axis: Axis = ..., out: tuple[U, U] | list[U] | None = None, **how: Unpack[How]
    ) -> tuple[U, U]: ...


class SoftmaxPairs(Protocol):
    def __call__(
        self,
        x: U,
        dim: Axis = -1,
        keepdim: bool = False,
        *,
        axis: Axis = ...,
        keepdims: bool | None = None,
        out: tuple[U, U] | list[U] | None = None,
        **how: Unpack[How],
    ) -> tuple[U, U]: ...


class SoftmaxMerge(Protocol):
    def __call__(
        self,
        maximum: U,
        total: U,
        dim: Axis = -1,
        keepdim: bool = False,
        *,
        axis: Axis = ...,
        keepdims: bool | None = None,
        out: tuple[U, U] | list[U] | None = None,
        **how: Unpack[How],
    ) -> tuple[U, U]: ...


class SoftmaxFinish(Protocol):
    def __call__(
        self, x: U, maximum: U, total: U, dim: Axis = -1, *, axis: Axis = ..., out: U | None = None, **how: Unpack[How]
    ) -> U: ...


class Vecdot(Protocol):
    def __call__(
        self,
        x: U,
        y: U,
        dim: Axis = -1,
        keepdim: bool = False,
        *,
        axis: Axis = ...,
        keepdims: bool | None = None,
        out: U | None = None,
        **how: Unpack[How],
    ) -> U: ...


class SoftmaxBackwardFinish(Protocol):
    def __call__(
        self, grad: U, y: U, total: U, dim: Axis = -1, *, axis: Axis = ..., out: U | None = None, **how: Unpack[How]
    ) -> U: ...


class MinBackwardFinish(Protocol):
    def __call__(
        self,
        x: U,
        y: U,
        grad: U,
        count: U,
        dim: Axis = -1,
        *,
        axis: Axis = ...,
        out: U | None = None,
        **how: Unpack[How],
    ) -> U: ...


softmax: Softmax
min: Min
softmax_backward: SoftmaxBackward
min_backward: MinBackward
sum: Sum
logsumexp: Sum
logsumexp_backward: LogsumexpBackward
argmin: Argmin
cross_entropy: CrossEntropy
cross_entropy_backward: CrossEntropyBackward
rms_norm: RmsNorm
rms_norm_backward: RmsNormBackward
add_rms_norm: AddRmsNorm
layer_norm: LayerNorm
layer_norm_backward: LayerNormBackward
cumsum: Cumsum
quantize_rows: QuantizeRows
softmax_pairs: SoftmaxPairs
softmax_merge: SoftmaxMerge
softmax_finish: SoftmaxFinish
vecdot: Vecdot
softmax_backward_finish: SoftmaxBackwardFinish
min_backward_counts: Vecdot
min_backward_finish: MinBackwardFinish


class Operations:
    """The operations as methods of a backend."""

    softmax: Softmax
    min: Min
    softmax_backward: SoftmaxBackward
    min_backward: MinBackward
    sum: Sum
    logsumexp: Sum
    logsumexp_backward: LogsumexpBackward
    argmin: Argmin
    cross_entropy: CrossEntropy
    cross_entropy_backward: CrossEntropyBackward
    rms_norm: RmsNorm
    rms_norm_backward: RmsNormBackward
    add_rms_norm: AddRmsNorm
    layer_norm: LayerNorm
    layer_norm_backward: LayerNormBackward
    cumsum: Cumsum
    quantize_rows: QuantizeRows
    softmax_pairs: SoftmaxPairs
    softmax_merge: SoftmaxMerge
    softmax_finish: SoftmaxFinish
    vecdot: Vecdot
    softmax_backward_finish: SoftmaxBackwardFinish
    min_backward_counts: Vecdot
    min_backward_finish: MinBackwardFinish
