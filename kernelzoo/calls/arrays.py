"""Calls on arrays of NumPy, CuPy, Numba, JAX, and any library with DLPack or ``__cuda_array_interface__``.

A kernel reads an array in place, on the library's stream. The array may be read-only. An array with negative strides,
foreign byte order or unaligned elements is copied first, because no tensor can represent it. The result is an array of
the same library. Torch does not record these calls, so they have no gradient.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils.dlpack import from_dlpack

from kernelzoo.calls.call import Call, Tensors
from kernelzoo.errors import DeviceError, InputTypeError, OutputError
from kernelzoo.operations import Operation, dtype_name
from kernelzoo.operations.arguments import is_cacheable_dim, normalize_dim
from kernelzoo.operations.tensors import check_storage
from kernelzoo.torch_private import current_device, current_stream


class Library:
    """Conversion of a library's arrays to tensors and back. This base class serves any library with DLPack."""

    def tensor(self, x: Any) -> torch.Tensor:
        """Return a tensor that shares the array's memory, and is ready on the current stream."""
        return from_dlpack(x)

    def copy_if_unsupported(self, x: Any) -> torch.Tensor | None:
        """Return a copy as a tensor if no tensor can have the array's layout; else None."""
        if _has_negative_stride(x) and self.device(x) != "cpu":
            raise ValueError("it has a negative stride; pass a contiguous copy")
        if self.device(x) != "cpu":
            return None
        import numpy

        try:  # torch's own reader ends the process at a negative stride
            read = numpy.from_dlpack(x)
        except Exception:  # a dtype without a name in NumPy, such as bfloat16
            return None
        return NumPy().copy_if_unsupported(read)

    def array(self, tensor: torch.Tensor, like: Any) -> Any:
        """Return an array that shares the tensor's memory, of the same library as ``like``."""
        namespace = getattr(like, "__array_namespace__", None)
        return tensor if namespace is None else namespace().from_dlpack(tensor)

    def device(self, x: Any) -> str:
        """Return the array's device type, as torch names it."""
        kind, _ = x.__dlpack_device__()
        return {1: "cpu", 2: "cuda", 10: "cuda", 13: "cuda"}.get(int(kind), f"DLPack's device {int(kind)}")

    def stream(self, x: Any) -> int | None:
        """Return the handle of the launch's stream; None for torch's current one, on which DLPack makes x ready."""
        return None

    def is_writable(self, x: Any) -> bool:
        module = type(x).__module__.partition(".")[0]
        return module not in ("jax", "jaxlib")


class NumPy(Library):
    """NumPy arrays, on the host. The bfloat16 and float8 dtypes of ml_dtypes are unknown to torch."""

    def tensor(self, x: Any) -> torch.Tensor:
        if x.dtype.name == "bfloat16":
            return self.tensor(x.view("int16")).view(torch.bfloat16)
        if not x.flags.writeable:  # torch would warn of it
            import numpy

            x = numpy.asarray(_WritableInterface(x, "__array_interface__"))
        return torch.from_numpy(x)

    def copy_if_unsupported(self, x: Any) -> torch.Tensor | None:
        steps = [step % x.itemsize for step in x.strides] if x.itemsize else []
        if x.dtype.isnative and x.flags.aligned and not any(steps) and not _has_negative_stride(x):
            return None
        return self.tensor(x.astype(x.dtype.newbyteorder("="), order="C"))

    def array(self, tensor: torch.Tensor, like: Any) -> Any:
        if tensor.dtype == torch.bfloat16:
            return tensor.view(torch.int16).numpy().view(like.dtype)
        if tensor.dtype == torch.float8_e4m3fn:
            return tensor.view(torch.uint8).numpy().view(_float8_dtype())
        return tensor.numpy()

    def device(self, x: Any) -> str:
        return "cpu"

    def is_writable(self, x: Any) -> bool:
        return bool(x.flags.writeable)


class CuPy(Library):
    """CuPy arrays, on CuPy's current stream. A repeated call skips the conversion to tensors."""

    def __init__(self) -> None:
        import cupy

        self.current = cupy.cuda.get_current_stream
        self.kind: Any = cupy.ndarray
        self.empty: Callable[..., Any] = cupy.ndarray
        self._from_dlpack: Callable[[Any], Any] = cupy.from_dlpack

    def copy_if_unsupported(self, x: Any) -> torch.Tensor | None:
        return self.tensor(x.copy()) if _has_negative_stride(x) else None

    def array(self, tensor: torch.Tensor, like: Any) -> Any:
        return self._from_dlpack(tensor)

    def device(self, x: Any) -> str:
        return "cuda"

    def stream(self, x: Any) -> int:
        return int(self.current(x.data.device_id).ptr)


class CudaArrayInterface(Library):
    """Arrays with ``__cuda_array_interface__`` and no DLPack, such as Numba's device arrays."""

    def tensor(self, x: Any) -> torch.Tensor:
        return torch.as_tensor(_WritableInterface(x))

    def copy_if_unsupported(self, x: Any) -> torch.Tensor | None:
        if not _has_negative_stride(x):
            return None
        forward = _WritableInterface(x)
        interface = forward.__cuda_array_interface__  # type: ignore[attr-defined]  # set by name
        steps = interface["strides"]
        first = sum((size - 1) * step for size, step in zip(interface["shape"], steps, strict=True) if step < 0)
        interface |= {"strides": tuple(map(abs, steps)), "data": (interface["data"][0] + first, False)}
        return torch.as_tensor(forward).flip([axis for axis, step in enumerate(steps) if step < 0])

    def array(self, tensor: torch.Tensor, like: Any) -> Any:
        return tensor

    def device(self, x: Any) -> str:
        return "cuda"

    def stream(self, x: Any) -> int | None:
        stream: int | None = x.__cuda_array_interface__.get("stream")
        return stream

    def is_writable(self, x: Any) -> bool:
        return not x.__cuda_array_interface__["data"][1]


class Numba(CudaArrayInterface):
    """Numba's device arrays, on the stream to which an array is bound, else on Numba's default stream."""

    def array(self, tensor: torch.Tensor, like: Any) -> Any:
        from numba import cuda

        return cuda.as_cuda_array(tensor, sync=False)

    def stream(self, x: Any) -> int:
        return super().stream(x) or 0


class _WritableInterface:
    """An array's interface, marked as writable because torch reads only writable arrays. No kernel writes into it."""

    def __init__(self, x: Any, name: str = "__cuda_array_interface__") -> None:
        self._x = x  # keeps the memory alive
        interface = getattr(x, name)
        setattr(self, name, {**interface, "data": (interface["data"][0], False)})


def _float8_dtype() -> Any:
    """Return NumPy's float8_e4m3fn dtype. Raises InputTypeError if ml_dtypes, which defines it, is not installed."""
    try:
        import ml_dtypes
    except ImportError:
        raise InputTypeError(
            "a result is float8_e4m3fn, which NumPy alone has not: pip install ml_dtypes, or pass torch.from_numpy(x)"
        ) from None
    return ml_dtypes.float8_e4m3fn


def _has_negative_stride(x: Any) -> bool:
    if (steps := getattr(x, "strides", None)) is None:
        steps = getattr(x, "__cuda_array_interface__", {}).get("strides")
    return isinstance(steps, tuple) and any(step < 0 for step in steps)


_libraries: dict[type, Library] = {}


def library_of(x: Any, name: str) -> Library:
    """Return the library of an array. Raises InputTypeError for anything else."""
    if (found := _libraries.get(type(x))) is None:
        found = _libraries[type(x)] = _library_of(x, name)
    return found


def _library_of(x: Any, name: str) -> Library:
    kind, numpy = type(x), sys.modules.get("numpy")
    module = kind.__module__.partition(".")[0]
    core = sys.modules.get("jax.core")
    if core is not None and isinstance(x, core.Tracer):
        raise InputTypeError(
            f"{name} is a {kind.__name__}: under jax.jit, jax.grad and jax.vmap an array has no memory; call through "
            "jax.pure_callback, and for a gradient within jax.custom_vjp"
        )
    if numpy is not None and isinstance(x, numpy.ma.MaskedArray):
        raise InputTypeError(f"{name} is a masked array, and a kernel sees no mask; pass x.filled(...)")
    if numpy is not None and isinstance(x, numpy.ndarray):
        return NumPy()
    if module == "cupy" and hasattr(kind, "__dlpack__"):
        return CuPy()
    if hasattr(kind, "__dlpack__"):
        return Library()
    if hasattr(kind, "__cuda_array_interface__"):
        return Numba() if module == "numba" else CudaArrayInterface()
    remedy = "torch.tensor(x)" if isinstance(x, list | tuple | int | float) else "a tensor or an array made of it"
    raise InputTypeError(
        f"{name} must be a torch.Tensor or an array with __dlpack__ or __cuda_array_interface__, got {_type_name(x)}; "
        f"pass {remedy}"
    )


def _as_tensor(x: Any, name: str, library: Library) -> tuple[torch.Tensor, bool]:
    """Return an array as a tensor, and whether the tensor is a copy."""
    try:
        copy = library.copy_if_unsupported(x)
        return (library.tensor(x), False) if copy is None else (copy, True)
    except Exception as error:  # another library may raise anything
        said = str(error).partition("\n")[0]
        raise InputTypeError(
            f"{name} is a {_type_name(x)} that torch can't read: {type(error).__name__}: {said}; convert it to a dtype "
            "that the operation takes"
        ) from error


@contextmanager
def _on_stream(stream: int | None, x: Any) -> Iterator[None]:
    """Make torch use a stream within this context, on x's device. ``stream``: its handle, or None to change nothing."""
    if stream is None:
        yield
        return
    if stream == 2:  # the thread's own default stream in CUDA
        raise DeviceError(
            f"the current stream of {type(x).__module__} is the thread's own default stream, which torch can't take; "
            "call within another stream"
        )
    dlpack = hasattr(x, "__dlpack_device__")
    device = int(x.__dlpack_device__()[1]) if dlpack else torch.as_tensor(_WritableInterface(x)).get_device()
    default = stream in (0, 1)  # both name the default stream
    there = torch.cuda.default_stream(device) if default else torch.cuda.ExternalStream(stream, device)  # type: ignore[no-untyped-call]
    with torch.cuda.stream(there):
        yield


def device_type(x: Any) -> str:
    """Return a tensor's or array's device type, such as ``"cuda"``; "" for a torch.fx proxy. Raises InputTypeError."""
    if isinstance(x, torch.Tensor):
        return x.device.type
    if isinstance(x, torch.fx.Proxy):
        return ""
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(x, numpy.ndarray):  # torch.compile shows no more of the array
        return "cpu"
    library = library_of(x, "x")
    try:
        return library.device(x)
    except Exception as error:
        raise InputTypeError(f"x is a {_type_name(x)} without memory: {str(error).partition(chr(10))[0]}") from error


def convert_dtype(x: Any, dtype: Any) -> Any:
    """Convert a tensor or array to a dtype of torch or of the array's library. Raises InputTypeError."""
    if isinstance(x, torch.Tensor):
        if not isinstance(dtype, torch.dtype):
            raise InputTypeError(f"dtype is a torch.dtype for a tensor, got {dtype!r}")
        check_storage(x, "x")
        return x.to(dtype)
    if torch.compiler.is_dynamo_compiling():  # torch.compile traces only NumPy's arrays
        return x.astype(dtype_name(dtype) if isinstance(dtype, torch.dtype) else dtype)
    library_of(x, "x")
    if not hasattr(x, "astype"):
        raise InputTypeError(f"dtype= converts no {_type_name(x)}; convert it before the call")
    try:
        return x.astype(dtype_name(dtype) if isinstance(dtype, torch.dtype) else dtype)
    except TypeError as error:
        raise InputTypeError(f"dtype={dtype!r} is none of {_type_name(x)}: {error}") from error


def run(call: Call, inputs: Tensors, out: Any) -> Any:
    """Run a call on arrays of one library; returns arrays of that library, or ``out``.

    Raises InputTypeError, OutputError, DeviceError, and what a call on tensors raises.
    """
    backend, op, dim, keepdim, scalars, variant = call
    first = inputs[0]
    dim = dim if is_cacheable_dim(dim) else normalize_dim(dim, op.several_axes)
    library: Any = _libraries.get(type(first))
    key: tuple[object, ...] | None = None
    if (
        isinstance(library, CuPy)
        and out is None
        and not backend._table_chosen()
        and is_cacheable_dim(dim)
        and type(variant) is str
    ):
        key = (op, variant, dim, keepdim, *scalars.items())
        addresses = []
        for x in inputs:
            if not isinstance(x, library.kind):
                break
            memory = x.data
            address = memory.ptr
            addresses.append(address)
            key += x.dtype.char, x.shape, x.strides, address % 16, memory.device_id
        cached = backend._cache.arrays.get(key)
        if cached is not None and type(keepdim) is bool and all(addresses):
            device = cached.device
            if library.current(device).ptr == current_stream(device) and device == current_device():
                outs = [library.empty(*result) for result in cached.results]
                if cached.run(*addresses, *[made.data.ptr for made in outs]) is None:
                    return outs[0] if len(outs) == 1 else tuple(outs)
    names = list(op.inputs)
    for x, name in zip(inputs, names, strict=True):
        if isinstance(x, torch.Tensor) or type(library_of(x, name)) is not type(library_of(first, names[0])):
            given = ", ".join(f"{name} is a {_type_name(x)}" for name, x in zip(names, inputs, strict=True))
            raise InputTypeError(f"all inputs must be tensors, or arrays of one library: {given}; convert some of them")
    library = library_of(first, names[0])
    with _on_stream(library.stream(first), first):
        read = [_as_tensor(x, name, library) for x, name in zip(inputs, names, strict=True)]
        tensors = tuple(tensor for tensor, _ in read)
        if (kind := tensors[0].device.type) not in backend.devices:
            raise DeviceError(
                f"backend {backend.name!r} takes arrays on {' or '.join(backend.devices)} here, got one on {kind}; "
                f"call kernelzoo.{op.name}, which takes a backend for {kind}, or move the array"
            )
        into = None if out is None else _output_tensors(op, out, library, first)
        backend._check(*tensors)
        launch, made = backend._launch(call._replace(dim=dim), tensors, into)
        if out is not None:
            return out
        arrays = tuple(library.array(tensor, first) for tensor in made)
        if key is not None and not any(copy for _, copy in read):
            results = [(array.shape, array.dtype) for array in arrays]
            backend._cache.keep_arrays(key, launch, tensors[0], results)
    return arrays[0] if len(arrays) == 1 else arrays


def _output_tensors(op: Operation, out: Any, library: Library, first: Any) -> Any:
    """Return the caller's output arrays as tensors. Raises OutputError."""
    several = isinstance(out, list | tuple) and len(op.outputs) > 1
    tensors = []
    for name, array in zip(op.outputs, out if several else (out,), strict=False):
        if isinstance(array, torch.Tensor) or type(array) is not type(first):
            raise OutputError(f"{name} must be a {_type_name(first)}, as the input is; got a {_type_name(array)}")
        if not library.is_writable(array):
            raise OutputError(f"{name} is read-only; call it without out=")
        tensor, copy = _as_tensor(array, name, library)
        if copy:
            raise OutputError(
                f"{name} has a negative stride, the other byte order or unaligned elements, which no kernel writes; "
                f"call without out=, and assign the result to {name}[...]"
            )
        tensors.append(tensor)
    return tuple(tensors) if several else tensors[0]


def _type_name(x: Any) -> str:
    return "torch.Tensor" if isinstance(x, torch.Tensor) else f"{type(x).__module__}.{type(x).__qualname__}"
