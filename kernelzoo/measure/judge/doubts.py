"""Checks whether an implementation's times can be true, by the judge's own clock and the device's limits."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

from kernelzoo.measure.calls import choose_clock
from kernelzoo.measure.ceilings import Ceilings, find_impossible_bandwidth
from kernelzoo.measure.clocks import TURN
from kernelzoo.measure.judge.apart import WORKED
from kernelzoo.measure.judge.data import RaceData
from kernelzoo.measure.judge.entrant import AnyRunner, Entrant
from kernelzoo.measure.measurement import Measurement

Timed = Literal["device", "call"]
"""The kind of timing: of bound launches, or of users' calls (see :mod:`kernelzoo.measure.calls`)."""

BEYOND = 1.05
"""A cold result that beats the device's limit by more than this factor is a measurement error."""

_LONG, _LONGER = 40e-3, 1.2
"""The seconds for which a turn is repeated, and the factor by which a repeated turn may be slower than a sample."""

_SUBMITTED = 1e-6
"""The most seconds to submit a launch within a turn."""

_DELIVERING = 20e-6
"""The most seconds to copy one returned output, if each copy is submitted separately."""

_DELIVERED = {"cuda": 2e-6, "cpu": 10e-6}
"""The most seconds per launch that delivering results may take in addition to copying them."""

_PAUSE = {"cuda": 0.0, "cpu": 0.05}
"""Seconds to wait before each further try, multiplied by the number of tries so far."""

_EXPLAINED, _SLACK, _TRIES = 0.10, 0.5e-3, 10
"""By the judge's clock, turns may take longer by this fraction plus these seconds, in the best of so many tries."""

_FRESH = 20e-3
"""The length in seconds of a turn on data that is new to the runner, if there are enough sets."""

_OWN = {"cuda": ((1.2, 0.3e-3),), "cpu": ((1.1, 0.5e-3), (1.25, 0.15e-3))}
"""Bounds on the judge's time: factor x time + seconds; the lowest one applies. On a GPU they include submission."""

_OFTEN = {"cuda": 10, "cpu": 40}
"""The number of tries to meet these bounds."""


@dataclass(frozen=True)
class TimeChecks:
    """The checks that can refute the times of a race."""

    data: RaceData
    timed: Timed
    empty: float
    """Seconds of a turn without launches, by the judge's clock."""
    own: AnyRunner
    """The runner that has only kernelzoo's own kernels. It is trusted."""
    gpu_is_busy: Callable[[Entrant], bool]
    """A function that returns whether the GPU is busy while all runners are stopped."""

    def find_false_time(self, entrant: Entrant, median: float) -> str:
        """Return why the judge's clock contradicts the samples; "" if it does not."""
        if self.timed == "call":
            return ""
        false = self._check_repeated_turns(entrant, median) if self.data.is_gpu else ""
        return false or ("" if entrant.runner is self.own else self._check_turns_on_new_data(entrant, median))

    def _check_repeated_turns(self, entrant: Entrant, median: float) -> str:
        """Repeat the last turn for 40 ms, and compare the runner's clock with the judge's. Returns why they differ."""
        once = median * entrant.count
        times = max(3, int(_LONG / once))
        allowed = self.empty + _SLACK + _SUBMITTED * entrant.count
        if entrant.returns:  # the last turn's results are delivered after its clock; see ``find_hidden_work``
            allowed += _DELIVERING * entrant.count * len(self.data.sets.outs)
        least, unexplained = math.inf, math.inf
        for _ in range(_TRIES):  # a busy host is late, and never early
            seconds, took = entrant.run_timed_turn(times)
            least, unexplained = min(least, seconds), min(unexplained, took - seconds * times * (1 + _EXPLAINED))
            if unexplained <= allowed:
                break
        else:
            return (
                f"{times} turns took {unexplained * 1e3:.2f} ms longer by the judge's clock than its runner said:"
                " a false time, or work outside the clock"
            )
        longest = _LONGER * once + _SLACK / times
        if self.data.cache == "cold" and least > longest:
            return f"a turn took {once * 1e3:.2f} ms as a sample, and {least * 1e3:.2f} ms of a row: a false time"
        return ""

    def _check_turns_on_new_data(self, entrant: Entrant, median: float) -> str:
        """Time turns on new data, because a runner could skip turns on old data. Returns a contradiction, or "".

        On a GPU, work may continue after the process has stopped. So the judge's time lasts until the GPU is idle.
        """
        more = 0.0
        if entrant.returns:
            more = 1.5 * self._copy_seconds(entrant.count) + _DELIVERED[self.data.device.type]
        most = least = entrant.count
        if self.data.cache == "cold" and not entrant.returns:  # else a turn keeps all its results alive
            most, least = (max(most, min(self.data.sets.count, int(s / median))) for s in (_FRESH, TURN))
        for number in range(_OFTEN[self.data.device.type]):
            # On a busy host a short turn is disturbed less often than a long one.
            count = least if number >= 3 and not self.data.is_gpu else most
            order = random.sample(range(self.data.sets.count), count)
            entrant.ask("prepare_turn", order=order, copy_outs=entrant.returns)
            self.data.gate.mutation.write_sets(order)
            self.data.prepare_caches()
            busy, extra, began = self.gpu_is_busy(entrant), entrant.runner.run_seconds_since_stop(), time.perf_counter()
            took = entrant.run_turn_once()
            if self.data.is_gpu:
                self.data.time_one_element_launch()
                took = time.perf_counter() - began
            extra = max(extra, entrant.runner.run_seconds_since_stop())
            self.data.gate.mutation.check_sets(order)
            bounds = _OWN[self.data.device.type]
            allowed = min((share * median + more) * count + slack for share, slack in bounds)
            if took - self.empty <= allowed and not busy and extra <= WORKED:
                return ""
        if extra > WORKED:
            return f"its process ran for {extra * 1e3:.1f} ms while it was stopped: work outside the clock"
        return (
            f"{count} launches took {(took - self.empty) * 1e3:.2f} ms by the judge's clock,"
            f" {median * count * 1e3:.2f} by that of their runner: a false time, or work outside the clock"
        )

    def find_hidden_work(self, entrant: Entrant, median: float) -> str:
        """Return why an implementation seems to work after its clock stops, apart from copying results; "" if not.

        To find out, a turn is timed together with the copying of its results. Only this may make it longer.
        """
        if not entrant.returns or self.timed == "call":
            return ""
        order = random.sample(range(self.data.sets.count), entrant.count)
        copy, least = self._copy_seconds(entrant.count), math.inf
        for tries in range(_TRIES):
            time.sleep(_PAUSE[self.data.device.type] * tries)  # other work on a host may take a while
            entrant.ask("prepare_turn", order=order, copy_outs=True)
            self.data.gate.mutation.write_sets(order)
            self.data.prepare_caches()
            least = min(least, entrant.run_timed_turn()[0] / len(order))
            self.data.gate.mutation.check_sets(order)
            if least - median <= 1.5 * copy + _DELIVERED[self.data.device.type]:
                return ""
        return (
            f"{least * 1e6:.1f} us with its results copied, {median * 1e6:.1f} without; a copy takes {copy * 1e6:.1f}:"
            " a false time, or work outside the clock"
        )

    def _copy_seconds(self, count: int) -> float:
        """Return the seconds to copy one launch's outputs, timed in a turn of ``count`` copies."""
        clock, sets = choose_clock(self.data.device, self.timed, self.data.problem.op), self.data.sets.count
        order = random.sample(range(sets), count)
        copied = clock.prepare_turn([partial(self._copy_outs, (number + 1) % sets, number) for number in order])
        found = math.inf
        for _ in range(3):
            self.data.prepare_caches()
            found = min(found, copied(1) / count)
        return found

    def _copy_outs(self, source: int, to: int) -> None:
        for a, b in zip(self.data.sets[source][1], self.data.sets[to][1], strict=True):
            b.copy_(a)

    def find_impossible_time(self, measurement: Measurement, ceilings: Ceilings | None) -> str:
        """Return why a time is too short for this device; "" if not. With definition files, only outputs count."""
        stated = "written" not in self.data.problem.operation.hooks
        moved = measurement.bytes if stated else sum(x.nbytes for x in self.data.sets[0][1])
        if ceilings is not None:
            limit = ceilings.shortest_seconds(self.data.problem.op, moved)
            measurement.limit = limit if stated else None
            if self.data.cache == "cold" and limit > BEYOND * measurement.median:
                return (
                    f"{measurement.median * 1e6:.2f} us is {limit / measurement.median:.2f} times faster than this"
                    f" device can move the bytes ({limit * 1e6:.2f} us): a measurement error"
                )
        elif self.data.cache == "cold" and self.timed != "call" and not self.data.is_gpu:
            return find_impossible_bandwidth(moved, measurement.median, self.data.sets.count * measurement.bytes)
        return ""
