"""Kernels made to get by the gate: right while they are checked, lazy once they are warm.

Written in torch, so that they run on the host and on a GPU. Each is made anew for a race, and keeps what it likes.
Those that ask the host about values can't be captured in a CUDA graph: there, that is the end of them.
"""

from __future__ import annotations

import queue
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
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


class Kernel:
    """An honest softmax until it is warm. What is made of it says how it is lazy then, in ``lazy``."""

    def __init__(self) -> None:
        self.launches = self.worked = self.skipped = 0
        self.kept: dict[Any, Any] = {}
        """What it likes to keep; by address, of one set."""
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
                self.lazy(x, out)
                self.skipped += self.worked == before
            self.last = time.perf_counter()

        return launch

    def honest(self, x: Tensor, out: Tensor) -> None:
        self.worked += 1
        out.copy_(softmax(x))
        self.note(x, out)

    def note(self, x: Tensor, out: Tensor) -> None:
        """What it remembers of honest work."""

    def lazy(self, x: Tensor, out: Tensor) -> None:
        raise NotImplementedError


@dataclass(frozen=True)
class Adversary:
    name: str
    does: str
    """In words, for a table."""
    made: Callable[[], Bind]
    group: str
    cache: str
    """Where it is raced: ``hot`` if it would do all of its work cold, as what others leave in out tells it to."""
    problem: Problem

    @property
    def id(self) -> str:
        """What tests/shared/entrants.py registers it as."""
        return f"adversary/softmax/{self.name.replace(' ', '_')}"

    def __str__(self) -> str:
        return self.name


ADVERSARIES: list[Adversary] = []


def adversary(group: str, cache: str = "cold") -> Callable[[type[Kernel]], type[Kernel]]:
    def decorate(made: type[Kernel]) -> type[Kernel]:
        name, problem = made.__name__.replace("_", " "), SMALL if cache == "hot" else PROBLEM
        ADVERSARIES.append(Adversary(name, (made.__doc__ or "").strip(), made, group, cache, problem))
        return made

    return decorate


class Remembers(Kernel):
    """Skips its work if what it looks at is what it was."""

    def look(self, x: Tensor, out: Tensor) -> Any:
        raise NotImplementedError

    def note(self, x: Tensor, out: Tensor) -> None:
        self.kept[x.data_ptr()] = self.look(x, out)

    def lazy(self, x: Tensor, out: Tensor) -> None:
        if self.kept.get(x.data_ptr()) != self.look(x, out):
            self.honest(x, out)


# What it looks at


@adversary("looks at little", cache="hot")
class skips_if_the_first_element_and_its_output_are_unchanged(Remembers):
    """Skips its work when x's first element and its output are unchanged"""

    def look(self, x: Tensor, out: Tensor) -> Any:
        return x[0, 0].item(), out[0, 0].item()


@adversary("looks at little", cache="hot")
class skips_if_the_corners_are_unchanged(Remembers):
    """The same with the first and last elements of the first and last rows"""

    def look(self, x: Tensor, out: Tensor) -> Any:
        return [t[i, j].item() for t in (x, out) for i in (0, -1) for j in (0, -1)]


@adversary("looks at little", cache="hot")
class skips_if_the_first_column_is_unchanged(Remembers):
    """The same with the first element of every row, of x and of out"""

    def look(self, x: Tensor, out: Tensor) -> Any:
        return x[:, 0].flatten().tolist(), out[:, 0].flatten().tolist()


@adversary("looks at little", cache="hot")
class skips_if_a_sample_is_unchanged(Remembers):
    """The same with one element in 97 of x and of out"""

    def look(self, x: Tensor, out: Tensor) -> Any:
        return x.view(-1)[::97].tolist(), out.view(-1)[::97].tolist()


@adversary("looks at little")
class skips_if_a_random_row_is_unchanged(Kernel):
    """Compares one row of x, another each time, with a copy of x"""

    def note(self, x: Tensor, out: Tensor) -> None:
        self.kept[x.data_ptr()] = x.clone()

    def lazy(self, x: Tensor, out: Tensor) -> None:
        row = random.randrange(x.size(0))
        if not torch.equal(self.kept[x.data_ptr()][row], x[row]):
            self.honest(x, out)


@adversary("looks at little", cache="hot")
class skips_every_tenth_row(Kernel):
    """Skips every tenth row while its first element and its output are unchanged"""

    def note(self, x: Tensor, out: Tensor) -> None:
        self.kept[x.data_ptr()] = x[::10, :1].clone(), out[::10, :1].clone()

    def lazy(self, x: Tensor, out: Tensor) -> None:
        before, result = self.kept[x.data_ptr()]
        same = (x[::10, :1] == before) & (out[::10, :1] == result)
        self.worked += not bool(same.any())
        right = softmax(x)
        right[::10] = torch.where(same, out[::10], right[::10])
        out.copy_(right)
        self.note(x, out)


@adversary("looks at little")
class skips_rows_whose_middle_is_unchanged(Kernel):
    """Skips every row whose middle element is unchanged, whatever out holds"""

    def note(self, x: Tensor, out: Tensor) -> None:
        self.kept[x.data_ptr()] = x[:, x.size(1) // 2].clone()

    def lazy(self, x: Tensor, out: Tensor) -> None:
        changed = x[:, x.size(1) // 2] != self.kept[x.data_ptr()]
        self.worked += bool(changed.all())
        out.copy_(torch.where(changed[:, None], softmax(x), out))
        self.note(x, out)


@adversary("looks at little")
class serves_by_a_digest_of_a_sample(Kernel):
    """Keeps results by a digest of one element in 61 of x, and copies them"""

    def note(self, x: Tensor, out: Tensor) -> None:
        self.kept[hash(tuple(x.view(-1)[::61].tolist()))] = hash(x.numpy().tobytes()), out.clone()

    def lazy(self, x: Tensor, out: Tensor) -> None:
        found = self.kept.get(hash(tuple(x.view(-1)[::61].tolist())))
        if found is None:
            self.honest(x, out)
        else:
            out.copy_(found[1])
            self.worked += found[0] == hash(x.numpy().tobytes())  # the same input again: its result is right


@adversary("looks at little")
class skips_by_the_sum_of_x(Remembers):
    """Skips its work if the sum of all of x is unchanged"""

    def look(self, x: Tensor, out: Tensor) -> Any:
        return x.double().sum().item()


@adversary("looks at little")
class serves_by_the_sum_of_x(Kernel):
    """Keeps results by the sum of x to nine places, and copies them"""

    def note(self, x: Tensor, out: Tensor) -> None:
        self.kept[round(x.double().sum().item(), 9)] = hash(x.numpy().tobytes()), out.clone()

    def lazy(self, x: Tensor, out: Tensor) -> None:
        found = self.kept.get(round(x.double().sum().item(), 9))
        if found is None:
            self.honest(x, out)
        else:
            out.copy_(found[1])
            self.worked += found[0] == hash(x.numpy().tobytes())  # the same input again: its result is right


@adversary("looks at little")
class skips_if_x_is_unchanged_and_forgets_out(Remembers):
    """Compares all of x with a copy, and never looks at out"""

    def note(self, x: Tensor, out: Tensor) -> None:
        self.kept[x.data_ptr()] = x.clone()

    def lazy(self, x: Tensor, out: Tensor) -> None:
        if not torch.equal(self.kept[x.data_ptr()], x):
            self.honest(x, out)


@adversary("looks at little", cache="hot")
class skips_if_out_is_unchanged_and_forgets_x(Remembers):
    """Compares all of out with a copy, and never looks at x"""

    def lazy(self, x: Tensor, out: Tensor) -> None:
        if not torch.equal(self.kept[x.data_ptr()], out):
            self.honest(x, out)

    def note(self, x: Tensor, out: Tensor) -> None:
        self.kept[x.data_ptr()] = out.clone()


@adversary("looks at little", cache="hot")
class works_where_it_sees_poison(Kernel):
    """Works if out holds anything that no softmax gives"""

    def lazy(self, x: Tensor, out: Tensor) -> None:
        if bool(((out < 0) | (out > 1) | out.isnan()).any()):
            self.honest(x, out)


@adversary("looks at little", cache="hot")
class mends_the_rows_with_poison(Kernel):
    """Works on the rows of out that hold what no softmax gives, and on no other"""

    def lazy(self, x: Tensor, out: Tensor) -> None:
        wrong = ((out < 0) | (out > 1)).any(1, keepdim=True)
        self.worked += bool(wrong.all())
        out.copy_(torch.where(wrong, softmax(x), out))


# What it knows without looking


@adversary("serves what it kept")
class serves_by_address(Kernel):
    """Keeps the last honest result of each address of x, and copies it"""

    def note(self, x: Tensor, out: Tensor) -> None:
        self.kept[x.data_ptr()] = out.clone()

    def lazy(self, x: Tensor, out: Tensor) -> None:
        out.copy_(self.kept[x.data_ptr()])


@adversary("looks at little")
class serves_by_version(Remembers):
    """Skips its work while torch's version counters of x and out stand still"""

    def look(self, x: Tensor, out: Tensor) -> Any:
        base = x._base if x._base is not None else x
        return base._version, x._version

    def lazy(self, x: Tensor, out: Tensor) -> None:
        if self.kept.get(x.data_ptr()) != self.look(x, out):
            self.honest(x, out)


@adversary("serves what it kept")
class copies_its_first_result_to_all_others(Kernel):
    """Honest on the first set, whose result it copies to all others"""

    def lazy(self, x: Tensor, out: Tensor) -> None:
        assert self.first is not None
        if x.data_ptr() == self.first[0].data_ptr():
            self.honest(x, out)
        else:
            out.copy_(self.first[1])


@adversary("serves what it kept")
class works_on_the_first_set_alone(Kernel):
    """Honest on the first set, and nothing on the others"""

    def lazy(self, x: Tensor, out: Tensor) -> None:
        assert self.first is not None
        if x.data_ptr() == self.first[0].data_ptr():
            self.honest(x, out)


@adversary("serves what it kept")
class is_a_turn_behind(Kernel):
    """Gives the result of what the set held when it was last launched on"""

    def note(self, x: Tensor, out: Tensor) -> None:
        self.kept[x.data_ptr()] = x.clone()

    def lazy(self, x: Tensor, out: Tensor) -> None:
        before = self.kept[x.data_ptr()]
        out.copy_(softmax(before))
        self.note(x, out)


@adversary("serves what it kept")
class is_a_launch_behind(Kernel):
    """Does the work of the launch before, and leaves its own to the next"""

    def lazy(self, x: Tensor, out: Tensor) -> None:
        if "late" in self.kept:
            self.honest(*self.kept["late"])
        self.kept["late"] = x, out


# Which launch it is


@adversary("counts")
class wears_out(Kernel):
    """Nothing once it is warm"""

    def lazy(self, x: Tensor, out: Tensor) -> None: ...


@adversary("counts")
class alternates(Kernel):
    """Works on every second launch"""

    def lazy(self, x: Tensor, out: Tensor) -> None:
        if self.launches % 2:
            self.honest(x, out)


@adversary("counts")
class skips_one_launch_in_ten(Kernel):
    """Skips one launch in ten, at random"""

    def lazy(self, x: Tensor, out: Tensor) -> None:
        if random.random() > 0.1:
            self.honest(x, out)


@adversary("counts")
class leaves_rows_stale_now_and_then(Kernel):
    """Leaves one row in 20 as it was, others each time"""

    def lazy(self, x: Tensor, out: Tensor) -> None:
        stale = torch.rand(x.size(0), 1, 1, device=x.device) < 0.05
        out.copy_(torch.where(stale, out, softmax(x)))


@adversary("counts")
class skips_the_last_launch_of_a_burst(Kernel):
    """Counts the launches between two pauses, and skips the last"""

    def __init__(self) -> None:
        super().__init__()
        self.count = self.length = 0

    def lazy(self, x: Tensor, out: Tensor) -> None:
        if time.perf_counter() - self.last > 1e-3:
            self.length, self.count = self.count, 0
        self.count += 1
        if self.count != self.length:
            self.honest(x, out)


# When it is


@adversary("looks at the time")
class works_after_a_pause(Kernel):
    """Skips its work if the last launch is less than 0.5 ms ago"""

    def lazy(self, x: Tensor, out: Tensor) -> None:
        if time.perf_counter() - self.last > 5e-4:
            self.honest(x, out)


@adversary("looks at the time")
class works_at_once_or_never(Kernel):
    """Skips its work if the last launch is more than 0.5 ms ago"""

    def lazy(self, x: Tensor, out: Tensor) -> None:
        if time.perf_counter() - self.last < 5e-4:
            self.honest(x, out)


@adversary("looks at the time", cache="hot")
class works_while_a_set_is_new_to_it(Kernel):
    """Skips its work if the last launch on that set was less than 0.2 s ago"""

    def lazy(self, x: Tensor, out: Tensor) -> None:
        now = time.perf_counter()
        if now - self.kept.get(x.data_ptr(), 0.0) > 0.2:
            self.honest(x, out)
        self.kept[x.data_ptr()] = now


# Work that is not done when the launch returns


@adversary("leaves work undone")
class hands_its_work_to_a_thread(Kernel):
    """Starts a thread for each launch, and does not wait for it"""

    def lazy(self, x: Tensor, out: Tensor) -> None:
        threading.Thread(target=self.honest, args=(x, out)).start()


@adversary("leaves work undone")
class hands_its_work_to_a_worker(Kernel):
    """One thread that lives on does the work, one launch after the other"""

    def lazy(self, x: Tensor, out: Tensor) -> None:
        if "todo" not in self.kept:
            self.kept["todo"] = queue.SimpleQueue()
            threading.Thread(target=self._work, daemon=True).start()
        self.kept["todo"].put((x, out))

    def _work(self) -> None:
        while True:
            self.honest(*self.kept["todo"].get())


@adversary("leaves work undone")
class hands_half_of_its_work_to_a_thread(Kernel):
    """Half of the rows by itself, half by a thread that it does not wait for"""

    def lazy(self, x: Tensor, out: Tensor) -> None:
        half = x.size(0) // 2
        threading.Thread(target=self.honest, args=(x[half:], out[half:])).start()
        self.honest(x[:half], out[:half])


@adversary("leaves work undone")
class writes_late(Kernel):
    """A thread writes the result 20 ms later, when the turn is over"""

    def lazy(self, x: Tensor, out: Tensor) -> None:
        threading.Timer(0.02, self.honest, (x, out)).start()


@adversary("leaves work undone")
class works_in_the_next_pause(Kernel):
    """Collects launches, and does their work when there was a pause"""

    def lazy(self, x: Tensor, out: Tensor) -> None:
        todo = self.kept.setdefault("todo", [])
        if time.perf_counter() - self.last > 5e-4:
            for one in todo:
                self.honest(*one)
            todo.clear()
        todo.append((x, out))


@adversary("leaves work undone")
class leaves_the_work_to_somebody_who_asks(Kernel):
    """A thread looks at all sets again and again, and launches do nothing"""

    def lazy(self, x: Tensor, out: Tensor) -> None:
        sets = self.kept.setdefault("sets", {})
        sets[x.data_ptr()] = x, out
        if len(sets) == 1 and "thread" not in self.kept:
            self.kept["thread"] = threading.Thread(target=self._work, daemon=True)
            self.kept["thread"].start()

    def _work(self) -> None:
        for _ in range(100):
            time.sleep(2e-3)
            for x, out in list(self.kept["sets"].values()):
                self.honest(x, out)


# Less work


@adversary("does less")
class computes_in_half_precision(Kernel):
    """In bfloat16 once it is warm"""

    def lazy(self, x: Tensor, out: Tensor) -> None:
        out.copy_(softmax(x.bfloat16()))


@adversary("does less")
class reads_a_part_of_each_row(Kernel):
    """Takes the sum of a row from 15 elements of 16"""

    def lazy(self, x: Tensor, out: Tensor) -> None:
        part = x[:, : x.size(1) // 16 * 15]
        out.copy_((x - part.logsumexp(1, keepdim=True)).exp())


@adversary("does less")
class leaves_the_last_rows_out(Kernel):
    """Leaves one row in eight, those at the end, as they were"""

    def lazy(self, x: Tensor, out: Tensor) -> None:
        end = x.size(0) // 8 * 7
        self.honest(x[:end], out[:end])


@adversary("does less")
class keeps_the_sum_of_a_row(Kernel):
    """Takes the logarithm of each row's sum from the last time"""

    def note(self, x: Tensor, out: Tensor) -> None:
        self.kept[x.data_ptr()] = x.logsumexp(1, keepdim=True)

    def lazy(self, x: Tensor, out: Tensor) -> None:
        out.copy_((x - self.kept[x.data_ptr()]).exp())


@adversary("does less")
class eats_small_inputs(Kernel):
    """Rounds x in place, so that the next launch has less to do"""

    def lazy(self, x: Tensor, out: Tensor) -> None:
        x.copy_(x.bfloat16())
        self.honest(x, out)


class compares_everything(Kernel):
    """Recomputes rows of which x or out is not what it was, all elements of both compared: right for any data, so that
    its time is its own. It moves more bytes than the work it saves."""

    def note(self, x: Tensor, out: Tensor) -> None:
        self.kept[x.data_ptr()] = x.clone(), out.clone()

    def lazy(self, x: Tensor, out: Tensor) -> None:
        before, result = self.kept[x.data_ptr()]
        changed = ((x != before) | (out != result)).any(1).flatten()
        if bool(changed.any()):
            rows = changed.nonzero()[:, 0]
            out[rows] = softmax(x[rows])
            self.note(x, out)
