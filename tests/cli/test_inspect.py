"""``kernelzoo inspect``: a kernel's facts and code, without a GPU."""

from collections.abc import Callable
from typing import Any

import pytest


def test_a_kernel_of_the_host(kernelzoo: Callable[..., Any], answer: Callable[..., tuple[int, Any]]) -> None:
    pytest.importorskip("numba", reason="the cpu backend needs Numba")
    options = ("inspect", "cpu/min/auto", "--shape", "64x64")
    status, told = answer(*options)
    assert status == 0
    kernel = told["kernels"][0]
    assert kernel["implementation"].startswith("cpu/min/") and "def " in kernel["source"]
    done = kernelzoo(*options)
    assert done.returncode == 0
    assert kernel["name"] in done.stdout and kernel["source_file"] in done.stdout
    done = kernelzoo(*options, "--source", "--ptx")
    assert done.returncode == 0
    assert done.stdout.strip() == "\n".join(k["source"] for k in told["kernels"]).strip()  # as it is, for a pipe
    assert f"no ptx of {kernel['name']}" in done.stderr


def test_what_has_no_kernels_says_so(kernelzoo: Callable[..., Any]) -> None:
    done = kernelzoo("inspect", "torch/softmax/eager")
    assert done.returncode == 2 and done.stderr.startswith("error: ") and done.stderr.count("\n") == 1
