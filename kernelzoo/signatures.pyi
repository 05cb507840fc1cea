# The operations' signatures, for type checkers.
#
# They follow from each operation's class, as kernelzoo.calls.methods.signature_of does at run time. Tensors give
# tensors, and NumPy arrays give NumPy arrays. Results for other libraries' arrays are untyped.

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias, TypedDict, TypeVar, Unpack, overload

import numpy as np
import numpy.typing as npt
import torch

_Axis: TypeAlias = int | np.integer[Any]
_Axes: TypeAlias = _Axis | Sequence[_Axis] | None

class _DLPack(Protocol):  # an array of any library
    def __dlpack_device__(self) -> Any: ...

class _CudaArray(Protocol):  # an array on a GPU of a library without DLPack
    @property
    def __cuda_array_interface__(self) -> Any: ...

class _How(TypedDict, total=False):
    batch_invariant: bool
    variant: str

_Other: TypeAlias = _DLPack | _CudaArray
_T = TypeVar("_T", torch.Tensor, npt.NDArray[Any])
_U = TypeVar("_U", torch.Tensor, npt.NDArray[Any], _Other)

# Written by tests/described/signatures.py

class _Softmax(Protocol):
    @overload
    def __call__(
        self,
        x: _T,
        dim: _Axis = -1,
        *,
        axis: _Axis = ...,
        dtype: torch.dtype | npt.DTypeLike | None = None,
        out: _T | None = None,
        **how: Unpack[_How],
    ) -> _T: ...
    @overload
    def __call__(
        self, x: _Other, dim: _Axis = -1, *, axis: _Axis = ..., dtype: Any = None, out: Any = None, **how: Unpack[_How]
    ) -> Any: ...

class _Min(Protocol):
    @overload
    def __call__(
        self,
        x: _T,
        dim: _Axes = -1,
        keepdim: bool = False,
        *,
        axis: _Axes = ...,
        keepdims: bool | None = None,
        out: _T | None = None,
        **how: Unpack[_How],
    ) -> _T: ...
    @overload
    def __call__(
        self,
        x: _Other,
        dim: _Axes = -1,
        keepdim: bool = False,
        *,
        axis: _Axes = ...,
        keepdims: bool | None = None,
        out: Any = None,
        **how: Unpack[_How],
    ) -> Any: ...

class _SoftmaxBackward(Protocol):
    @overload
    def __call__(
        self, grad: _T, y: _T, dim: _Axis = -1, *, axis: _Axis = ..., out: _T | None = None, **how: Unpack[_How]
    ) -> _T: ...
    @overload
    def __call__(
        self, grad: _Other, y: _Other, dim: _Axis = -1, *, axis: _Axis = ..., out: Any = None, **how: Unpack[_How]
    ) -> Any: ...

class _MinBackward(Protocol):
    @overload
    def __call__(
        self, x: _T, y: _T, grad: _T, dim: _Axis = -1, *, axis: _Axis = ..., out: _T | None = None, **how: Unpack[_How]
    ) -> _T: ...
    @overload
    def __call__(
        self,
        x: _Other,
        y: _Other,
        grad: _Other,
        dim: _Axis = -1,
        *,
        axis: _Axis = ...,
        out: Any = None,
        **how: Unpack[_How],
    ) -> Any: ...

class _Sum(Protocol):
    def __call__(
        self,
        x: _U,
        dim: _Axes = -1,
        keepdim: bool = False,
        *,
        axis: _Axes = ...,
        keepdims: bool | None = None,
        out: _U | None = None,
        **how: Unpack[_How],
    ) -> _U: ...

class _LogsumexpBackward(Protocol):
    def __call__(
        self, x: _U, y: _U, grad: _U, dim: _Axis = -1, *, axis: _Axis = ..., out: _U | None = None, **how: Unpack[_How]
    ) -> _U: ...

class _Argmin(Protocol):
    def __call__(
        self,
        x: _U,
        dim: _Axis = -1,
        keepdim: bool = False,
        *,
        axis: _Axis = ...,
        keepdims: bool | None = None,
        out: _U | None = None,
        **how: Unpack[_How],
    ) -> _U: ...

class _CrossEntropy(Protocol):
    def __call__(
        self,
        x: _U,
        labels: _U,
        dim: _Axis = -1,
        keepdim: bool = False,
        *,
        axis: _Axis = ...,
        keepdims: bool | None = None,
        ignore_index: int = -100,
        out: _U | None = None,
        **how: Unpack[_How],
    ) -> _U: ...

class _CrossEntropyBackward(Protocol):
    def __call__(
        self,
        x: _U,
        labels: _U,
        grad: _U,
        dim: _Axis = -1,
        *,
        axis: _Axis = ...,
        ignore_index: int = -100,
        out: _U | None = None,
        **how: Unpack[_How],
    ) -> _U: ...

class _RmsNorm(Protocol):
    def __call__(
        self,
        x: _U,
        weight: _U,
        dim: _Axis = -1,
        *,
        axis: _Axis = ...,
        eps: float = 1e-06,
        out: _U | None = None,
        **how: Unpack[_How],
    ) -> _U: ...

class _RmsNormBackward(Protocol):
    def __call__(
        self,
        x: _U,
        weight: _U,
        grad: _U,
        dim: _Axis = -1,
        *,
        axis: _Axis = ...,
        eps: float = 1e-06,
        out: tuple[_U, _U] | list[_U] | None = None,
        **how: Unpack[_How],
    ) -> tuple[_U, _U]: ...

class _AddRmsNorm(Protocol):
    def __call__(
        self,
        x: _U,
        residual: _U,
        weight: _U,
        dim: _Axis = -1,
        *,
        axis: _Axis = ...,
        eps: float = 1e-06,
        out: tuple[_U, _U] | list[_U] | None = None,
        **how: Unpack[_How],
    ) -> tuple[_U, _U]: ...

class _LayerNorm(Protocol):
    def __call__(
        self,
        x: _U,
        weight: _U,
        bias: _U,
        dim: _Axis = -1,
        *,
        axis: _Axis = ...,
        eps: float = 1e-05,
        out: _U | None = None,
        **how: Unpack[_How],
    ) -> _U: ...

class _LayerNormBackward(Protocol):
    def __call__(
        self,
        x: _U,
        weight: _U,
        grad: _U,
        dim: _Axis = -1,
        *,
        axis: _Axis = ...,
        eps: float = 1e-05,
        out: tuple[_U, _U, _U] | list[_U] | None = None,
        **how: Unpack[_How],
    ) -> tuple[_U, _U, _U]: ...

class _Cumsum(Protocol):
    def __call__(
        self, x: _U, dim: _Axis = -1, *, axis: _Axis = ..., out: _U | None = None, **how: Unpack[_How]
    ) -> _U: ...

class _QuantizeRows(Protocol):
    def __call__(
        self,
        x: _U,
        dim: _Axis = -1,
        *,
        axis: _Axis = ...,
        out: tuple[_U, _U] | list[_U] | None = None,
        **how: Unpack[_How],
    ) -> tuple[_U, _U]: ...

class _SoftmaxPairs(Protocol):
    def __call__(
        self,
        x: _U,
        dim: _Axis = -1,
        keepdim: bool = False,
        *,
        axis: _Axis = ...,
        keepdims: bool | None = None,
        out: tuple[_U, _U] | list[_U] | None = None,
        **how: Unpack[_How],
    ) -> tuple[_U, _U]: ...

class _SoftmaxMerge(Protocol):
    def __call__(
        self,
        maximum: _U,
        total: _U,
        dim: _Axis = -1,
        keepdim: bool = False,
        *,
        axis: _Axis = ...,
        keepdims: bool | None = None,
        out: tuple[_U, _U] | list[_U] | None = None,
        **how: Unpack[_How],
    ) -> tuple[_U, _U]: ...

class _SoftmaxFinish(Protocol):
    def __call__(
        self,
        x: _U,
        maximum: _U,
        total: _U,
        dim: _Axis = -1,
        *,
        axis: _Axis = ...,
        out: _U | None = None,
        **how: Unpack[_How],
    ) -> _U: ...

class _Vecdot(Protocol):
    def __call__(
        self,
        x: _U,
        y: _U,
        dim: _Axis = -1,
        keepdim: bool = False,
        *,
        axis: _Axis = ...,
        keepdims: bool | None = None,
        out: _U | None = None,
        **how: Unpack[_How],
    ) -> _U: ...

class _SoftmaxBackwardFinish(Protocol):
    def __call__(
        self,
        grad: _U,
        y: _U,
        total: _U,
        dim: _Axis = -1,
        *,
        axis: _Axis = ...,
        out: _U | None = None,
        **how: Unpack[_How],
    ) -> _U: ...

class _MinBackwardFinish(Protocol):
    def __call__(
        self,
        x: _U,
        y: _U,
        grad: _U,
        count: _U,
        dim: _Axis = -1,
        *,
        axis: _Axis = ...,
        out: _U | None = None,
        **how: Unpack[_How],
    ) -> _U: ...

softmax: _Softmax
min: _Min
softmax_backward: _SoftmaxBackward
min_backward: _MinBackward
sum: _Sum
logsumexp: _Sum
logsumexp_backward: _LogsumexpBackward
argmin: _Argmin
cross_entropy: _CrossEntropy
cross_entropy_backward: _CrossEntropyBackward
rms_norm: _RmsNorm
rms_norm_backward: _RmsNormBackward
add_rms_norm: _AddRmsNorm
layer_norm: _LayerNorm
layer_norm_backward: _LayerNormBackward
cumsum: _Cumsum
quantize_rows: _QuantizeRows
softmax_pairs: _SoftmaxPairs
softmax_merge: _SoftmaxMerge
softmax_finish: _SoftmaxFinish
vecdot: _Vecdot
softmax_backward_finish: _SoftmaxBackwardFinish
min_backward_counts: _Vecdot
min_backward_finish: _MinBackwardFinish

class _Operations:  # as methods of a backend
    softmax: _Softmax
    min: _Min
    softmax_backward: _SoftmaxBackward
    min_backward: _MinBackward
    sum: _Sum
    logsumexp: _Sum
    logsumexp_backward: _LogsumexpBackward
    argmin: _Argmin
    cross_entropy: _CrossEntropy
    cross_entropy_backward: _CrossEntropyBackward
    rms_norm: _RmsNorm
    rms_norm_backward: _RmsNormBackward
    add_rms_norm: _AddRmsNorm
    layer_norm: _LayerNorm
    layer_norm_backward: _LayerNormBackward
    cumsum: _Cumsum
    quantize_rows: _QuantizeRows
    softmax_pairs: _SoftmaxPairs
    softmax_merge: _SoftmaxMerge
    softmax_finish: _SoftmaxFinish
    vecdot: _Vecdot
    softmax_backward_finish: _SoftmaxBackwardFinish
    min_backward_counts: _Vecdot
    min_backward_finish: _MinBackwardFinish
