"""Measuring: problems, clocks, ceilings, and the race between implementations. No code here names a backend."""

from typing import TYPE_CHECKING, Any

from kernelzoo.measure.environment import device_name, gpu_uuid, versions
from kernelzoo.measure.measurement import Measurement
from kernelzoo.measure.problems import SETS, Problem, label, problems

if TYPE_CHECKING:
    from kernelzoo.measure.ceilings import Ceilings
    from kernelzoo.measure.judge.entrant import Entrant, LocalRunner
    from kernelzoo.measure.judge.gate import Gate
    from kernelzoo.measure.judge.memory import TensorSets
    from kernelzoo.measure.judge.race import race
else:  # importing these imports torch, which a report does not need

    def __getattr__(name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from kernelzoo.measure.ceilings import Ceilings
        from kernelzoo.measure.judge.entrant import Entrant, LocalRunner
        from kernelzoo.measure.judge.gate import Gate
        from kernelzoo.measure.judge.memory import TensorSets
        from kernelzoo.measure.judge.race import race

        return {one.__name__: one for one in (Ceilings, Entrant, LocalRunner, Gate, TensorSets, race)}[name]


__all__ = [
    "SETS",
    "Ceilings",
    "Entrant",
    "Gate",
    "LocalRunner",
    "Measurement",
    "Problem",
    "TensorSets",
    "device_name",
    "gpu_uuid",
    "label",
    "problems",
    "race",
    "versions",
]
