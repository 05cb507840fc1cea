"""Launches with memory of their own: kept for one stream each, and never handed to a CUDA graph."""

import contextlib
import threading

import pytest
import torch

from kernelzoo import torch_private
from kernelzoo.device import keep_current_gpu
from kernelzoo.launch import PerStreamLaunches, RebindableLaunch, WorkspaceLaunch, chain_launches, chain_under_lock


class Streams:
    """In place of a device: which stream is current, and whether it is captured."""

    def __init__(self, monkeypatch) -> None:
        self.current, self.capturing = 7, False
        monkeypatch.setattr(torch_private, "current_stream", lambda device: self.current)
        monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: self.capturing)


def made(ran: list, name: str) -> WorkspaceLaunch:
    x, out, own = torch.ones(1), torch.ones(1), torch.ones(1)
    return WorkspaceLaunch(lambda *addresses: ran.append((name, addresses)), x, out, workspace=(own,))


def test_each_stream_has_its_own(monkeypatch) -> None:
    streams, ran = Streams(monkeypatch), []
    kept = PerStreamLaunches(0)
    assert kept(1, 2) is True and ran == []
    kept.keep(made(ran, "first"))
    assert kept(1, 2) is None
    streams.current = 8
    assert kept(3, 4) is True
    kept.keep(made(ran, "second"))
    assert kept(3, 4) is None
    streams.current = 7
    assert kept(5, 6) is None
    assert ran == [("first", (1, 2)), ("second", (3, 4)), ("first", (5, 6))]


def test_a_capture_neither_uses_nor_leaves_one(monkeypatch) -> None:
    streams, ran = Streams(monkeypatch), []
    kept = PerStreamLaunches(0)
    streams.capturing = True
    kept.keep(made(ran, "the graph's"))
    streams.capturing = False
    assert kept(1, 2) is True
    kept.keep(made(ran, "ours"))
    streams.capturing = True
    assert kept(1, 2) is True and ran == []


def test_what_is_kept_keeps_its_workspace(monkeypatch) -> None:
    """The launch itself is dropped after the call, and a kernel has nothing but addresses."""
    Streams(monkeypatch)
    kept, bound = PerStreamLaunches(0), made([], "")
    (own,) = bound.workspace
    kept.keep(bound)
    del bound
    assert any(own is tensor for workspace in kept._workspaces.values() for tensor in workspace)


def test_kernels_that_share_a_workspace_are_one_launch() -> None:
    ran: list = []
    x, out, own = torch.ones(1), torch.ones(1), torch.ones(1)
    steps = [WorkspaceLaunch(lambda *a, i=i: ran.append((i, a)), x, out, workspace=(own,)) for i in (1, 2)]
    both = chain_launches(*steps)
    assert isinstance(both, WorkspaceLaunch) and both.workspace == (own,)
    both.at(3, 4)
    assert ran == [(1, (3, 4)), (2, (3, 4))]
    other = WorkspaceLaunch(lambda *a: None, x, torch.ones(1), workspace=(own,))
    assert not isinstance(chain_launches(steps[0], other), RebindableLaunch)


def test_no_other_thread_comes_between_them() -> None:
    order, gate = [], threading.Event()

    def first(who: int) -> None:
        order.append(("first", who))
        gate.wait(0.05)

    at = chain_under_lock(first, lambda who: order.append(("second", who)))
    threads = [threading.Thread(target=at, args=(who,)) for who in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(order[i][1] == order[i + 1][1] for i in (0, 2, 4))


def test_on_the_host_a_launch_runs_as_it_is() -> None:
    ran: list = []
    bound = made(ran, "host")
    bound()
    ((_, addresses),) = ran
    assert addresses == tuple(tensor.data_ptr() for tensor in bound.tensors)


def test_a_library_leaves_the_current_device_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0]
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: now[0])
    monkeypatch.setattr(torch.cuda, "set_device", lambda index: now.__setitem__(0, index))
    with contextlib.suppress(ValueError), keep_current_gpu():
        torch.cuda.set_device(1)
        raise ValueError
    assert now == [0]
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)  # who has no GPU yet gets none by this
    monkeypatch.setattr(torch.cuda, "current_device", lambda: pytest.fail("it was asked"))
    with keep_current_gpu():
        pass
