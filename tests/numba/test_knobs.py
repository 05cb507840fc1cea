"""Numba's launch tables: no value of a knob makes a plan that a device can't launch."""

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import scripts

pytest.importorskip("torch")
cuda = pytest.importorskip("numba.cuda", reason="numba-cuda is not installed")

if cuda.config.ENABLE_CUDASIM:
    pytest.skip("a simulator has no device to describe; unset NUMBA_ENABLE_CUDASIM", allow_module_level=True)


def _helper() -> ModuleType:
    return scripts.loaded(Path(__file__).parents[1] / "knobs.py")


knobs = _helper()


def static_shared(step: Any) -> int:
    """Softmax's clusters have room for the pairs of 32 warps of 16 blocks, in float64 at the most."""
    return (16 * 32 * 2 if step.kernel.startswith("cluster_kernel") else 256) * 8


@pytest.mark.parametrize("op", ["softmax", "min"])
@pytest.mark.parametrize("arch", knobs.ARCHES)
def test_every_value_of_every_knob_keeps_within_the_device(arch: str, op: str) -> None:
    dtypes = ("float32", "bfloat16") if arch in ("sm_90", "sm_120") else ("float32",)
    assert knobs.check_all("numba", arch, op, dtypes, static_shared) > 500


@pytest.mark.parametrize(
    ("shape", "dtype", "lanes", "threads", "form"),
    [
        ((8192, 8192), "bfloat16", 8, 512, "columns"),  # a strip for each SM
        ((8192, 8192), "float32", 8, 256, "columns"),  # two
        ((4096, 4096), "bfloat16", 8, 512, "columns"),
        ((2048, 2048), "bfloat16", 4, 512, "columns"),
        ((65536, 256), "float32", 4, 512, "split_arrival"),
        ((100, 65537), "bfloat16", 32, 256, "columns"),
    ],
    ids=str,
)
def test_minima_of_columns_fill_the_device(
    shape: tuple[int, int], dtype: str, lanes: int, threads: int, form: str
) -> None:
    import torch

    from kernelzoo.device import ARCHITECTURES
    from kernelzoo.kernels.numba.min import choose, columns
    from kernelzoo.kernels.numba.tiling import view

    x = torch.empty((1, *shape), dtype=getattr(torch, dtype), device="meta")
    v = view(x, torch.empty_like(x[:, 0]))
    device = ARCHITECTURES["sm_90"]
    cut = columns.cut(v, device.multiprocessors)
    assert cut is not None and (cut[1].lanes, cut[1].threads) == (lanes, threads)
    assert choose.best(v, device, choose.Knobs()) == form


def test_a_few_kernels_are_right_at_other_values() -> None:
    """Some are simulated here; ``python tests/knob_values.py numba`` takes all."""
    script = Path(__file__).parents[1] / "knob_values.py"
    command = [sys.executable, str(script), "numba", "--few"]
    done = subprocess.run(
        command,
        env={**os.environ, "NUMBA_ENABLE_CUDASIM": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
