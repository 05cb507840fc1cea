# The operations' signatures, for type checkers.
#
# They follow from each operation's class, as kernelzoo.calls.methods.signature_of does at run time. Tensors give
# tensors, and NumPy arrays give NumPy arrays. Results for other libraries' arrays are untyped.

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias, TypedDict, TypeVar, Unpack, overload

import numpy as np
import numpy.typing as npt
import torch

Axis: TypeAlias = int | np.integer[Any]
Axes: TypeAlias = Axis | Sequence[Axis] | None

class DLPack(Protocol):  # an array of any library
    def __dlpack_device__(self) -> Any: ...

class CudaArray(Protocol):  # an array on a GPU of a library without DLPack
    @property
    def __cuda_array_interface__(self) -> Any: ...

class How(TypedDict, total=False):
    batch_invariant: bool
    variant: str

Other: TypeAlias = DLPack | CudaArray
_T = TypeVar("_T", torch.Tensor, npt.NDArray[Any])
_U = TypeVar("_U", torch.Tensor, npt.NDArray[Any], Other)

# Written by tests/described/signatures.py

class Softmax(Protocol):
    @overload
    def __call__(
        self,
        x: _T,
        dim: Axis = -1,
        *,
        axis: Axis = ...,
        dtype: torch.dtype | npt.DTypeLike | None = None,
        out: _T | None = None,
        **how: Unpack[How],
    ) -> _T: ...
    @overload
    def __call__(
        self, x: Other, dim: Axis = -1, *, axis: Axis = ..., dtype: Any = None, out: Any = None, **how: Unpack[How]
    ) -> Any: ...

class Min(Protocol):
    @overload
    def __call__(
        self,
        x: _T,
        dim: Axes = -1,
        keepdim: bool = False,
        *,
        axis: Axes = ...,
        keepdims: bool | None = None,
        out: _T | None = None,
        **how: Unpack[How],
    ) -> _T: ...
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
        self, grad: _T, y: _T, dim: Axis = -1, *, axis: Axis = ..., out: _T | None = None, **how: Unpack[How]
    ) -> _T: ...
    @overload
    def __call__(
        self, grad: Other, y: Other, dim: Axis = -1, *, axis: Axis = ..., out: Any = None, **how: Unpack[How]
    ) -> Any: ...

class MinBackward(Protocol):
    @overload
    def __call__(
        self, x: _T, y: _T, grad: _T, dim: Axis = -1, *, axis: Axis = ..., out: _T | None = None, **how: Unpack[How]
    ) -> _T: ...
    @overload
    def __call__(
        self, x: Other, y: Other, grad: Other, dim: Axis = -1, *, axis: Axis = ..., out: Any = None, **how: Unpack[How]
    ) -> Any: ...

class Sum(Protocol):
    def __call__(
        self,
        x: _U,
        dim: Axes = -1,
        keepdim: bool = False,
        *,
        axis: Axes = ...,
        keepdims: bool | None = None,
        out: _U | None = None,
        **how: Unpack[How],
    ) -> _U: ...

class LogsumexpBackward(Protocol):
    def __call__(
        self, x: _U, y: _U, grad: _U, dim: Axis = -1, *, axis: Axis = ..., out: _U | None = None, **how: Unpack[How]
    ) -> _U: ...

class Argmin(Protocol):
    def __call__(
        self,
        x: _U,
        dim: Axis = -1,
        keepdim: bool = False,
        *,
        axis: Axis = ...,
        keepdims: bool | None = None,
        out: _U | None = None,
        **how: Unpack[How],
    ) -> _U: ...

class CrossEntropy(Protocol):
    def __call__(
        self,
        x: _U,
        labels: _U,
        dim: Axis = -1,
        keepdim: bool = False,
        *,
        axis: Axis = ...,
        keepdims: bool | None = None,
        ignore_index: int = -100,
        out: _U | None = None,
        **how: Unpack[How],
    ) -> _U: ...

class CrossEntropyBackward(Protocol):
    def __call__(
        self,
        x: _U,
        labels: _U,
        grad: _U,
        dim: Axis = -1,
        *,
        axis: Axis = ...,
        ignore_index: int = -100,
        out: _U | None = None,
        **how: Unpack[How],
    ) -> _U: ...

class RmsNorm(Protocol):
    def __call__(
        self,
        x: _U,
        weight: _U,
        dim: Axis = -1,
        *,
        axis: Axis = ...,
        eps: float = 1e-06,
        out: _U | None = None,
        **how: Unpack[How],
    ) -> _U: ...

class RmsNormBackward(Protocol):
    def __call__(
        self,
        x: _U,
        weight: _U,
        grad: _U,
        dim: Axis = -1,
        *,
        axis: Axis = ...,
        eps: float = 1e-06,
        out: tuple[_U, _U] | list[_U] | None = None,
        **how: Unpack[How],
    ) -> tuple[_U, _U]: ...

class AddRmsNorm(Protocol):
    def __call__(
        self,
        x: _U,
        residual: _U,
        weight: _U,
        dim: Axis = -1,
        *,
        axis: Axis = ...,
        eps: float = 1e-06,
        out: tuple[_U, _U] | list[_U] | None = None,
        **how: Unpack[How],
    ) -> tuple[_U, _U]: ...

class LayerNorm(Protocol):
    def __call__(
        self,
        x: _U,
        weight: _U,
        bias: _U,
        dim: Axis = -1,
        *,
        axis: Axis = ...,
        eps: float = 1e-05,
        out: _U | None = None,
        **how: Unpack[How],
    ) -> _U: ...

class LayerNormBackward(Protocol):
    def __call__(
        self,
        x: _U,
        weight: _U,
        grad: _U,
        dim: Axis = -1,
        *,
        axis: Axis = ...,
        eps: float = 1e-05,
        out: tuple[_U, _U, _U] | list[_U] | None = None,
        **how: Unpack[How],
    ) -> tuple[_U, _U, _U]: ...

class Cumsum(Protocol):
    def __call__(self, x: _U, dim: Axis = -1, *, axis: Axis = ..., out: _U | None = None, **how: Unpack[How]) -> _U: ...

class QuantizeRows(Protocol):
    def __call__(
        self,
        x: _U,
        dim: Axis = -1,
        *,
        axis: Axis = ...,
        out: tuple[_U, _U] | list[_U] | None = None,
        **how: Unpack[How],
    ) -> tuple[_U, _U]: ...

class SoftmaxPairs(Protocol):
    def __call__(
        self,
        x: _U,
        dim: Axis = -1,
        keepdim: bool = False,
        *,
        axis: Axis = ...,
        keepdims: bool | None = None,
        out: tuple[_U, _U] | list[_U] | None = None,
        **how: Unpack[How],
    ) -> tuple[_U, _U]: ...

class SoftmaxMerge(Protocol):
    def __call__(
        self,
        maximum: _U,
        total: _U,
        dim: Axis = -1,
        keepdim: bool = False,
        *,
        axis: Axis = ...,
        keepdims: bool | None = None,
        out: tuple[_U, _U] | list[_U] | None = None,
        **how: Unpack[How],
    ) -> tuple[_U, _U]: ...

class SoftmaxFinish(Protocol):
    def __call__(
        self,
        x: _U,
        maximum: _U,
        total: _U,
        dim: Axis = -1,
        *,
        axis: Axis = ...,
        out: _U | None = None,
        **how: Unpack[How],
    ) -> _U: ...

class Vecdot(Protocol):
    def __call__(
        self,
        x: _U,
        y: _U,
        dim: Axis = -1,
        keepdim: bool = False,
        *,
        axis: Axis = ...,
        keepdims: bool | None = None,
        out: _U | None = None,
        **how: Unpack[How],
    ) -> _U: ...

class SoftmaxBackwardFinish(Protocol):
    def __call__(
        self, grad: _U, y: _U, total: _U, dim: Axis = -1, *, axis: Axis = ..., out: _U | None = None, **how: Unpack[How]
    ) -> _U: ...

class MinBackwardFinish(Protocol):
    def __call__(
        self,
        x: _U,
        y: _U,
        grad: _U,
        count: _U,
        dim: Axis = -1,
        *,
        axis: Axis = ...,
        out: _U | None = None,
        **how: Unpack[How],
    ) -> _U: ...

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

class Operations:  # as methods of a backend
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
