"""CuPy's compiler and its cache when they fail: the row's own loss, in its words, or none."""

from pathlib import Path

import pytest
from cupy.cuda._compiler_cache import DiskKernelCacheBackend

from kernelzoo.kernels.cupy import compiler
from kernelzoo.measure import Problem
from kernelzoo.measure.guard import Guard

MODULE = """
import cupy, torch, kernelzoo
from cupy.cuda import nvrtc

def compile(source):
    program = nvrtc.createProgram(source, "mine.cu", [], [])
    try:
        nvrtc.compileProgram(program, ["-arch=sm_90"])
    except nvrtc.NVRTCError:
        raise RuntimeError(nvrtc.getProgramLog(program)) from None

@kernelzoo.register("mine", "min", "typo")
def typo(x, out):
    compile('extern "C" __global__ void kernel(float* x) { x[0] = undeclared; }')

@kernelzoo.register("mine", "min", "fine")
def fine(x, out):
    compile('extern "C" __global__ void kernel(float* x) { x[0] = 0; }')
    def launch():
        out.copy_(torch.amin(x, 1))
    return launch
"""


def test_what_does_not_compile_costs_its_own_row(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(MODULE)
    with Guard("cpu", [str(path)]) as guard:
        done, (failed,) = guard.race(
            Problem("min", (4, 64), "float32"), ["mine/min/typo", "mine/min/fine"], rounds=1, cache="hot"
        )
    assert [entry["extra_info"]["id"] for entry in done] == ["mine/min/fine"]
    assert failed["id"] == "mine/min/typo" and 'identifier "undeclared" is undefined' in failed["reason"]


def test_its_cache_is_whole_by_a_digest_of_its_own(tmp_path: Path) -> None:
    cache = DiskKernelCacheBackend(str(tmp_path))
    cache.save("kernel.cubin", b"code", "source")
    assert cache.load("kernel.cubin") == b"code"
    (path,) = tmp_path.iterdir()
    whole = path.read_bytes()
    for damaged in (whole[:10], whole[:-1], whole[:-1] + b"x", b""):
        path.write_bytes(damaged)
        assert cache.load("kernel.cubin") is None


def test_a_kernel_s_name_is_of_known_words_alone() -> None:
    """The name of a template goes to the compiler as it is."""
    for name in ("rows<float, 4, 8>", "split<bfloat16, 8, 8>", "columns<signed char, 1, 2, true>", "kernel"):
        assert compiler.check_kernel_name(name) == name
    evil = ("rows<float> evil", 'rows<"">', "x; y", "rows<a\n#include>", "rows<system()>", "", "rows<float, evil>")
    for name in evil:
        with pytest.raises(ValueError, match="is no kernel's name"):
            compiler.check_kernel_name(name)
