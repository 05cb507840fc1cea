"""Mends Triton's interpreter (3.6 to 3.9): it cuts float32 to bfloat16, misreads subnormal bfloat16, makes integers of
scalar conditions, and gives int() an array as a loop's bound. It is made faster too: what is replaced once is kept.
"""

from typing import Any

import numpy as np
import torch
import triton.language as tl
from triton.runtime import interpreter
from triton.runtime.interpreter import InterpreterBuilder, TensorHandle


def install() -> None:
    """Mend the interpreter's bfloat16, its conditions and its loops' bounds for this process."""
    convert, splat, patch = (
        InterpreterBuilder.cast_impl,
        InterpreterBuilder.create_splat,
        interpreter._patch_lang_tensor,
    )

    def cast_impl(self: Any, source: Any, target: Any) -> Any:
        types = (source.dtype.scalar, target.scalar)
        if types == (tl.float32, tl.bfloat16):
            rounded = torch.from_numpy(np.array(source.data)).to(torch.bfloat16)
            return TensorHandle(rounded.view(torch.int16).numpy().view(np.uint16), tl.bfloat16)
        if types == (tl.bfloat16, tl.float32):
            return TensorHandle((np.array(source.data).astype(np.uint32) << 16).view(np.float32), tl.float32)
        return convert(self, source, target)

    def create_splat(self: Any, target: Any, source: Any) -> Any:
        made = splat(self, target, source)
        return TensorHandle(made.data.astype(np.bool_), made.dtype) if source.data.dtype == np.bool_ else made

    def patch_lang_tensor(tensor: Any, scope: Any) -> None:
        patch(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: self.handle.data.item())

    replace, run = interpreter._patch_lang, interpreter.GridExecutor.__call__
    replaced = set[int]()  # modules for whose functions it is done, in the kernel that runs

    def patch_lang(function: Any) -> Any:
        if id(function.__globals__) in replaced:
            return None  # only a kernel's own call, which is the first, looks at it
        replaced.add(id(function.__globals__))
        return replace(function)

    def run_grid(self: Any, *arguments: Any, **settings: Any) -> None:
        try:
            run(self, *arguments, **settings)
        finally:
            replaced.clear()

    interpreter._patch_lang, interpreter.GridExecutor.__call__ = patch_lang, run_grid
    interpreter.ReduceOps.generic_reduce = by_halves
    InterpreterBuilder.cast_impl = cast_impl
    InterpreterBuilder.create_splat = create_splat
    interpreter._patch_lang_tensor = patch_lang_tensor
    make_types_once()


def make_types_once() -> None:
    """Keep what a type of a tile, a tile's shape, and NumPy's name of a type are made of, by what they are of."""
    numpy_type, block, tensor = interpreter._get_np_dtype, tl.block_type.__init__, tl.tensor.__init__
    numpy_types, blocks, shapes = dict[Any, Any](), dict[Any, dict[str, Any]](), dict[Any, dict[str, Any]]()

    def sizes(shape: Any) -> tuple[int, ...]:
        values = shape.values if type(shape) is tl.tuple else shape
        return tuple([value.value if type(value) is tl.constexpr else value for value in values])

    def np_dtype(kind: Any) -> Any:
        scalar = kind.scalar
        if isinstance(scalar, tl.pointer_type):
            return numpy_type(kind)
        found = numpy_types.get(scalar.name)
        if found is None:
            found = numpy_types[scalar.name] = numpy_type(kind)
        return found

    def make_block(self: Any, element_ty: Any, shape: Any) -> None:
        if type(element_ty) is not tl.dtype:
            return block(self, element_ty, shape)
        key = element_ty.name, sizes(shape)
        if key in blocks:
            self.__dict__.update(blocks[key])
        else:
            block(self, element_ty, shape)
            blocks[key] = dict(self.__dict__)
        return None

    def make_tensor(self: Any, handle: Any, type: Any) -> None:
        key = sizes(type.shape) if type.is_block() else None
        if key in shapes:
            self.__dict__.update(shapes[key], handle=handle, type=type, dtype=type.scalar)
        else:
            tensor(self, handle, type)
            own = ("handle", "type", "dtype")
            shapes[key] = {name: value for name, value in self.__dict__.items() if name not in own}

    interpreter._get_np_dtype = np_dtype
    tl.block_type.__init__, tl.tensor.__init__ = make_block, make_tensor


def by_halves(self: Any, input: tuple[Any, ...]) -> list[Any]:
    """A reduction of whole tiles, over one axis or all, by the function that combines two of them."""
    rank = len(input[0].shape)
    parts, axis = self.unravel(input, self.axis)
    dtypes = [part.dtype for part in parts]
    while parts[0].shape[axis] > 1:
        halves = [np.split(part.handle.data, 2, axis) for part in parts]
        low, high = ([self.to_tensor(half[k], t) for half, t in zip(halves, dtypes, strict=True)] for k in (0, 1))
        made = self.combine_fn.fn(*low, *high)
        parts = made if isinstance(made, tuple) else (made,)
        assert [part.dtype for part in parts] == dtypes
    arrays = [part.handle.data for part in parts]
    if not self.keep_dims:
        arrays = [array.squeeze(axis) for array in arrays]
    elif self.axis is None:
        arrays = [array.reshape((1,) * rank) for array in arrays]
    return [self.to_tensor(array, t) for array, t in zip(arrays, dtypes, strict=True)]
