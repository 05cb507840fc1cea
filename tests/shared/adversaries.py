"""Kernels made to get by the gate: right while they are checked, lazy once they are warm.

Written in torch, so that they run on the host and on a GPU. Each is made anew for a race, and keeps what it likes.
Those that ask the host about values can't be captured in a CUDA graph: there, that is the end of them.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, wraps
from typing import Any

import torch

from kernelzoo.launch import Bind, Launch
from kernelzoo.measure import Problem

Tensor = torch.Tensor

PROBLEM = Problem("softmax", (256, 512), "float32")
SMALL = Problem("softmax", (64, 64), "float32")
"""Of which one sample holds many launches."""

WARM = 80
"""Launches of a kernel, over all sets, after which it is lazy: a race of 32 sets begins with fewer."""


def softmax(x: Tensor) -> Tensor:
    """Of (rows, n, 1); as the last axis, torch adds it up pairwise, and is within the tolerance."""
    return torch.softmax(x.squeeze(2), 1).unsqueeze(2)


Lazy = Callable[["Kernel", Tensor, Tensor], None]
Look = Callable[[Tensor, Tensor], Any]


class Kernel:
    """An honest softmax until it is warm, and ``lazy`` then; ``keep`` is what it remembers of honest work on a set, by
    ``key``."""

    def __init__(self, lazy: Lazy, keep: Look | None = None, key: Callable[[Tensor], Any] = Tensor.data_ptr) -> None:
        self.lazy, self.keep, self.key = lazy, keep, key
        self.launches = self.worked = self.skipped = 0
        self.kept: dict[Any, Any] = {}
        """What it likes to keep, of one set or of all."""
        self.last = time.perf_counter()
        """When it last returned."""
        self.first: tuple[Tensor, Tensor] | None = None
        """The first set that it was bound to."""

    def __call__(self, x: Tensor, out: Tensor) -> Launch:
        if self.first is None:
            self.first = x, out

        def launch() -> None:
            self.launches += 1
            if self.launches <= WARM:
                self.honest(x, out)
            else:
                before = self.worked
                self.lazy(self, x, out)
                self.skipped += self.worked == before
            self.last = time.perf_counter()

        return launch

    def honest(self, x: Tensor, out: Tensor) -> None:
        self.worked += 1
        out.copy_(softmax(x))
        self.note(x, out)

    def note(self, x: Tensor, out: Tensor) -> None:
        if self.keep is not None:
            self.kept[self.key(x)] = self.keep(x, out)

    def known(self, x: Tensor) -> Any:
        """What it remembers of the set, or None."""
        return self.kept.get(self.key(x))

    def since(self) -> float:
        """Seconds since it last returned."""
        return time.perf_counter() - self.last

    def is_first(self, x: Tensor) -> bool:
        assert self.first is not None
        return x.data_ptr() == self.first[0].data_ptr()


@dataclass(frozen=True)
class Adversary:
    name: str
    made: Callable[[], Bind]
    problem: Problem

    @property
    def id(self) -> str:
        """What tests/shared/entrants.py registers it as."""
        return f"adversary/softmax/{self.name.replace(' ', '_')}"

    def __str__(self) -> str:
        return self.name


ADVERSARIES: list[Adversary] = []


def adversary(problem: Problem = PROBLEM, **kept: Any) -> Callable[[Lazy], Lazy]:
    """Add a kernel that is lazy so; ``kept``: the rest that :class:`Kernel` takes.

    It is raced on a small problem if it would do all of its work cold, as what others leave in out tells it to.
    """

    def decorate(lazy: Lazy) -> Lazy:
        ADVERSARIES.append(Adversary(lazy.__name__.replace("_", " "), partial(Kernel, lazy, **kept), problem))
        return lazy

    return decorate


def remembers(problem: Problem = PROBLEM) -> Callable[[Look], Look]:
    """Add a kernel that skips its work if what it looks at is what it was."""

    def decorate(look: Look) -> Look:
        @wraps(look)
        def lazy(kernel: Kernel, x: Tensor, out: Tensor) -> None:
            if kernel.known(x) != look(x, out):
                kernel.honest(x, out)

        adversary(problem, keep=look)(lazy)
        return look

    return decorate


def of_x(x: Tensor, out: Tensor) -> Tensor:
    return x.clone()


def of_out(x: Tensor, out: Tensor) -> Tensor:
    return out.clone()


# What it looks at


@remembers(SMALL)
def skips_if_the_first_element_and_its_output_are_unchanged(x: Tensor, out: Tensor) -> Any:
    return x[0, 0].item(), out[0, 0].item()


@remembers(SMALL)
def skips_if_the_corners_are_unchanged(x: Tensor, out: Tensor) -> Any:
    return [t[i, j].item() for t in (x, out) for i in (0, -1) for j in (0, -1)]


@remembers(SMALL)
def skips_if_the_first_column_is_unchanged(x: Tensor, out: Tensor) -> Any:
    return x[:, 0].flatten().tolist(), out[:, 0].flatten().tolist()


@remembers(SMALL)
def skips_if_a_sample_is_unchanged(x: Tensor, out: Tensor) -> Any:
    return x.view(-1)[::97].tolist(), out.view(-1)[::97].tolist()


@adversary(keep=of_x)
def skips_if_a_random_row_is_unchanged(kernel: Kernel, x: Tensor, out: Tensor) -> None:
    row = random.randrange(x.size(0))
    if not torch.equal(kernel.known(x)[row], x[row]):
        kernel.honest(x, out)


@adversary(SMALL, keep=lambda x, out: (x[::10, :1].clone(), out[::10, :1].clone()))
def skips_every_tenth_row(kernel: Kernel, x: Tensor, out: Tensor) -> None:
    """Skips every tenth row while its first element and its output are unchanged"""
    before, result = kernel.known(x)
    same = (x[::10, :1] == before) & (out[::10, :1] == result)
    kernel.worked += not bool(same.any())
    right = softmax(x)
    right[::10] = torch.where(same, out[::10], right[::10])
    out.copy_(right)
    kernel.note(x, out)


@adversary(keep=lambda x, out: x[:, x.size(1) // 2].clone())
def skips_rows_whose_middle_is_unchanged(kernel: Kernel, x: Tensor, out: Tensor) -> None:
    changed = x[:, x.size(1) // 2] != kernel.known(x)
    kernel.worked += bool(changed.all())
    out.copy_(torch.where(changed[:, None], softmax(x), out))
    kernel.note(x, out)


def serve(kernel: Kernel, x: Tensor, out: Tensor) -> None:
    """Copy the result that is kept by the key of x, if there is one."""
    found = kernel.known(x)
    if found is None:
        kernel.honest(x, out)
    else:
        out.copy_(found[1])
        kernel.worked += found[0] == hash(x.numpy().tobytes())  # the same input again: its result is right


def to_serve(x: Tensor, out: Tensor) -> Any:
    return hash(x.numpy().tobytes()), out.clone()


@adversary(keep=to_serve, key=lambda x: hash(tuple(x.view(-1)[::61].tolist())))
def serves_by_a_digest_of_a_sample(kernel: Kernel, x: Tensor, out: Tensor) -> None:
    """Keeps results by a digest of one element in 61 of x, and copies them"""
    serve(kernel, x, out)


@remembers()
def skips_by_the_sum_of_x(x: Tensor, out: Tensor) -> Any:
    return x.double().sum().item()


@adversary(keep=to_serve, key=lambda x: round(x.double().sum().item(), 9))
def serves_by_the_sum_of_x(kernel: Kernel, x: Tensor, out: Tensor) -> None:
    """Keeps results by the sum of x to nine places, and copies them"""
    serve(kernel, x, out)


@adversary(keep=of_x)
def skips_if_x_is_unchanged_and_forgets_out(kernel: Kernel, x: Tensor, out: Tensor) -> None:
    if not torch.equal(kernel.known(x), x):
        kernel.honest(x, out)


@adversary(SMALL, keep=of_out)
def skips_if_out_is_unchanged_and_forgets_x(kernel: Kernel, x: Tensor, out: Tensor) -> None:
    if not torch.equal(kernel.known(x), out):
        kernel.honest(x, out)


@adversary(SMALL)
def works_where_it_sees_poison(kernel: Kernel, x: Tensor, out: Tensor) -> None:
    """Works if out holds anything that no softmax gives"""
    if bool(((out < 0) | (out > 1) | out.isnan()).any()):
        kernel.honest(x, out)


@adversary(SMALL)
def mends_the_rows_with_poison(kernel: Kernel, x: Tensor, out: Tensor) -> None:
    """Works on the rows of out that hold what no softmax gives, and on no other"""
    wrong = ((out < 0) | (out > 1)).any(1, keepdim=True)
    kernel.worked += bool(wrong.all())
    out.copy_(torch.where(wrong, softmax(x), out))


# What it knows without looking


@adversary(keep=of_out)
def serves_by_address(kernel: Kernel, x: Tensor, out: Tensor) -> None:
    out.copy_(kernel.known(x))


@remembers()
def serves_by_version(x: Tensor, out: Tensor) -> Any:
    """Skips its work while torch's version counters of x and out stand still"""
    base = x._base if x._base is not None else x
    return base._version, x._version


@adversary()
def copies_its_first_result_to_all_others(kernel: Kernel, x: Tensor, out: Tensor) -> None:
    if kernel.is_first(x):
        kernel.honest(x, out)
    elif kernel.first is not None:
        out.copy_(kernel.first[1])


@adversary()
def works_on_the_first_set_alone(kernel: Kernel, x: Tensor, out: Tensor) -> None:
    if kernel.is_first(x):
        kernel.honest(x, out)


@adversary(keep=of_x)
def is_a_turn_behind(kernel: Kernel, x: Tensor, out: Tensor) -> None:
    """Gives the result of what the set held when it was last launched on"""
    out.copy_(softmax(kernel.known(x)))
    kernel.note(x, out)


@adversary()
def is_a_launch_behind(kernel: Kernel, x: Tensor, out: Tensor) -> None:
    if "late" in kernel.kept:
        kernel.honest(*kernel.kept["late"])
    kernel.kept["late"] = x, out


# Which launch it is


@adversary()
def wears_out(kernel: Kernel, x: Tensor, out: Tensor) -> None:
    """Nothing once it is warm"""


@adversary()
def alternates(kernel: Kernel, x: Tensor, out: Tensor) -> None:
    if kernel.launches % 2:
        kernel.honest(x, out)


@adversary()
def skips_one_launch_in_ten(kernel: Kernel, x: Tensor, out: Tensor) -> None:
    if random.random() > 0.1:
        kernel.honest(x, out)


@adversary()
def leaves_rows_stale_now_and_then(kernel: Kernel, x: Tensor, out: Tensor) -> None:
    """Leaves one row in 20 as it was, others each time"""
    stale = torch.rand(x.size(0), 1, 1, device=x.device) < 0.05
    out.copy_(torch.where(stale, out, softmax(x)))


@adversary()
def skips_the_last_launch_of_a_burst(kernel: Kernel, x: Tensor, out: Tensor) -> None:
    """Counts the launches between two pauses, and skips the last"""
    length, count = kernel.kept.get("burst", (0, 0))
    if kernel.since() > 1e-3:
        length, count = count, 0
    kernel.kept["burst"] = length, count + 1
    if count + 1 != length:
        kernel.honest(x, out)


# When it is


@adversary()
def works_after_a_pause(kernel: Kernel, x: Tensor, out: Tensor) -> None:
    if kernel.since() > 5e-4:
        kernel.honest(x, out)


@adversary()
def works_at_once_or_never(kernel: Kernel, x: Tensor, out: Tensor) -> None:
    if kernel.since() < 5e-4:
        kernel.honest(x, out)


@adversary(SMALL)
def works_while_a_set_is_new_to_it(kernel: Kernel, x: Tensor, out: Tensor) -> None:
    """Skips its work if the last launch on that set was less than 0.2 s ago"""
    now = time.perf_counter()
    if now - kernel.kept.get(x.data_ptr(), 0.0) > 0.2:
        kernel.honest(x, out)
    kernel.kept[x.data_ptr()] = now


# Work that is not done when the launch returns


@adversary()
def hands_its_work_to_a_thread(kernel: Kernel, x: Tensor, out: Tensor) -> None:
    threading.Thread(target=kernel.honest, args=(x, out)).start()


@adversary()
def hands_half_of_its_work_to_a_thread(kernel: Kernel, x: Tensor, out: Tensor) -> None:
    half = x.size(0) // 2
    threading.Thread(target=kernel.honest, args=(x[half:], out[half:])).start()
    kernel.honest(x[:half], out[:half])


@adversary()
def writes_late(kernel: Kernel, x: Tensor, out: Tensor) -> None:
    """A thread writes the result 20 ms later, when the turn is over"""
    threading.Timer(0.02, kernel.honest, (x, out)).start()


@adversary()
def works_in_the_next_pause(kernel: Kernel, x: Tensor, out: Tensor) -> None:
    """Collects launches, and does their work when there was a pause"""
    todo = kernel.kept.setdefault("todo", [])
    if kernel.since() > 5e-4:
        for one in todo:
            kernel.honest(*one)
        todo.clear()
    todo.append((x, out))


@adversary()
def leaves_the_work_to_somebody_who_asks(kernel: Kernel, x: Tensor, out: Tensor) -> None:
    """A thread looks at all sets again and again, and launches do nothing"""

    def work() -> None:
        for _ in range(100):
            time.sleep(2e-3)
            for one in list(kernel.kept["sets"].values()):
                kernel.honest(*one)

    sets = kernel.kept.setdefault("sets", {})
    sets[x.data_ptr()] = x, out
    if len(sets) == 1 and "thread" not in kernel.kept:
        kernel.kept["thread"] = threading.Thread(target=work, daemon=True)
        kernel.kept["thread"].start()


# Less work


@adversary()
def computes_in_half_precision(kernel: Kernel, x: Tensor, out: Tensor) -> None:
    out.copy_(softmax(x.bfloat16()))


@adversary()
def reads_a_part_of_each_row(kernel: Kernel, x: Tensor, out: Tensor) -> None:
    """Takes the sum of a row from 15 elements of 16"""
    part = x[:, : x.size(1) // 16 * 15]
    out.copy_((x - part.logsumexp(1, keepdim=True)).exp())


@adversary()
def leaves_the_last_rows_out(kernel: Kernel, x: Tensor, out: Tensor) -> None:
    """Leaves one row in eight, those at the end, as they were"""
    end = x.size(0) // 8 * 7
    kernel.honest(x[:end], out[:end])


@adversary(keep=lambda x, out: x.logsumexp(1, keepdim=True))
def keeps_the_sum_of_a_row(kernel: Kernel, x: Tensor, out: Tensor) -> None:
    """Takes the logarithm of each row's sum from the last time"""
    out.copy_((x - kernel.known(x)).exp())


@adversary()
def eats_small_inputs(kernel: Kernel, x: Tensor, out: Tensor) -> None:
    """Rounds x in place, so that the next launch has less to do"""
    x.copy_(x.bfloat16())
    kernel.honest(x, out)


def compares_everything() -> Kernel:
    """Recomputes rows of which x or out is not what it was, all elements of both compared: right for any data, so that
    its time is its own. It moves more bytes than the work it saves."""

    def lazy(kernel: Kernel, x: Tensor, out: Tensor) -> None:
        before, result = kernel.known(x)
        changed = ((x != before) | (out != result)).any(1).flatten()
        if bool(changed.any()):
            rows = changed.nonzero()[:, 0]
            out[rows] = softmax(x[rows])
            kernel.note(x, out)

    return Kernel(lazy, lambda x, out: (x.clone(), out.clone()))
