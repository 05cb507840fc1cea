"""Outputs of integers, booleans and float8: what rounding may change is right, and nothing else."""

import pytest
import torch

from kernelzoo.errors import ContractError

QUANTIZE = """
def run(x):
    scale = (x.abs().amax(-1) / 127).clamp(min=1e-12)
    return (x / scale[:, None]).round().to(torch.int8), scale
"""
ROWS = {"x": (["rows", "512"], "float32")}
CODES = {"q": (["rows", "512"], "int8"), "scale": (["rows"], "float32")}
LARGEST = "def run(x):\n    return x.topk(4)\n"
PLACES = {"values": (["rows", "4"], "bfloat16"), "idx": (["rows", "4"], "int64")}


def test_a_code_near_a_tie_may_be_rounded_either_way(load) -> None:
    op, x = load(QUANTIZE, ROWS, CODES), torch.randn(2048, 512, generator=torch.Generator().manual_seed(1))
    scale = x.abs().amax(-1) / 127
    other = (x * (127 / x.abs().amax(-1))[:, None]).round().to(torch.int8)
    assert not torch.equal(other, (x / scale[:, None]).round().to(torch.int8))
    args = op.arguments((x,))
    assert op.undecidable(args, op.expect(args)) == ""
    op.expect(args).check((other, scale))
    for wrong in ((x / scale[:, None]).to(torch.int8), other + (torch.rand(x.shape) < 1e-3), other * 0):
        with pytest.raises(ContractError, match="elements wrong"):
            op.expect(args).check((wrong.to(torch.int8), scale))


def test_equal_numbers_may_be_in_any_order(load) -> None:
    op = load(LARGEST, {"x": (["rows", "100"], "bfloat16")}, PLACES)
    x = torch.randn(64, 100, generator=torch.Generator().manual_seed(1)).bfloat16()
    args = op.arguments((x,))
    for descending in (False, True):  # of equal numbers the first, or the last
        order = (x.flip(1) if descending else x).sort(dim=-1, descending=True, stable=True).indices[:, :4]
        places = 99 - order if descending else order
        op.expect(args).check((x.gather(1, places), places))
    for wrong in (places.roll(1, 1), places * 0, (places + 1) % 100):
        with pytest.raises(ContractError, match="elements wrong"):
            op.expect(args).check((x.gather(1, places), wrong))


def test_booleans_are_compared(load) -> None:
    op = load("def run(x):\n    return x > x.mean(-1, keepdim=True)", ROWS, {"out": (["rows", "512"], "bool")})
    x = torch.randn(8, 512)
    args = op.arguments((x,))
    assert op.undecidable(args, op.expect(args)) == ""
    right = x.double() > x.double().mean(-1, keepdim=True)
    op.expect(args).check((right,))
    right[3, 5] ^= True
    with pytest.raises(ContractError, match="1 of 4096 elements wrong"):
        op.expect(args).check((right,))


def test_a_float8_may_be_a_step_off_near_a_tie_alone(load) -> None:
    op = load(
        "def run(x):\n    return (x * 3).to(torch.float8_e4m3fn)", ROWS, {"out": (["rows", "512"], "float8_e4m3fn")}
    )
    x = torch.rand(8, 512) + 1
    args, right = op.arguments((x,)), (x.double() * 3).to(torch.float8_e4m3fn)
    op.expect(args).check((right,))
    up = (right.view(torch.int8) + 1).view(torch.float8_e4m3fn)
    for wrong in (up, (x.double() * 2.9).to(torch.float8_e4m3fn)):
        with pytest.raises(ContractError, match="elements wrong"):
            op.expect(args).check((wrong,))


def test_what_is_far_from_an_undecidable_reference_is_wrong(load) -> None:
    """A few elements of which the reference itself is wrong excuse few, and no other output."""
    code = "def run(x):\n    return (x * x).sqrt(), x + 1"  # a square overflows in float32, and not in float64
    op = load(code, {"x": (["rows"], "float32")}, {"a": (["rows"], "float32"), "b": (["rows"], "float32")})
    x = torch.linspace(1, 2, 1000)
    x[7] = 1e25
    args = op.arguments((x,))
    expected = op.expect(args)
    assert "1 of 1000 elements wrong" in op.undecidable(args, expected)
    expected.check(((x * x).sqrt(), x + 1))
    for a, b in ((x * 0, x + 1), (x.abs(), torch.where(x == 1, 2.1, x + 1))):  # of b, one element is wrong
        with pytest.raises(ContractError, match="elements wrong"):
            expected.check((a, b))
