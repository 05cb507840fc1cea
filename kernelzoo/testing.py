"""The conformance suite: what every implementation must return, as pytest tests for this repo and for anyone's own.

A test file of a few lines runs all of it over every registered implementation, or over one's own::

    from kernelzoo.testing import Conformance

    class TestMine(Conformance):
        backends = ("mine",)

Each test goes the way a user's call goes, ``get(backend).op(x, variant=...)``, and checks the values against the
float64 reference, that the input is unchanged, that a poisoned ``out`` is written whole, and that a second run gives
the same bits. A variant that refuses a problem is skipped with its reason; one that refuses them all fails.
"""

import pytest

pytest.register_assert_rewrite("kernelzoo.check.plugin")

from kernelzoo.check.cases import Case, cases  # noqa: E402  (pytest must know of the plug-in before it is imported)
from kernelzoo.check.plugin import Conformance, pytest_addoption  # noqa: E402
from kernelzoo.check.running import check  # noqa: E402
from kernelzoo.check.strategies import tensors  # noqa: E402

__all__ = ["Case", "Conformance", "cases", "check", "pytest_addoption", "tensors"]
