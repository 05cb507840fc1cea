"""The minimum that torch.compile makes."""

import pytest
import torch

import kernelzoo
from kernelzoo.kernels.torch.min.compile import _invents

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8], ids=str)
def test_8_bits_on_the_host_are_right_or_refused(dtype: torch.dtype) -> None:
    """Torch 2.13 gives 0 or 1; see docs/records/inductor-8-bit.md."""
    x = torch.full((5, 77), 100, dtype=dtype)
    call = kernelzoo.get("torch").min
    try:
        found = call(x, variant="compile").tolist()
    except kernelzoo.BackendUnavailableError as error:
        pytest.skip(str(error))
    except kernelzoo.UnsupportedProblemError as error:
        found = [100] * 5 if _invents(dtype) and "docs/records/inductor-8-bit.md" in str(error) else []
    assert found == [100] * 5
