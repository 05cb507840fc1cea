"""Problems for which torch.softmax misses the contract, or may miss it."""

import torch


def rounds_intermediates(x: torch.Tensor) -> bool:
    """Whether torch.softmax would round its intermediates to x's dtype, which the contract forbids.

    Its CPU kernel does so for half precision over any axis but the last. With torch 2.13, bfloat16 of shape
    (21, 2, 3, 5) was 0.53 % off over axis 0, where half a unit in the last place is 0.39 %.
    """
    return x.device.type == "cpu" and x.size(2) > 1 and x.dtype in (torch.float16, torch.bfloat16)


def is_inexact_on_equal_terms(x: torch.Tensor) -> bool:
    """Whether torch.softmax may miss the contract on a row of equal terms, whose rounding errors don't cancel.

    Its CPU kernel adds a contiguous row in one sum per element of a vector register, and any other row in one sum. With
    torch 2.13 its error on 2048 and 512 equal float64 terms was 64 and 129 units of roundoff. The contract allows 39
    and 27. If more than 64 rows lie side by side, its GPU kernel adds each row in one thread, in one sum. Otherwise the
    rows share 1024 threads, a power of two each. With torch 2.11 it missed the contract on a single row of 16,777,259
    float32 elements. It also did on 33 rows side by side of 1,000,003 elements, which have 16 threads each."""
    side_by_side = x.size(2)
    if x.device.type == "cpu":
        return x.size(1) > (512 if side_by_side == 1 else 32)
    if side_by_side > 64:
        return x.size(1) > 32
    threads = 1 << (1024 // max(1, side_by_side)).bit_length() - 1
    return x.size(1) > 2**13 * threads


def is_inexact_on_ordinary_data(x: torch.Tensor) -> bool:
    """Whether torch.softmax misses the contract on ordinary data, not only on equal terms.

    Along other axes than the last, it missed on normal values. It did from shape (5, 1025, 96) on with torch 2.13 on
    the host, and from (64, 1024, 96) on with torch 2.11 on a GPU. float16 and bfloat16 allow errors of this size. Along
    the last axis, it missed in long rows on the host, except in float64. In 131,072 float32 elements near zero, the
    exponentials differ by less than the sum's last place. Without AVX512, 40,000 are enough. In 3,000,017 elements of
    any other dtype, one element had a third of the sum, so that later terms lost their low bits."""
    if x.device.type == "cpu" and x.size(2) == 1:
        float32 = 2**16 if torch.backends.cpu.get_cpu_capability() == "AVX512" else 2**15
        return x.size(1) > {torch.float32: float32, torch.float64: 2**63}.get(x.dtype, 2**21)
    least = 1 if x.device.type == "cpu" else 64
    return x.size(2) > least and x.size(1) > 1000 and x.dtype in (torch.float32, torch.float64)


def overflows_index(x: torch.Tensor) -> bool:
    """Whether a row has 2^31 elements or more, for which torch.softmax's GPU kernel fails or gives wrong results.

    Seen with torch 2.11: an internal assertion (SoftMax.cu, potential_reg_cnt > 0) at 2^31 + 4099 elements of float16
    and float32, and a wrong result without any error at 2^32 + 4099 of bfloat16.
    """
    return x.device.type == "cuda" and x.size(1) >= 2**31
