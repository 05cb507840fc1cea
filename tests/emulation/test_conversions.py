"""The emulator of PTX: comparisons, conversions, halves in pairs, and what is approximated."""

from typing import Any

import numpy as np
import ptx
import pytest
import torch
from ptx_kernels import MARKS, bits, each, pairs, run, several

pytestmark = MARKS

FLOATS = np.array([0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -2.5, 0.3, 255.5, -300, 3e9, -3e9, 1e19, 65519.9, 65520, 3.38953e38,
                   1e-7, 6e-8, 2.0**-133, 1e-45, np.inf, -np.inf, np.nan], "f4")  # fmt: skip
ORDER = {"eq": np.equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal}


def test_comparisons_know_where_there_is_no_order() -> None:
    a, b = pairs(FLOATS, "f4")
    unordered, expected = np.isnan(a) | np.isnan(b), {}
    for how in ("eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"):
        if how in ("num", "nan"):
            right = unordered == (how == "nan")
        elif how in ("ne", "neu"):
            right = (a != b) & ~unordered if how == "ne" else a != b
        else:
            right = ORDER[how[:2]](a, b) | (unordered if how.endswith("u") else False)
        for text in (
            f"setp.{how}.f32 p1, {{a}}, {{b}}; selp.b32 {{d}}, 1, 0, p1;",
            f"setp.{how}.f32 p1, {{a}}, {{b}}; selp.b32 r40, 1, 0, !p1; xor.b32 {{d}}, r40, 1;",
            f"set.{how}.u32.f32 {{d}}, {{a}}, {{b}}; and.b32 {{d}}, {{d}}, 1;",
        ):
            expected[text] = right
    for text, found in zip(expected, several([(text, "u4") for text in expected], a, b), strict=True):
        np.testing.assert_array_equal(found, expected[text], err_msg=text)


def test_comparisons_of_integers_have_signs_or_not() -> None:
    a, b = pairs([0, 1, 5, -1, -(2**31), 2**31 - 1], "i4")
    wanted = [(f"setp.lt.{kind} p1, {{a}}, {{b}}; selp.b32 {{d}}, 1, 0, p1;", "u4") for kind in ("s32", "u32")]
    signed, unsigned = several(wanted, a, b)
    np.testing.assert_array_equal(signed, a < b)
    np.testing.assert_array_equal(unsigned, a.view("u4") < b.view("u4"))


@pytest.mark.parametrize("of", ["f32", "f64"])
def test_floats_become_integers_within_their_range(of: str) -> None:
    whole = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}
    kinds = ["s32", "u32", "s64", "u64", *(["s8", "u8", "s16", "u16"] if of == "f32" else [])]
    wanted = [(rounding, to, f"{'i' if to[0] == 's' else 'u'}{int(to[1:]) // 8}") for rounding in whole for to in kinds]
    texts = [
        (f"cvt.{rounding}.{to}.{of} {{d}}, {{a}};", f"{dtype[0]}{max(int(dtype[1]), 2)}")
        for rounding, to, dtype in wanted
    ]
    given = FLOATS if of == "f32" else FLOATS.astype("f8")
    for (rounding, to, dtype), found in zip(wanted, several(texts, given), strict=True):
        about, values = np.iinfo(dtype), whole[rounding](FLOATS.astype("f8"))
        expected = [0 if np.isnan(v) else int(max(about.min, min(about.max, v))) for v in values]
        if of == "f64":
            expected[-1] = 1 << 63 if dtype[1] == "8" else 0
        right = np.array([v % (1 << 8 * int(dtype[1])) for v in expected], f"u{dtype[1]}").view(dtype)
        np.testing.assert_array_equal(found.astype(dtype), right, err_msg=f"{rounding} {to}")


def test_integers_become_floats_and_others() -> None:
    a = np.array([0, 1, -1, 2**24 + 1, -(2**31), 2**31 - 1, 300, -300], "i4")
    expected = {
        "cvt.rn.f32.s32 {d}, {a};": a.astype("f4"),
        "cvt.rn.f32.u32 {d}, {a};": a.view("u4").astype("f4"),
        "cvt.rn.f64.s32 {d}, {a};": a.astype("f8"),
        "cvt.s64.s32 {d}, {a};": a.astype("i8"),
        "cvt.u64.u32 {d}, {a};": a.view("u4").astype("u8"),
        "cvt.s32.s8 {d}, {a};": a.astype("i1").astype("i4"),
        "cvt.u16.u32 {d}, {a};": a.astype("u2"),
    }
    made = several([(text, right.dtype) for text, right in expected.items()], a)
    for found, (text, right) in zip(made, expected.items(), strict=True):
        np.testing.assert_array_equal(found, right, err_msg=text)


def test_floats_become_narrower_and_wider_ones() -> None:
    generator = np.random.default_rng(1)
    a = np.concatenate([FLOATS, generator.integers(0, 2**32, 4000, dtype="u4").view("f4"),
                        generator.standard_normal(999).astype("f4")])  # fmt: skip
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(bits(each("cvt.rn.f16.f32 {d}, {a};", a, to="f2")), bits(a.astype("f2")))
        np.testing.assert_array_equal(bits(each("cvt.rn.f32.f64 {d}, {a};", a.astype("f8") / 3, to="f4")),
                                      bits((a.astype("f8") / 3).astype("f4")))  # fmt: skip
    halves = np.arange(2**16).astype("u2")
    np.testing.assert_array_equal(
        bits(each("cvt.f32.f16 {d}, {a};", halves, to="f4")), bits(halves.view("f2").astype("f4"))
    )
    made = torch.from_numpy(each("cvt.rn.bf16.f32 {d}, {a};", a, to="i2")).view(torch.bfloat16)
    assert torch.equal(made.float().nan_to_num(7), torch.from_numpy(a).bfloat16().float().nan_to_num(7))
    pair = each("cvt.rn.bf16x2.f32 {d}, {a}, {b};", a, np.ones_like(a), to="u4")
    np.testing.assert_array_equal(pair >> np.uint32(16), made.view(torch.int16).numpy().view("u2"))
    assert (pair & np.uint32(0xFFFF) == 0x3F80).all()
    down = each("cvt.rz.bf16.f32 {d}, {a};", a, to="u2")
    numbers = ~np.isnan(a)
    np.testing.assert_array_equal(down[numbers], (a.view("u4") >> np.uint32(16)).astype("u2")[numbers])
    held = each("cvt.ftz.sat.f32.f32 {d}, {a};", a, to="f4")
    np.testing.assert_array_equal(held, np.where(np.abs(a) < 2.0**-126, 0, np.clip(np.nan_to_num(a), 0, 1)))


def test_two_floats_become_two_eighths() -> None:
    """As torch rounds them, in range."""
    sizes = torch.cat((torch.linspace(0, 0.04, 5000), torch.logspace(-10, 8.8, 5000, 2), torch.tensor([448.0])))
    a = torch.cat((sizes, -sizes))
    pair = each("cvt.rn.satfinite.e4m3x2.f32 {d}, {a}, {b};", a.numpy(), a.flip(0).numpy(), to="u2")
    high, low = (torch.from_numpy(part.astype("u1")) for part in (pair >> 8, pair & 0xFF))
    assert torch.equal(high, a.to(torch.float8_e4m3fn).view(torch.uint8))
    assert torch.equal(low, a.flip(0).to(torch.float8_e4m3fn).view(torch.uint8))
    above = np.array([np.nan, np.inf, -1e9], "f4")
    assert each("cvt.rn.satfinite.e4m3x2.f32 {d}, {a}, {a};", above, to="u2").tolist() == [0x7F7F, 0x7E7E, 0xFEFE]


def test_what_is_too_large_is_infinite_unless_it_is_cut() -> None:
    a = np.array([70000, -70000, np.inf, 65519], "f4")
    assert each("cvt.rn.f16.f32 {d}, {a};", a, to="f2").tolist() == [np.inf, -np.inf, np.inf, 65504]
    assert each("cvt.rz.f16.f32 {d}, {a};", a, to="f2").tolist() == [65504, -65504, np.inf, 65504]


def test_narrow_values_are_extended_as_they_are_loaded() -> None:
    a = np.array([-1, 5, -128, 127], "i1")
    out = np.zeros(4, "i8")
    text = (
        "cvt.u64.u32 rd9, r0; add.u64 rd9, rd9, rd1; ld.global.{0} rd3, [rd9]; mad.wide.u32 rd8, r0, 8, rd2;"
        "st.global.b64 [rd8], rd3;"
    )
    run(text.format("s8"), a, out, block=4)
    assert out.tolist() == a.tolist()
    run(text.format("u8"), a, out, block=4)
    assert out.tolist() == a.view("u1").tolist()


@pytest.mark.parametrize("name", ["add", "mul", "min.NaN", "max"])
def test_halves_in_pairs_are_apart(name: str) -> None:
    values = np.array([1, -2, 0.5, 65504, np.inf, np.nan, 0.1, 2.0**-24], "f2")
    a, b = (v.view("u4") for v in pairs(values, "f2"))
    made = each(f"{name}.f16x2 {{d}}, {{a}}, {{b}};", a, b, to="u4").view("f2")
    single = each(f"{name}.f16 {{d}}, {{a}}, {{b}};", a.view("f2"), b.view("f2"), to="f2")
    np.testing.assert_array_equal(bits(made), bits(single))


def test_approximations_are_near_and_flush() -> None:
    a = np.array([0, 1, -1, 0.5, -126, -127, -149, 127.5, 128, -np.inf, np.inf, np.nan, 1e-40], "f4")
    with np.errstate(all="ignore"):
        exact = np.exp2(a.astype("f8")).astype("f4")
        np.testing.assert_allclose(each("ex2.approx.f32 {d}, {a};", a, to="f4"), exact, rtol=2e-7)
        flushed = np.where(exact < 2.0**-126, np.float32(0), exact)
        np.testing.assert_array_equal(each("ex2.approx.ftz.f32 {d}, {a};", a, to="f4") == 0, flushed == 0)
        assert each("rcp.approx.ftz.f32 {d}, {a};", np.array([1e-40, -1e-40, np.inf, 4], "f4"), to="f4").tolist() == [
            np.inf, -np.inf, 0, 0.25]  # fmt: skip
        quotients = each("div.full.f32 {d}, {a}, {b};", np.ones(2, "f4"), np.array([4, 2.0**127], "f4"), to="f4")
        assert quotients.tolist() == [0.25, 0]
        np.testing.assert_allclose(each("rsqrt.approx.f32 {d}, {a};", np.array([4], "f4"), to="f4"), [0.5])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("frobnicate.f32 {d}, {a};", "the instruction frobnicate is not known"),
        ("add.strange.f32 {d}, {a}, {a};", "what .strange says is not known"),
        ("add.f32 {d}, {a}, %nowhere;", "the operand '%nowhere' is not known"),
        ("bra NOWHERE;", "there is no label 'NOWHERE'"),
        ("call.uni vprintf;", "the instruction call is not known"),
        ("cvt.rn.e4m3x2.f32 {d}, {a}, {a};", "it has no type"),
        ("cvt.sat.s8.s32 {d}, {a};", "an integer becomes a float or a double"),
        ("cvt.rmi.f32.f32 {d}, {a};", "a float becomes no whole one"),
        ("setp.lt.and.f32 p1, {a}, {a}, p2;", "what .and says is not known"),
        ("mbarrier.test_wait.parity.shared.b64 p2, [0], 0;", "test_wait"),
        ("mbarrier.try_wait.shared.b64 p2, [0], rd9;", "a wait for a state"),
        ("mbarrier.arrive.shared.b64 rd5, [0], 2;", "several arrivals at once"),
        ("cp.async.bulk.global.shared::cta.bulk_group [rd1], [0], 16;", "is not emulated"),
        ("atom.global.add.f32 {d}, [rd1], 0f3F000000;", "an atomic operation on floats"),
    ],
)
def test_what_is_not_known_is_refused_by_name(text: str, said: str) -> None:
    with pytest.raises(ptx.PtxError, match=said):
        each(text, FLOATS, to="f4")


def test_constants_are_of_the_type_that_takes_them() -> None:
    a = np.zeros(1, "f4")

    def made(text: str, to: Any = "f4") -> Any:
        return each(text, a, to=to)[0]

    assert made("mov.f32 {d}, 0f3F800000;") == 1
    assert made("add.f32 {d}, {a}, 1.5;") == 1.5
    assert made("mov.b32 {d}, -8323200;", "i4") == -8323200
    assert made("mov.u32 {d}, 0x1FU;", "u4") == 31
    assert made("mov.u32 {d}, 010;", "u4") == 8
    assert made("mov.f64 {d}, 0dBFF0000000000000;", "f8") == -1
