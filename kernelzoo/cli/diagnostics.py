"""Suspicious facts about a machine, each with its remedy."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from kernelzoo import registry
from kernelzoo.packages import requirement, why_version_unfit


@dataclass(frozen=True)
class Machine:
    """The facts that ``kernelzoo doctor`` found about this machine. The functions below judge only these facts."""

    packages: Mapping[str, str] = field(default_factory=dict)
    """Versions of relevant installed distributions, by name."""
    torch_pins: str = ""
    """The triton version that the installed torch requires, or ""."""
    environment: Mapping[str, str] = field(default_factory=dict)
    cores: int = 1
    load: float = 0.0
    """The load average of the last minute."""
    governor: str = ""
    """The governor of the processor's clock, or "" if unknown."""
    looks: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """The answers of :mod:`kernelzoo.cli.probe`, by name."""

    def probe_answer(self, name: str) -> Mapping[str, Any]:
        """Return the answer of the probe ``name``, or {} if the answer is missing or an error."""
        found = self.looks.get(name, {})
        return {} if "error" in found else found

    @property
    def devices(self) -> list[Mapping[str, Any]]:
        return list(self.probe_answer("torch").get("devices", []))

    @property
    def gpus(self) -> list[Mapping[str, Any]]:
        """The devices that NVML reports."""
        return list(self.probe_answer("nvml").get("devices", []))

    @property
    def backends(self) -> dict[str, Mapping[str, Any]]:
        return {name.partition(":")[2]: look for name, look in self.looks.items() if name.startswith("backend:")}


@dataclass(frozen=True)
class Suspicion:
    """A fact that may make a run fail or a measurement wrong, and the remedy."""

    what: str
    remedy: str


def suspicions(machine: Machine) -> list[Suspicion]:
    """Return all suspicions, the most harmful first."""
    rules = _package_conflicts, _too_new_compilers, _hidden_gpus, _other_load, _harmful_variables, _clock_problems
    return [found for rule in rules for found in rule(machine)]


def _package_conflicts(machine: Machine) -> Iterator[Suspicion]:
    packages = machine.packages
    numpy = packages.get("numpy", "")
    numbas = [name for name in ("numba", "numba-cuda") if name in packages]
    if numpy and why_version_unfit("numpy", numpy, "numba") and numbas:
        remedy = f"pip install '{requirement('numpy', 'numba')}'"
        yield Suspicion(f"NumPy {numpy} is too new for {' and '.join(numbas)}", remedy)
    triton = packages.get("triton", "")
    if machine.torch_pins and triton and triton != machine.torch_pins:
        yield Suspicion(
            f"triton {triton} is installed, and torch {packages.get('torch', '')} was built for {machine.torch_pins}",
            f"pip install triton=={machine.torch_pins}",
        )
    cupys = sorted(name for name in packages if name.startswith("cupy-cuda"))
    if len(cupys) > 1:
        yield Suspicion(
            f"{' and '.join(cupys)} overwrite each other's files",
            f"pip uninstall {' '.join(cupys)}, then install the one of the driver's CUDA",
        )


def _too_new_compilers(machine: Machine) -> Iterator[Suspicion]:
    """Find compilers newer than the driver, because the driver may not load their code."""
    driver = machine.probe_answer("driver").get("cuda")
    if not driver:
        return
    newer = [
        f"{name} {version}"
        for name, version in machine.packages.items()
        if name.startswith(("nvidia-cuda-nvrtc", "nvidia-nvvm", "nvidia-nvjitlink", "nvidia-cuda-nvcc"))
        and _parse_version(version) > _parse_version(driver)
    ]
    if newer:
        yield Suspicion(
            f"the driver takes CUDA {driver}, and newer compilers are installed: {', '.join(newer)}",
            f"pip install 'cuda-toolkit=={driver}.*', or update the driver",
        )


def _hidden_gpus(machine: Machine) -> Iterator[Suspicion]:
    """Find GPUs that torch doesn't see."""
    there = len(machine.gpus)
    torch = machine.probe_answer("torch")
    if not torch or len(machine.devices) >= there:
        return
    if not torch["cuda"]:
        yield Suspicion(
            f"{there} NVIDIA GPU here, and torch {torch['version']} was built without CUDA",
            "install a CUDA build: pip install torch, or the command that pytorch.org names",
        )
    elif "CUDA_VISIBLE_DEVICES" in machine.environment:
        yield Suspicion(
            f"{there} GPUs here, of which CUDA_VISIBLE_DEVICES={machine.environment['CUDA_VISIBLE_DEVICES']!r} shows "
            f"{len(machine.devices)}",
            "unset it, if that was not meant",
        )
    else:
        yield Suspicion(
            f"{there} GPUs here, of which torch sees {len(machine.devices)}",
            "update the driver to the CUDA that torch was built for",
        )


def _other_load(machine: Machine) -> Iterator[Suspicion]:
    for index, device in enumerate(machine.gpus):
        if others := device.get("processes"):
            yield Suspicion(
                f"GPU {index} is used by other processes: {', '.join(map(str, others))}",
                "times of a shared GPU can't be trusted; end those processes, or measure later",
            )
    # A container may hide other processes, but not their memory. Our CUDA context and the driver take less than 2 GiB.
    for index, device in enumerate(machine.devices):
        held = device["memory_bytes"] - device["free_bytes"]
        if held > 2**31 and not any(gpu.get("processes") for gpu in machine.gpus):
            yield Suspicion(
                f"{held / 2**30:.1f} GiB of GPU {index}'s memory are taken, by processes that don't show here",
                "see nvidia-smi on the host; times of a shared GPU can't be trusted",
            )
    if machine.load > 0.5 * machine.cores:
        yield Suspicion(
            f"the processor is busy: a load of {machine.load:.1f} on {machine.cores} cores",
            "host and submit times will be noisy; wait, or end other programs",
        )


_SWITCHES = {
    "TRITON_INTERPRET": "Triton's kernels run in its interpreter, which is never timed",
    "NUMBA_ENABLE_CUDASIM": "Numba's simulator takes its compiler's place, so its kernels don't run",
    "CUDA_LAUNCH_BLOCKING": "every launch waits for the device, so submit times mean nothing",
    "PYTORCH_NO_CUDA_MEMORY_CACHING": "every allocation waits for the device, so times of whole calls mean nothing",
}


def _harmful_variables(machine: Machine) -> Iterator[Suspicion]:
    for name, effect in _SWITCHES.items():
        if machine.environment.get(name, "0") not in ("", "0"):
            yield Suspicion(f"{name}={machine.environment[name]}: {effect}", f"unset {name}")
    for name in ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS"):
        threads = machine.environment.get(name, "")
        if threads.isdigit() and int(threads) != machine.cores:
            yield Suspicion(
                f"{name}={threads}, and there are {machine.cores} cores: host times are those of {threads} threads",
                f"unset {name}, if that was not meant",
            )
    others = [look for name, look in machine.backends.items() if name != registry.BASELINE]
    compiles = any("cpu" in look.get("devices", ()) and not look.get("emulator") for look in others)
    if compiles and machine.environment.get("OMP_WAIT_POLICY", "").upper() != "PASSIVE":
        yield Suspicion(
            "torch's idle threads spin for a while after each call, and slow down Numba's on the host",
            "OMP_WAIT_POLICY=PASSIVE kernelzoo ..., for times on the host",
        )


def _clock_problems(machine: Machine) -> Iterator[Suspicion]:
    if machine.devices and (error := machine.looks.get("nvml", {}).get("error")):
        yield Suspicion(
            f"NVML can't be asked ({error}), so rounds with changed GPU clocks go unnoticed",
            "pip install nvidia-ml-py, and see that the container shows libnvidia-ml.so.1",
        )
    if machine.governor and machine.governor not in ("performance", "schedutil"):
        yield Suspicion(
            f"the processor's clock is governed by {machine.governor!r}",
            "sudo cpupower frequency-set -g performance, for times on the host",
        )
    for index, device in enumerate(machine.gpus):
        if device.get("persistence") == 0:
            yield Suspicion(
                f"GPU {index} is not in persistence mode: its first use after a rest takes seconds",
                "sudo nvidia-smi -pm 1; no measured time depends on it, since each begins with warm launches",
            )


def _parse_version(text: str) -> tuple[int, ...]:
    """Return the first two numbers of a version."""
    return tuple(map(int, re.findall(r"\d+", text)[:2]))
