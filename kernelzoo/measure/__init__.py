"""Measuring: problems, clocks, ceilings, and the race between implementations. It names no backend."""

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

    def __getattr__(name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from kernelzoo.measure.ceilings import Ceilings
        from kernelzoo.measure.clocks import DeviceClock, WallClock
        from kernelzoo.measure.judge.doubts import Timed
        from kernelzoo.measure.judge.entrant import Entrant, Here
        from kernelzoo.measure.judge.gate import Gate
        from kernelzoo.measure.judge.memory import Sets
        from kernelzoo.measure.judge.race import race

        made = (Ceilings, DeviceClock, WallClock, Entrant, Here, Gate, Sets, race)
        return {"Timed": Timed, **{one.__name__: one for one in made}}[name]


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
