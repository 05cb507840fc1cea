"""bench/peers: every module is loaded by peers.py, and each row says where its call is documented."""

import functools
import importlib.metadata
import itertools
import re
import shutil
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import torch
from registered import forget

from kernelzoo import measure, operations, packages, registry
from kernelzoo.errors import UnsupportedProblemError

FOLDER = Path(__file__).parents[1] / "bench" / "peers"
MODULES = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem not in ("__init__", "peers"))


@pytest.fixture(scope="module")
def peers():
    """What peers.py registers, by id; forgotten again."""
    known = set(registry._registered)
    packages.load_module(FOLDER / "peers.py")
    made = {"/".join(key): bind for key, bind in registry._registered.items() if key not in known}
    yield made
    forget(*{id.split("/")[0] for id in made})
    for name in [name for name in sys.modules if name.startswith("kernelzoo_peers")]:
        del sys.modules[name]


def module(name: str) -> ModuleType:
    return sys.modules[f"kernelzoo_peers.{name}"]


def test_every_module_registers_and_names_its_source(peers) -> None:
    assert {bind.__module__.rpartition(".")[2] for bind in peers.values()} - {"kernelzoo_peers"} == set(MODULES)
    for name in MODULES:
        assert re.search(r"Source: .+https://", module(name).__doc__ or "", re.DOTALL), name


def test_what_is_absent_or_not_on_a_gpu_is_refused(peers) -> None:
    for id, bind in peers.items():
        operation = operations.OPERATIONS[id.split("/")[1]]
        tensors = [torch.ones([{"outer": 4, "n": 8, "inner": 1}[axis] for axis in axes]) for axes in operation.axes]
        with pytest.raises(UnsupportedProblemError):
            bind(*tensors, **{name: scalar.default for name, scalar in operation.scalars.items()})


def test_what_torch_compiles_is_right(peers) -> None:
    for function, dtype in itertools.product(module("inductor").FUNCTIONS, ("bfloat16", "float32")):
        problem = measure.Problem(function.__name__, (16, 300), dtype)
        inputs = problem.inputs(torch.Generator().manual_seed(0))
        _, outs = measure.Sets(problem, 1, torch.device("cpu"))[0]
        given = *inputs, *(scalar.default for scalar in problem.operation.scalars.values())
        sys.modules["kernelzoo_peers"].returned(functools.partial(function, *given), *outs)()
        problem.operation.expect(problem.arguments(inputs)).check(outs)


def test_a_published_function_takes_inputs_and_scalars_of_rows_that_fit(peers, monkeypatch) -> None:
    package, function = sys.modules["kernelzoo_peers"], lambda x, weight, eps, *how: (x * weight + eps, None)
    monkeypatch.setattr(package, "rows", lambda id, x, weight, out: (x[..., 0], weight, out[..., 0]))
    monkeypatch.setattr(package, "require", lambda *named: SimpleNamespace(rms_norm_forward=function))
    x, out = torch.ones(2, 70000, 1), torch.empty(2, 70000, 1)
    peers["liger/rms_norm/library"](x[:, :8], torch.full((8,), 2.0), out[:, :8], eps=1.0)()
    assert (out[:, :8] == 3).all()
    with pytest.raises(UnsupportedProblemError, match="up to 65536"):
        peers["liger/rms_norm/library"](x, x[0, :, 0], out, eps=1.0)


def test_cub_is_built_with_the_newest_headers_and_refuses_old_ones(peers, monkeypatch, tmp_path: Path) -> None:
    cub = module("cub")
    for place, number in (("nvidia/cu13/include/cccl", 300001), ("cuda/cccl/headers/include", 300200)):
        (tmp_path / place / "cub").mkdir(parents=True)
        (tmp_path / place / "cub" / "version.cuh").write_text(f"#define CUB_VERSION {number} // ...", encoding="utf-8")

    class Distribution:
        def locate_file(self, folder: str) -> Path:
            return tmp_path / folder

    monkeypatch.delenv("CCCL_INCLUDE", raising=False)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(importlib.metadata, "distribution", lambda name: Distribution())
    assert f"-I{tmp_path / 'cuda/cccl/headers/include'}" in cub.command("sm_90", tmp_path / "cub.so")
    monkeypatch.setenv("CCCL_INCLUDE", "/named")
    assert "-I/named" in cub.command("sm_90", tmp_path / "cub.so")

    monkeypatch.setattr(cub, "version", lambda folder: 300001)
    monkeypatch.setattr(cub, "rows", lambda id, x, out: (x.squeeze(2), out.squeeze(-1)))
    for call in (cub.cub_min, cub.cub_sum):
        with pytest.raises(
            UnsupportedProblemError, match=r"300001 has no segments of one size: pip install nvidia-cuda"
        ):
            call(torch.ones(2, 8, 1), torch.empty(2, 1))
