"""Measuring: problems, clocks, ceilings, and the race that puts implementations side by side.

Knows implementations, and no backend by name.
"""

from kernelzoo.measure.ceilings import Ceilings, ceilings
from kernelzoo.measure.clocks import DeviceClock, WallClock, clock_for
from kernelzoo.measure.environment import device_name, versions
from kernelzoo.measure.problems import SETS, Problem, problems
from kernelzoo.measure.race import Measurement, race
from kernelzoo.measure.replay import Replay

__all__ = [
    "SETS",
    "Ceilings",
    "DeviceClock",
    "Measurement",
    "Problem",
    "Replay",
    "WallClock",
    "ceilings",
    "clock_for",
    "device_name",
    "problems",
    "race",
    "versions",
]
