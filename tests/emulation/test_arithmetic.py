"""The emulator of PTX, instruction by instruction, against NumPy."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from ptx_kernels import MARKS, bits, each, pairs, several

pytestmark = MARKS

F32 = np.array(
    [0.0, -0.0, 1.0, -1.0, 1.5, 3.0, -7.25, 1e-3, 1e20, -1e20, 3e38, 2.0**-126, -(2.0**-126), 2.0**-127, 2.0**-149,
     -(2.0**-140), 16777217.0, 0.1, np.inf, -np.inf, np.nan], np.float32,
)  # fmt: skip
F64 = np.array([0.0, -0.0, 1.0, -2.5, 1e-310, 5e-324, 1e300, -1e308, 0.1, np.inf, -np.inf, np.nan])
F16 = np.array([0.0, -0.0, 1.0, -1.5, 2.0**-14, 2.0**-24, 65504.0, -60000.0, 0.1, np.inf, -np.inf, np.nan], np.float16)
INTEGERS = [0, 1, 2, 3, 7, 31, 32, 33, 100, 127, 128, 255, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF,
            0x12345678, 0x123456789ABCDEF0, 0x8000000000000000, 0xFFFFFFFFFFFFFFFF]  # fmt: skip


def integers(dtype: Any) -> np.ndarray:
    size = np.dtype(dtype).itemsize
    return np.unique(np.array([v % (1 << 8 * size) for v in INTEGERS], f"u{size}")).view(dtype)


def flushed(a: np.ndarray) -> np.ndarray:
    return np.where(np.abs(a) < 2.0**-126, np.copysign(np.float32(0), a), a).astype(np.float32)


def least(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """min, of which a NaN is dropped and -0 is below +0."""
    return np.where(a == b, np.where(np.signbit(a), a, b), np.fmin(a, b))


def largest(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.where(a == b, np.where(np.signbit(a), b, a), np.fmax(a, b))


def spreading(f: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    return lambda a, b: np.where(np.isnan(a) | np.isnan(b), np.array(np.nan, a.dtype), f(a, b))


ARITHMETIC: list[tuple[str, Any, Any]] = [
    ("add.f32 {d}, {a}, {b};", np.float32, np.add),
    ("sub.rn.f32 {d}, {a}, {b};", np.float32, np.subtract),
    ("mul.f32 {d}, {a}, {b};", np.float32, np.multiply),
    ("div.rn.f32 {d}, {a}, {b};", np.float32, np.divide),
    ("mul.ftz.f32 {d}, {a}, {b};", np.float32, lambda a, b: flushed(flushed(a) * flushed(b))),
    ("add.ftz.f32 {d}, {a}, {b};", np.float32, lambda a, b: flushed(flushed(a) + flushed(b))),
    ("min.f32 {d}, {a}, {b};", np.float32, least),
    ("max.f32 {d}, {a}, {b};", np.float32, largest),
    ("min.NaN.f32 {d}, {a}, {b};", np.float32, spreading(least)),
    ("max.NaN.f32 {d}, {a}, {b};", np.float32, spreading(largest)),
    ("max.ftz.f32 {d}, {a}, {b};", np.float32, lambda a, b: largest(flushed(a), flushed(b))),
    ("neg.f32 {d}, {a};", np.float32, lambda a, b: -a),
    ("abs.f32 {d}, {b};", np.float32, lambda a, b: np.abs(b)),
    ("abs.ftz.f32 {d}, {b};", np.float32, lambda a, b: flushed(np.abs(b))),
    ("rcp.rn.f32 {d}, {a};", np.float32, lambda a, b: np.float32(1) / a),
    ("sqrt.rn.f32 {d}, {a};", np.float32, lambda a, b: np.sqrt(a)),
    ("add.f64 {d}, {a}, {b};", np.float64, np.add),
    ("mul.f64 {d}, {a}, {b};", np.float64, np.multiply),
    ("div.rn.f64 {d}, {a}, {b};", np.float64, np.divide),
    ("min.f64 {d}, {a}, {b};", np.float64, least),
    ("fma.rn.f64 {d}, {a}, {b}, 0d0000000000000000;", np.float64, lambda a, b: a * b + 0.0),
    ("add.f16 {d}, {a}, {b};", np.float16, np.add),
    ("sub.f16 {d}, {a}, {b};", np.float16, np.subtract),
    ("mul.f16 {d}, {a}, {b};", np.float16, np.multiply),
    ("min.NaN.f16 {d}, {a}, {b};", np.float16, spreading(least)),
    ("max.f16 {d}, {a}, {b};", np.float16, largest),
    *(
        (f"{name}.{kind} {{d}}, {{a}}, {{b}};", dtype, function)
        for kind, dtype in (("s16", "i2"), ("s32", "i4"), ("s64", "i8"), ("u32", "u4"), ("u64", "u8"))
        for name, function in (("add", np.add), ("sub", np.subtract), ("mul.lo", np.multiply), ("min", np.minimum),
                               ("max", np.maximum))
    ),
    ("min.relu.s32 {d}, {a}, {b};", "i4", lambda a, b: np.maximum(np.minimum(a, b), 0)),
    ("max.relu.s32 {d}, {a}, {b};", "i4", lambda a, b: np.maximum(np.maximum(a, b), 0)),
    ("and.b32 {d}, {a}, {b};", "u4", np.bitwise_and),
    ("or.b64 {d}, {a}, {b};", "u8", np.bitwise_or),
    ("xor.b16 {d}, {a}, {b};", "u2", np.bitwise_xor),
    ("not.b32 {d}, {a};", "u4", lambda a, b: ~a),
    ("neg.s32 {d}, {a};", "i4", lambda a, b: -a),
    ("abs.s64 {d}, {a};", "i8", lambda a, b: np.abs(a)),
    ("mul.hi.u32 {d}, {a}, {b};", "u4", lambda a, b: (a.astype("u8") * b >> np.uint64(32)).astype("u4")),
    ("mul.hi.s32 {d}, {a}, {b};", "i4", lambda a, b: (a.astype("i8") * b >> 32).astype("i4")),
    ("mad.lo.s32 {d}, {a}, {b}, {a};", "i4", lambda a, b: a * b + a),
    ("div.u32 {d}, {a}, 7;", "u4", lambda a, b: a // np.uint32(7)),
    ("div.s32 {d}, {a}, -7;", "i4", lambda a, b: np.trunc(a / -7).astype("i4")),
    ("rem.s32 {d}, {a}, 7;", "i4", lambda a, b: np.fmod(a, np.int32(7))),
    ("mov.b64 rd40, {{{a}, {b}}}; mov.b64 {{r40, {d}}}, rd40;", "u4", lambda a, b: b),
    ("popc.b32 {d}, {a};", "u4", lambda a, b: np.bitwise_count(a).astype("u4")),
    ("lop3.b32 {d}, {a}, {b}, 0x0ff0, 0xE8;", "u4", lambda a, b: (a & b) | ((a | b) & np.uint32(0xFF0))),
    ("prmt.b32 {d}, {a}, {b}, 0x7531;", "u4",
     lambda a, b: np.stack([a, b], 1).view("u1").reshape(-1, 8)[:, [1, 3, 5, 7]].copy().view("u4")[:, 0]),
    ("prmt.b32 {d}, {a}, {b}, 0xb;", "u4",
     lambda a, b: np.where(a >> np.uint32(31), 255, 0).astype("u4") | ((a & np.uint32(255)) * np.uint32(0x01010100))),
    ("bfe.u32 {d}, {a}, 5, 11;", "u4", lambda a, b: a >> np.uint32(5) & np.uint32(2047)),
    ("bfe.s32 {d}, {a}, 5, 11;", "i4", lambda a, b: a << 16 >> 21),
    ("bfi.b32 {d}, {a}, {b}, 8, 4;", "u4", lambda a, b: b & np.uint32(0xFFFFF0FF) | a % 16 * 256),
    ("shl.b32 {d}, {a}, 5;", "u4", lambda a, b: a << np.uint32(5)),
    ("shl.b32 {d}, {a}, {b};", "u4", lambda a, b: np.where(b < 32, a << np.minimum(b, 31), 0).astype("u4")),
    ("shr.s32 {d}, {a}, {b};", "i4", lambda a, b: a >> np.minimum(b.view("u4"), 31).astype("i4")),
    ("shr.u32 {d}, {a}, 32;", "u4", lambda a, b: np.zeros_like(a)),
    ("shf.l.wrap.b32 {d}, {a}, {b}, 8;", "u4", lambda a, b: b << np.uint32(8) | a >> np.uint32(24)),
    ("shf.r.clamp.b32 {d}, {a}, {b}, 99;", "u4", lambda a, b: b),
]  # fmt: skip


@pytest.mark.parametrize("kind", dict.fromkeys(np.dtype(dtype).str[1:] for _, dtype, _ in ARITHMETIC))
def test_arithmetic_is_that_of_numpy(kind: str) -> None:
    dtype, values = np.dtype(kind), {"f4": F32, "f8": F64, "f2": F16}.get(kind)
    a, b = pairs(integers(dtype) if values is None else values, dtype)
    wanted = {text: reference for text, of, reference in ARITHMETIC if np.dtype(of) == dtype}
    made = several([(text, dtype) for text in wanted], a, b)
    for (text, reference), found in zip(wanted.items(), made, strict=True):
        with np.errstate(all="ignore"):
            expected = reference(a, b).astype(dtype)
        np.testing.assert_array_equal(bits(found), bits(expected), err_msg=text)


def test_rounding_is_what_the_instruction_says() -> None:
    a, b = (v.astype("f4") for v in np.random.default_rng(0).standard_normal((2, 999)))
    expected = {}
    for sign, operation in (("add", np.add), ("mul", np.multiply)):
        exact = operation(a.astype("f8"), b.astype("f8"))  # of floats so near each other, exact enough to tell
        near = exact.astype("f4")
        down = np.where(near.astype("f8") > exact, np.nextafter(near, np.float32(-np.inf)), near)
        up = np.where(near.astype("f8") < exact, np.nextafter(near, np.float32(np.inf)), near)
        rounded = {"rn": near, "rm": down, "rp": up, "rz": np.where(exact > 0, down, up)}
        expected |= {f"{sign}.{how}.f32 {{d}}, {{a}}, {{b}};": right for how, right in rounded.items()}
    made = several([(text, "f4") for text in expected], a, b)
    for text, found in zip(expected, made, strict=True):
        np.testing.assert_array_equal(found, expected[text], err_msg=text)


def test_a_fused_product_is_rounded_once() -> None:
    a = np.full(3, 1 + 2.0**-12, "f4")
    c = np.array([-1, 0, 1], "f4")
    expected = (a.astype("f8") * a + c).astype("f4")
    np.testing.assert_array_equal(each("fma.rn.f32 {d}, {a}, {b}, {c};", a, a, c, to="f4"), expected)
    doubles = np.array([1 + 2.0**-30])
    made = each("fma.rn.f64 {d}, {a}, {b}, {c};", doubles, doubles, -(doubles**2), to="f8")
    assert made[0] == float(Fraction(doubles[0]) ** 2 - Fraction(doubles[0] ** 2)) != 0


@pytest.mark.parametrize(("kind", "digits"), [("f16", 11), ("bf16", 8)])
def test_halves_are_rounded_once(kind: str, digits: int) -> None:
    generator = torch.Generator().manual_seed(0)
    dtype = torch.float16 if kind == "f16" else torch.bfloat16
    numbers = [torch.randn(2000, generator=generator).to(dtype) for _ in range(3)]
    numbers[2][:1000] *= 2.0**-9
    words = [n.view(torch.int16).numpy() for n in numbers]
    made = torch.from_numpy(each(f"fma.rn.{kind} {{d}}, {{a}}, {{b}}, {{c}};", *words, to="i2")).view(dtype)
    for a, b, c, d in zip(*(n.tolist() for n in numbers), made.tolist(), strict=True):
        exact = Fraction(a) * Fraction(b) + Fraction(c)
        if abs(exact) < Fraction(1, 1 << 14):
            continue  # digits are fewer there
        power = 0
        while abs(exact) * Fraction(2) ** power < 1 << (digits - 1):
            power += 1
        while abs(exact) * Fraction(2) ** power >= 1 << digits:
            power -= 1
        assert Fraction(d) == round(exact * Fraction(2) ** power) / Fraction(2) ** power


def test_a_tie_that_is_none_is_no_tie() -> None:
    """7 · 37 lies between two bfloat16, less what is no more to be seen in a double."""
    a, b, c = (torch.tensor([v], dtype=torch.bfloat16).view(torch.int16).numpy() for v in (7, 37, -(2.0**-60)))
    made = each("fma.rn.bf16 {d}, {a}, {b}, {c};", a, b, c, to="i2")
    assert torch.from_numpy(made).view(torch.bfloat16).item() == 258
