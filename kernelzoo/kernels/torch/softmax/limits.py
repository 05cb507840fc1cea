"""Where torch.softmax misses the contract, or may."""

import torch


def rounds_inside(x: torch.Tensor) -> bool:
    """Whether torch.softmax would round its intermediates to x's dtype, which the contract forbids.

    Its CPU kernel does for a half-precision softmax over any axis but the last: 0.53 % off in bfloat16 on a
    (21, 2, 3, 5) tensor over axis 0 with torch 2.13, where half a unit in the last place is 0.39 %.
    """
    return x.device.type == "cpu" and x.size(2) > 1 and x.dtype in (torch.float16, torch.bfloat16)


def adds_in_order(x: torch.Tensor) -> bool:
    """Whether torch.softmax may miss the contract on a row of equal terms, whose rounding errors don't cancel.

    Its CPU kernel adds up a contiguous row in as many sums as a register has elements, and any other in one: with torch
    2.13, 64 and 129 units of roundoff off on 2048 and 512 equal float64 terms, where the contract allows 39 and 27. Its
    GPU kernel takes one thread, and so one sum, to a row of an axis with more than 64 rows side by side; and a power of
    two of threads, 1024 to the rows side by side, to any other. With torch 2.11 it left the contract on a row of
    16,777,259 float32 elements, and on 33 of 1,000,003 side by side, which take 16 threads each.
    """
    side_by_side = x.size(2)
    if x.device.type == "cpu":
        return x.size(1) > (512 if side_by_side == 1 else 32)
    if side_by_side > 64:
        return x.size(1) > 32
    threads = 1 << (1024 // max(1, side_by_side)).bit_length() - 1
    return x.size(1) > 2**13 * threads


def adds_too_much_in_order(x: torch.Tensor) -> bool:
    """Whether torch.softmax misses the contract on ordinary data, not only on equal terms.

    Seen over other axes than the last, on normal values: with torch 2.13 on the host from (5, 1025, 96) on, with torch
    2.11 on a GPU from (64, 1024, 96) on, 5 of its 6,291,456 elements. Half precisions have room for it. And on the host
    in long rows, in all but float64: of 131,072 float32 elements near zero, whose exponentials differ by less than the
    last place of the sum, and of 40,000 without AVX512, whose registers make twice as many sums; of 3,000,017 of any
    dtype of which one holds a third of the sum, so that what is added to it is cut off.
    """
    if x.device.type == "cpu" and x.size(2) == 1:
        float32 = 2**16 if torch.backends.cpu.get_cpu_capability() == "AVX512" else 2**15
        return x.size(1) > {torch.float32: float32, torch.float64: 2**63}.get(x.dtype, 2**21)
    least = 1 if x.device.type == "cpu" else 64
    return x.size(2) > least and x.size(1) > 1000 and x.dtype in (torch.float32, torch.float64)


def too_long(x: torch.Tensor) -> bool:
    """Whether torch.softmax can't address a row: of 2^31 elements its GPU kernel fails, or returns wrong values.

    Seen with torch 2.11: an internal assertion (SoftMax.cu, potential_reg_cnt > 0) at 2^31 + 4099 elements of float16
    and float32, and a wrong result without a word at 2^32 + 4099 of bfloat16.
    """
    return x.device.type == "cuda" and x.size(1) >= 2**31
