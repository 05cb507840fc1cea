"""Mends what Triton's interpreter does to bfloat16 and to conditions, so that results are held to a device's bound.

The interpreter cuts a float32 to bfloat16 where hardware rounds to nearest even, twice the error that an honest kernel
makes, and it reads a subnormal bfloat16 as another number. Seen in Triton 3.6.0 and 3.7.1
(``triton/runtime/interpreter.py``, ``_convert_float``). A scalar condition that meets a tile becomes integers, which
3.9 refuses as a mask (``create_splat``). A loop's bound is an array of one element, which 3.6 gives to int(): NumPy
2.4 takes none but of no dimension.
"""

from typing import Any

import numpy as np
import torch
import triton.language as tl
from triton.runtime import interpreter
from triton.runtime.interpreter import InterpreterBuilder, TensorHandle


def install() -> None:
    """Replace the interpreter's conversions between float32 and bfloat16 by torch's, keep a condition one, and let a
    loop go as far as a tensor says, for this process."""
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

    InterpreterBuilder.cast_impl = cast_impl
    InterpreterBuilder.create_splat = create_splat
    interpreter._patch_lang_tensor = patch_lang_tensor
