"""The conformance suite: tests for every implementation, in this repository and in yours.

A short test file runs the whole suite over your own backend (without ``backends``, over all)::

    from kernelzoo.testing import Conformance

    class TestMine(Conformance):
        backends = ("mine",)

Each test calls an implementation as a user does, ``get(backend).op(x, variant=...)``. It checks the values against the
float64 reference, and that the input is unchanged. Every element of ``out`` must be written, and a second run must give
the same bits. A case that a variant refuses is skipped with its reason; a variant that refuses them all fails.

The same in a function, for one case::

    from kernelzoo import implementation
    from kernelzoo.testing import cases, check

    check(implementation("torch/softmax/eager"), cases("softmax")[-1], "cpu")

This module is also a pytest plugin, which every project in the environment loads. So it imports nothing before one of
its names is used, and only adds an option.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from kernelzoo.check.case import Case
    from kernelzoo.check.cases import cases
    from kernelzoo.check.fuzz.drawing import tensors
    from kernelzoo.check.plugin import Conformance
    from kernelzoo.check.running import check

pytest.register_assert_rewrite("kernelzoo.check.plugin")

_HOMES = {"Case": "cases", "cases": "cases", "Conformance": "plugin", "check": "running", "tensors": "fuzz.drawing"}

__all__ = ["Case", "Conformance", "cases", "check", "pytest_addoption", "tensors"]


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("kernelzoo", "what the conformance suite insists on")
    # Every project in the environment loads this plugin, so its options have the package's name.
    group.addoption(
        "--kernelzoo-require",
        default="",
        metavar="BACKENDS",
        help="comma-separated backends whose absence is a failure, not a skip",
    )


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"kernelzoo.check.{_HOMES[name]}"), name)
