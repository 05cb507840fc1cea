"""bench/peers: every module is loaded by peers.py, and each row says where its call is documented."""

import functools
import importlib.metadata
import itertools
import re
import shutil
import sys
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import MagicMock

import pytest
import torch
from registered import forget
from torch.nn import functional

import kernelzoo
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
        inputs[0][3] = 0
        _, outs = measure.TensorSets(problem, 1, torch.device("cpu"))[0]
        given = *inputs, *(scalar.default for scalar in problem.operation.scalars.values())
        sys.modules["kernelzoo_peers"].returned(functools.partial(function, *given), *outs)()
        problem.operation.expect(problem.arguments(inputs)).check(outs)


class Project:
    """A project that is not installed: whatever is asked of it is one function, or one object."""

    def __init__(self, function: Any) -> None:
        self.function = function

    def __getattr__(self, name: str) -> Any:
        return self.function


def documented(right: ModuleType) -> dict[str, Any]:
    """Functions that take what the projects' do, by position and name as there, and compute as torch does."""

    def fused(x, weight, out, bias=None, rstd=None, mean=None, residual=None, residual_out=None, eps=1e-6, **kind):
        total = x if residual is None else residual_out.copy_(x + residual)
        layer = kind.get("is_layernorm", False)
        out.copy_(right.layer_norm(total, weight, bias, eps) if layer else right.rms_norm(total, weight, eps))

    def entropy(x, labels, weight=None, reduction="mean", ignore_index=-100):
        return functional.cross_entropy(x, labels, weight, ignore_index=ignore_index, reduction=reduction)

    def by_groups(x, size):
        return right.quantize_rows(x.view(-1, size))

    def loss(x, labels, weight, ignore_index, z, smoothing, reduction, cap, *rest):
        assert (weight, z, smoothing, cap) == (None, 0.0, 0.0, None) and not any(rest)
        return entropy(x, labels, weight, reduction, ignore_index)

    def liger_rms_norm(x, weight, eps, offset, casting, mode=None):
        assert (offset, casting, mode) == (0.0, 1, None)
        return right.rms_norm(x, weight, eps), x

    def liger_add_rms_norm(x, residual, weight, eps, offset, casting):
        return *right.add_rms_norm(x, residual, weight, eps), liger_rms_norm(x, weight, eps, offset, casting)

    liger_layer_norm = lambda x, weight, bias, eps: (right.layer_norm(x, weight, bias, eps), x)  # noqa: E731
    return {
        **{f"quack/{op}/library": fused for op in ("rms_norm", "add_rms_norm", "layer_norm")},
        "quack/cross_entropy/library": lambda x, target, *, ignore_index: right.cross_entropy(x, target, ignore_index),
        **{f"liger/rms_norm/{name}": liger_rms_norm for name in ("library", "cutile", "cute")},
        **{f"liger/add_rms_norm/{name}": liger_add_rms_norm for name in ("library", "cutile")},
        **{f"liger/layer_norm/{name}": liger_layer_norm for name in ("library", "cutile", "cute")},
        **{f"liger/cross_entropy/{name}": loss for name in ("library", "cute")},
        "flaggems/rms_norm/library": lambda x, shape, weight, eps: functional.rms_norm(x, shape, weight, eps),
        "flaggems/layer_norm/library": functional.layer_norm,
        "flaggems/cross_entropy/library": entropy,
        "flaggems/quantize_rows/library": by_groups,
        "flaggems/sum/library": lambda x, dim, keepdim=False, *, out: torch.sum(x, dim, keepdim, out=out),
        "flaggems/cumsum/library": lambda x, dim, *, out: torch.cumsum(x, dim, out=out),
        "flaggems/argmin/library": lambda x, dim: torch.argmin(x, dim),
        "tilegym/rms_norm/library": lambda x, shape, weight, eps: right.rms_norm(x, weight, eps),
        "tilegym/layer_norm/library": lambda x, start, end, *rest: functional.layer_norm(x, x.shape[start:end], *rest),
        "tilegym/layer_norm/tuned": lambda x, shape, *rest: functional.layer_norm(x, x.shape[1:], *rest),
        "tilegym/cross_entropy/library": Project(lambda x, labels: right.cross_entropy(x, labels, -100)),
        "tilegym/quantize_rows/library": by_groups,
    }


NEW = tuple(op for op in operations.CALLED[2:] if not op.endswith("_backward"))
"""All operations but softmax and min, which other projects have."""


def test_torch_compile_and_xla_are_peers_of_all_that_they_have(peers, monkeypatch) -> None:
    for op in NEW:
        default = f"inductor/{op}/default" in peers or "compile" in kernelzoo.get("torch").variants(op)
        assert f"inductor/{op}/max_autotune" in peers and default
    monkeypatch.setattr(module("xla"), "require", MagicMock())
    assert set(module("xla").functions()) == set(module("xla").IN_TORCH) <= set(peers)


@pytest.fixture
def rows_on_the_host(peers, monkeypatch) -> None:
    def rows(id: str, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(tensor.squeeze(-1) if tensor.dim() > 1 else tensor for tensor in tensors)

    for one in (sys.modules["kernelzoo_peers"], *map(module, MODULES)):
        if hasattr(one, "rows"):
            monkeypatch.setattr(one, "rows", rows)


@pytest.mark.usefixtures("rows_on_the_host")
def test_projects_are_called_as_they_document_it(peers, monkeypatch) -> None:
    functions = documented(module("inductor"))
    called = [
        id for id in peers if id.split("/")[1] in NEW and id.split("/")[0] in ("quack", "liger", "flaggems", "tilegym")
    ]
    assert set(called) == set(functions)
    for id in called:
        for one in (sys.modules["kernelzoo_peers"], module("quack"), module("flaggems")):
            monkeypatch.setattr(one, "require", lambda *named, function=functions[id]: Project(function))
        problem = measure.Problem(id.split("/")[1], (8, 64), "float32")
        args = problem.arguments(problem.inputs(torch.Generator().manual_seed(0)))
        outs = problem.operation.allocate(args)
        problem.operation.make_launch(peers[id], args, outs)()
        problem.operation.expect(args).check(outs)


@pytest.mark.usefixtures("rows_on_the_host")
@pytest.mark.parametrize(
    ("id", "shape", "dtype", "said"),
    [
        ("liger/rms_norm/library", (2, 70000), torch.float32, "up to 65536"),
        ("liger/rms_norm/cute", (2, 40000), torch.float32, "up to 32768"),
        ("liger/rms_norm/cute", (2, 33), torch.float32, "whole vectors"),
        ("liger/rms_norm/library", (2, 64), torch.float64, "no float64"),
        ("quack/softmax/library", (2, 33), torch.float32, "whole vectors"),
        ("flaggems/argmin/library", (8, 5000), torch.float32, "no mask"),
        ("flaggems/argmin/library", (9, 4096), torch.float32, "no mask"),
        ("cudacompute/cumsum/library", (2, 64), torch.float32, "a single row"),
        ("cudacompute/min/library", (2, 64), torch.bfloat16, "float32 is measured"),
        ("cub/sum/library", (2, 64), torch.float16, "float32 and bfloat16"),
    ],
)
def test_what_a_project_does_not_take_is_refused(peers, monkeypatch, id, shape, dtype, said) -> None:
    for one in (sys.modules["kernelzoo_peers"], module("quack"), module("flaggems"), module("cccl_python")):
        monkeypatch.setattr(one, "require", lambda *named: pytest.fail(f"it takes that, and needs {named[1]}"))
    operation, x = operations.OPERATIONS[id.split("/")[1]], torch.ones(*shape, 1, dtype=dtype)
    weights = [torch.ones(shape[1], dtype=dtype) for _ in range(1, len(operation.inputs))]
    outs = [
        torch.empty(*shape, 1) if "n" in axes else torch.empty(shape[0], 1)
        for axes in operation.axes[len(weights) + 1 :]
    ]
    with pytest.raises(UnsupportedProblemError, match=said):
        peers[id](x, *weights, *outs, **{name: scalar.default for name, scalar in operation.scalars.items()})


@pytest.mark.usefixtures("rows_on_the_host")
def test_tilegym_ignores_one_label_alone(peers, monkeypatch) -> None:
    monkeypatch.setattr(sys.modules["kernelzoo_peers"], "require", lambda *named: Project(Project(None)))
    x, labels, loss = torch.ones(2, 8, 1), torch.zeros(2, 1, dtype=torch.int64), torch.empty(2, 1)
    with pytest.raises(UnsupportedProblemError, match="-100 alone"):
        peers["tilegym/cross_entropy/library"](x, labels, loss, ignore_index=3)()


def test_a_minimum_of_pairs_keeps_nan(peers) -> None:
    keeps_nan, nan = module("cccl_python").keeps_nan, float("nan")
    assert keeps_nan(1, 2) == keeps_nan(2, 1) == 1
    assert all(found != found for found in (keeps_nan(nan, 1), keeps_nan(1, nan)))


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

    monkeypatch.setattr(cub, "rows", lambda id, x, out: (x.squeeze(2), out.squeeze(-1)))
    for found, call in itertools.product((300001, 300200), (cub.cub_min, cub.cub_sum, cub.cub_argmin, cub.cub_cumsum)):
        if (found, call) != (300200, cub.cub_min):  # which has no scan in its file
            monkeypatch.setattr(cub, "version", lambda folder, found=found: found)
            with pytest.raises(UnsupportedProblemError, match=f"{found} has no segments of one size: pip install nvid"):
                call(torch.ones(2, 8, 1), torch.empty(2, 8, 1) if call is cub.cub_cumsum else torch.empty(2, 1))
    with pytest.raises(UnsupportedProblemError, match="the size of a segment is an int"):
        cub.cub_sum(torch.empty(2, 2**31, 1, device="meta"), torch.empty(2, 1, device="meta"))
