"""Small kernels in PTX around an instruction or a few, run by the emulator on NumPy's arrays."""

from collections.abc import Sequence
from typing import Any

import host_compiler
import numpy as np
import ptx
import pytest

MARKS = [
    pytest.mark.slow,
    pytest.mark.skipif(not host_compiler.compiler(), reason="needs a C++ compiler: g++, or the package ziglang"),
]

REGISTERS = (
    ".reg .pred p<9>; .reg .b8 rb<9>; .reg .b16 rs<32>; .reg .b32 r<64>; .reg .b64 rd<64>; "
    ".reg .f32 f<16>; .reg .f64 fd<16>;"
)
_FAMILY = {1: "r", 2: "rs", 4: "r", 8: "rd"}


def module(body: str, parameters: int, *, attributes: str = "", before: str = "") -> str:
    """A module whose kernel ``main`` takes so many addresses, in rd1 and so on; r0 is the thread's number."""
    names = ", ".join(f".param .u64 at{k}" for k in range(1, parameters + 1))
    loads = "\n".join(f"ld.param.u64 rd{k}, [at{k}];" for k in range(1, parameters + 1))
    return (
        f".version 8.7\n.target sm_90a\n.address_size 64\n{before}\n"
        f".visible .entry main({names}) {attributes} {{\n{REGISTERS}\n{loads}\nmov.u32 r0, %tid.x;\n{body}\nret;\n}}\n"
    )


def run(
    body: str,
    *arrays: np.ndarray,
    grid: int = 1,
    block: int = 32,
    attributes: str = "",
    before: str = "",
    **options: Any,
) -> None:
    """Run a body as ``module`` has it on arrays, which it may write to."""
    kernel = ptx.load(module(body, len(arrays), attributes=attributes, before=before))["main"]
    memory = [(array.ctypes.data, array.nbytes) for array in arrays]
    kernel.launch(grid, block, [array.ctypes.data for array in arrays], memory=memory, **options)


def each(instructions: str, *inputs: np.ndarray, to: Any) -> np.ndarray:
    """What instructions make of each element: ``{a}``, ``{b}``, ``{c}`` are the inputs, ``{d}`` is the result."""
    (made,) = several([(instructions, to)], *inputs)
    return made


def several(wanted: Sequence[tuple[str, Any]], *inputs: np.ndarray) -> list[np.ndarray]:
    """The same of several, each with the dtype of its result; one kernel runs all, as to compile it takes long."""
    given, names, lines = [np.ascontiguousarray(array).ravel() for array in inputs], {}, []
    count, last = given[0].size, len(given)
    for k, (letter, array) in enumerate(zip("abc", given, strict=False)):
        size = array.dtype.itemsize
        names[letter] = f"{_FAMILY[size]}{10 + k}"
        lines.append(f"mad.wide.u32 rd{20 + k}, r0, {size}, rd{k + 1};")
        lines.append(f"ld.global.b{8 * size} {names[letter]}, [rd{20 + k}];")
    places = [0]
    for instructions, to in wanted:
        size = np.dtype(to).itemsize
        names["d"] = f"{_FAMILY[size]}{10 + last}"
        lines.append(f"{instructions.format(**names)} mad.wide.u32 rd30, r0, {size}, rd{last + 1};")
        lines.append(f"st.global.b{8 * size} [rd30+{places[-1]}], {names['d']};")
        places.append(places[-1] + -(-count * size // 8) * 8)
    body = (
        f"mov.u32 r1, %ctaid.x; mov.u32 r2, %ntid.x; mad.lo.u32 r0, r1, r2, r0; setp.ge.u32 p8, r0, {count};\n"
        f"@p8 bra END;\n{chr(10).join(lines)}\nEND:"
    )
    out = np.zeros(places[-1], "u1")
    run(body, *given, out, grid=-(-count // 128), block=128)
    return [
        out[place : place + count * np.dtype(to).itemsize].view(to)
        for place, (_, to) in zip(places, wanted, strict=False)
    ]


def pairs(values: Any, dtype: Any) -> tuple[np.ndarray, np.ndarray]:
    """Every value beside every one."""
    a, b = np.meshgrid(np.asarray(values, dtype), np.asarray(values, dtype))
    return a.ravel(), b.ravel()


def bits(array: np.ndarray) -> np.ndarray:
    """An array's elements as integers, NaN as one."""
    if array.dtype.kind != "f":
        return array
    words = array.view(f"u{array.itemsize}").copy()
    words[np.isnan(array)] = 2 ** (8 * array.itemsize - 1) - 1
    return words
