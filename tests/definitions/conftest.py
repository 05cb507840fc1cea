"""Files of other people's problems, and a process that forgets what a test has loaded of them."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from registered import forget, forget_operation

from kernelzoo import definitions
from kernelzoo.definitions import gpumode, kernelbench, loading
from kernelzoo.operations import Operation


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., Path]:
    """Write a text, or anything else as JSON."""

    def write(content: object, name: str = "definition.json") -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
        return path

    return write


@pytest.fixture
def load(written: Callable[..., Path]) -> Callable[..., Operation]:
    def loaded(code: str, inputs: dict[str, Any], outputs: dict[str, Any], **axes: Any) -> Operation:
        made = {
            "name": "made",
            "axes": axes or {"rows": {"type": "var"}},
            "inputs": {key: {"shape": shape, "dtype": dtype} for key, (shape, dtype) in inputs.items()},
            "outputs": {key: {"shape": shape, "dtype": dtype} for key, (shape, dtype) in outputs.items()},
            "reference": f"import torch\nimport torch.nn.functional as F\n\n{code}",
        }
        return definitions.load_definition(written(made))

    return loaded


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    yield
    forget("reference", "An_Author", "submission")
    gpumode._folders.clear()
    kernelbench._problems.clear()
    forget_operation(*loading.loaded)
    loading.loaded.clear()
