"""What is kept of symmetric memory, for which group and stream, by doubles: the memory itself needs two GPUs."""

import contextlib
import os
import weakref
from collections.abc import Iterator
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.distributed import _symmetric_memory

from kernelzoo.distributed import symmetric
from kernelzoo.distributed.symmetric import Workspace
from kernelzoo.errors import PeerError


class Group:
    """A group by name."""

    group_name = "0"

    def rank(self) -> int:
        return 0

    def size(self) -> int:
        return 1

    def _get_backend(self, device: object) -> Any:
        return SimpleNamespace(options=SimpleNamespace(_timeout=timedelta(seconds=3)))


class Made(symmetric.Workspace):
    """A workspace without memory."""

    def __init__(self, group: Any, rows: int = 4, device: Any = None) -> None:
        self.group, self.rows = weakref.ref(group), rows
        self.words = self.peers = self.state = self.late = None  # type: ignore[assignment]
        self.rank, self.ranks, self.limit, self._bound = 0, 2, 1, {}


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(symmetric, "Workspace", Made)
    monkeypatch.setattr(symmetric, "_workspaces", {})
    monkeypatch.setattr(symmetric, "_last", {})


def test_words_lie_anywhere_in_an_allocation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Torch tells where each rank's allocation begins; a pool may put the words behind that."""
    memory = torch.empty(64, dtype=torch.int64)
    words = memory[6:14].view(2, 4, 1)
    handle = SimpleNamespace(buffer_ptrs=[memory.data_ptr()])
    monkeypatch.setattr(_symmetric_memory, "empty", lambda *shape, **how: words)
    monkeypatch.setattr(_symmetric_memory, "rendezvous", lambda tensor, group: handle)
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor: tensor)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: None)
    made = Workspace(Group(), 4, torch.device("cpu"))  # type: ignore[arg-type]
    assert made.peers.tolist() == [words.data_ptr()]
    assert (words == -1).all() and made.limit == 3_000_000_000 and made.state.tolist() == [0, 0]


def test_no_memory_to_share_has_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(tensor: torch.Tensor, group: object) -> None:
        raise RuntimeError("no link\nbetween them")

    monkeypatch.setattr(_symmetric_memory, "empty", lambda *shape, **how: torch.empty(8))
    monkeypatch.setattr(_symmetric_memory, "rendezvous", fails)
    with pytest.raises(PeerError, match="rank 0 of 1 shares no memory with the others: no link between them"):
        Workspace(Group(), 4, torch.device("cpu"))  # type: ignore[arg-type]


def test_a_group_that_takes_an_old_name_shares_its_own_memory() -> None:
    x, first, second = torch.empty(4), Group(), Group()
    made = symmetric._group_workspace(first, 4, x)  # type: ignore[arg-type]
    assert symmetric._group_workspace(first, 4, x) is made  # type: ignore[arg-type]
    assert symmetric._group_workspace(first, 5, x) is not made  # type: ignore[arg-type]
    other = symmetric._group_workspace(second, 4, x)  # type: ignore[arg-type]
    assert other is not made and other.group() is second  # type: ignore[comparison-overlap]


def test_ranks_first_meet_outside_of_a_capture(monkeypatch: pytest.MonkeyPatch) -> None:
    x, group = torch.empty(4), Group()
    made = symmetric._group_workspace(group, 4, x)  # type: ignore[arg-type]
    monkeypatch.setattr(symmetric, "is_capturing", lambda x: True)
    assert symmetric._group_workspace(group, 4, x) is made  # type: ignore[arg-type]
    with pytest.raises(PeerError, match="before a graph's capture"):
        symmetric._group_workspace(group, 5, x)  # type: ignore[arg-type]


def test_what_is_bound_in_a_capture_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its workspace is filled when the graph runs, and not before: a call outside would find anything in it."""
    binds, runs = [], []

    def form(x: torch.Tensor, out: torch.Tensor, *rest: Any) -> Any:
        binds.append(x.data_ptr())
        return SimpleNamespace(at=lambda *addresses: runs.append(addresses), workspace=())

    made, x = Made(Group()), torch.empty(4, 8)
    with monkeypatch.context() as inside:
        inside.setattr(symmetric, "is_capturing", lambda x: True)
        made.launch(form, x, x, 4)
    for _ in range(2):
        made.launch(form, x, x, 4)
    assert len(binds) == 2 and runs == [(x.data_ptr(), x.data_ptr())] * 3
    with monkeypatch.context() as inside:  # a graph may hold what is kept as long as the words are
        inside.setattr(symmetric, "is_capturing", lambda x: True)
        made.launch(form, x, x, 4)
    assert len(binds) == 2


class Stream:
    """A stream that notes what it waits for."""

    def __init__(self) -> None:
        self.waited: list[object] = []
        self.captures = False

    def record_event(self) -> object:
        return self

    def wait_event(self, event: object) -> None:
        self.waited.append(event)


def test_launches_follow_one_another_over_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two that run at once could wait for each other, each on another rank."""
    current, device = [Stream()], torch.device("cpu")

    @contextlib.contextmanager
    def on(stream: Stream) -> Iterator[None]:
        current.append(stream)
        yield
        current.pop()

    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: current[-1])
    monkeypatch.setattr("kernelzoo.torch_private.current_stream", lambda index: id(current[-1]))
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: current[-1].captures)
    monkeypatch.setattr(torch.cuda, "stream", on)
    one, two, three = current[0], Stream(), Stream()
    for stream in (one, one, two, one):
        with on(stream):
            symmetric._wait_for_last_launch(device)
    assert two.waited == [one] and one.waited == [two]
    three.captures = True
    with on(three):  # a capture can wait for nothing outside of it
        symmetric._wait_for_last_launch(device)
    one.captures = True
    with on(two):  # nor may anything outside wait for it
        symmetric._wait_for_last_launch(device)
    assert three.waited == [] and two.waited == [one]


@pytest.mark.parametrize("own", [None, "0"])
def test_torch_is_kept_from_multicast_for_that_long(own: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "TORCH_SYMM_MEM_DISABLE_MULTICAST"
    monkeypatch.delenv(name, raising=False)
    if own is not None:
        monkeypatch.setenv(name, own)
    with contextlib.suppress(ValueError), symmetric._without_multicast():
        assert os.environ[name] == ("1" if own is None else own)
        raise ValueError
    assert os.environ.get(name) == own
