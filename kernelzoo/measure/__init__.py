"""Measuring: problems, clocks, ceilings, and the race between implementations. It names no backend."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from kernelzoo.device import device_lives
from kernelzoo.errors import DeviceLostError
from kernelzoo.measure.environment import device_name, gpu_uuid, versions
from kernelzoo.measure.measurement import Cache, Measurement
from kernelzoo.measure.problems import SETS, Problem, label, problems
from kernelzoo.measure.replay import Replay

if TYPE_CHECKING:
    from kernelzoo.measure.ceilings import Ceilings
    from kernelzoo.measure.clocks import DeviceClock, WallClock
    from kernelzoo.measure.judge.doubts import Timed
    from kernelzoo.measure.judge.entrant import Entrant, Here
    from kernelzoo.measure.judge.gate import Gate
    from kernelzoo.measure.judge.memory import Sets
    from kernelzoo.measure.judge.race import race
else:  # they import torch, which a report does without
    _PLACES = {"Ceilings": "ceilings", "Timed": "judge.doubts", "Gate": "judge.gate", "Sets": "judge.memory"}
    _PLACES |= {"DeviceClock": "clocks", "WallClock": "clocks", "race": "judge.race"}
    _PLACES |= {"Entrant": "judge.entrant", "Here": "judge.entrant"}

    def __getattr__(name: str) -> Any:
        if name not in _PLACES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"kernelzoo.measure.{_PLACES[name]}"), name)


__all__ = [
    "SETS",
    "Cache",
    "Ceilings",
    "DeviceClock",
    "DeviceLostError",
    "Entrant",
    "Gate",
    "Here",
    "Measurement",
    "Problem",
    "Replay",
    "Sets",
    "Timed",
    "WallClock",
    "device_lives",
    "device_name",
    "gpu_uuid",
    "label",
    "problems",
    "race",
    "versions",
]
