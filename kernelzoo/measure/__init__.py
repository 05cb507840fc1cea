"""Measuring: problems, clocks, ceilings, and the race between implementations. It names no backend."""

from kernelzoo.device import device_lives
from kernelzoo.errors import DeviceLostError
from kernelzoo.measure.ceilings import Ceilings, ceilings
from kernelzoo.measure.clocks import DeviceClock, WallClock, clock_for
from kernelzoo.measure.environment import device_name, gpu_uuid, versions
from kernelzoo.measure.gate import Gate
from kernelzoo.measure.measurement import Cache, Measurement
from kernelzoo.measure.problems import SETS, Problem, label, problems
from kernelzoo.measure.race import Timed, cross_check, race
from kernelzoo.measure.replay import Replay
from kernelzoo.measure.sets import draw_sets

__all__ = [
    "SETS",
    "Cache",
    "Ceilings",
    "DeviceClock",
    "DeviceLostError",
    "Gate",
    "Measurement",
    "Problem",
    "Replay",
    "Timed",
    "WallClock",
    "ceilings",
    "clock_for",
    "cross_check",
    "device_lives",
    "device_name",
    "draw_sets",
    "gpu_uuid",
    "label",
    "problems",
    "race",
    "versions",
]
