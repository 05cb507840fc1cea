"""Labels of a cross entropy: those out of range, and those that are ignored."""

from __future__ import annotations

import pickle

import pytest
import torch
from running_here import backends

import kernelzoo
from kernelzoo.errors import RangeError

DEVICES = {name: device for name, device in backends().items() if kernelzoo.get(name).variants("cross_entropy")}


@pytest.mark.parametrize("backend", DEVICES)
@pytest.mark.parametrize("label", [-1, 5, 2**40])
def test_a_label_out_of_range(backend: str, label: int) -> None:
    """An error on the host, each time; NaN on a GPU, where a check would have to wait for the device."""
    device = DEVICES[backend]
    x, labels = torch.randn(2, 3, 5, device=device), torch.zeros(2, 3, dtype=torch.int64, device=device)
    right = kernelzoo.get(backend).cross_entropy(x, labels)
    labels[1, 2] = label
    for _ in range(2):
        if device == "cpu":
            with pytest.raises(RangeError, match=rf"takes labels from 0 to 4 or -100; got {label}$") as raised:
                kernelzoo.get(backend).cross_entropy(x, labels)
            assert isinstance(raised.value, IndexError) and pickle.loads(pickle.dumps(raised.value)).args
        else:
            loss = kernelzoo.get(backend).cross_entropy(x, labels)
            assert loss[1, 2].isnan() and torch.equal(loss.flatten()[:5], right.flatten()[:5])
    kernelzoo.get(backend).cross_entropy(x, labels, ignore_index=label)
