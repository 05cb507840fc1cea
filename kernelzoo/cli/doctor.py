"""``kernelzoo doctor``: what this machine has, what each backend lacks, and what would disturb a measurement."""

import importlib.metadata
import os
import platform
import re
import sys
from dataclasses import asdict
from pathlib import Path

from kernelzoo import registry
from kernelzoo.cli import options, output
from kernelzoo.cli.diagnostics import Machine, Suspicion, suspicions
from kernelzoo.measure.environment import device_name
from kernelzoo.terminal import width, wrap_text

_PACKAGES = re.compile(
    r"kernelzoo|torch|triton|helion|pytorch-triton.*|cupy(-.*)?|numba|numba-cuda|llvmlite|numpy|cuda-(core|bindings|pathfinder"
    r"|tile|toolkit)|nvidia-(cuda-(nvrtc|nvcc|runtime|tileiras)|cutlass-dsl|nvvm|nvjitlink|ml-py)(-cu\d+)?|matplotlib|pytest-benchmark|typer|rich"
)
_LABELS = {
    "driver": "driver's CUDA",
    "nvml": "NVML",
    "nvrtc": "NVRTC, for cupy",
    "nvvm": "libNVVM, for numba",
    "ptxas": "ptxas, for triton",
}


def doctor(json: options.Json = False) -> int:
    """Examine this machine: devices, driver, tools, versions, missing parts of backends, and disturbances.

    Exit status: 0; 1 if no backend but torch can run here.
    """
    machine = examine()
    found = suspicions(machine)
    runnable = [name for name, look in machine.backends.items() if look.get("devices")]
    if json:
        output.print_json(
            {
                "python": platform.python_version(),
                "platform": platform.platform(),
                **asdict(machine),
                "suspicions": [asdict(one) for one in found],
                "runnable": runnable,
            }
        )
    else:
        _print(machine, found)
    return 0 if set(runnable) - {registry.BASELINE} else 1


def examine() -> Machine:
    """Examine this machine. Separate processes load its tools and backends, because these may crash."""
    from kernelzoo.cli import probe  # not at the top, since python -m runs it as a program

    load = os.getloadavg()[0]  # before the processes below add to it
    governor = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
    names = ("OMP_", "MKL_", "NUMBA_", "TRITON_", "CUDA_", "CUPY_", "PYTORCH_")
    return Machine(
        packages=packages(),
        torch_pins=_pinned_version("torch", "triton"),
        environment={name: value for name, value in os.environ.items() if name.startswith(names)},
        cores=len(os.sched_getaffinity(0)),
        load=load,
        governor=governor.read_text().strip() if governor.exists() else "",
        # NVML lists other processes on a GPU, so it comes before our own use of the GPU. Torch reads the free memory.
        looks={
            **probe.run_probes([name for name in probe.LOOKS if name != "torch"]),
            **probe.run_probes(["torch"]),
            **probe.run_probes([f"backend:{name}" for name in registry.backends()]),
        },
    )


def packages() -> dict[str, str]:
    """Return the versions of relevant packages. If a package is installed twice, the one that Python imports counts."""
    return {
        name: found.version
        for found in reversed(list(importlib.metadata.distributions()))  # the first on the path comes last and wins
        if (name := (found.metadata["Name"] or "").lower()) and _PACKAGES.fullmatch(name)
    }


def _pinned_version(distribution: str, wanted: str) -> str:
    """Return the exact version of ``wanted`` that ``distribution`` requires, or ""."""
    try:
        asked = importlib.metadata.requires(distribution) or []
    except importlib.metadata.PackageNotFoundError:
        return ""
    found = (re.match(rf"{wanted}\s*==\s*([\w.]+)", line) for line in asked)
    return next((match[1] for match in found if match), "")


def _print(machine: Machine, found: list[Suspicion]) -> None:
    console = output.console()

    def say(text: str) -> None:
        for line in wrap_text(text, width()):
            console.print(line.replace("\xa0", " "))

    say(f"Python {platform.python_version()} at {sys.executable}, on {platform.platform()}")
    say(f"{device_name('cpu')}, {machine.cores} cores to use, load {machine.load:.1f}")
    for index, device in enumerate(machine.devices):
        say(
            f"GPU {index}: {device['name']}, compute capability {device['capability']}, "
            f"{device['multiprocessors']} SMs, {device['l2_bytes'] / 2**20:.0f} MiB L2, "
            f"{device['free_bytes'] / 2**30:.1f} of {device['memory_bytes'] / 2**30:.1f} GiB free"
        )
    for index, device in enumerate(machine.gpus):
        known = {name: value for name, value in device.items() if value is not None}
        say(
            f"GPU {index} by NVML: SM clock {known.get('sm_mhz', '?')} of {known.get('sm_max_mhz', '?')} MHz, "
            f"{known.get('temperature', '?')} °C; clocks need no locking: implementations take turns, and a round in "
            "which they changed is repeated"
        )
    if not machine.devices:
        say("no GPU: " + (machine.looks["torch"].get("error") or "torch sees none"))
    say("packages: " + ", ".join(f"{name}\xa0{version}" for name, version in sorted(machine.packages.items())))
    table = output.make_table("CUDA's tools and libraries", "version", "where, or why not")
    for name, label in _LABELS.items():
        look = machine.looks[name]
        version = look.get("version") or look.get("cuda") or look.get("driver") or "-"
        path = look.get("path", "").removeprefix(f"{sys.prefix}{os.sep}")
        table.add_row(label, version, path or look.get("error") or "")
    output.show(console, table)
    console.print()
    tuned = any(look.get("tables") for look in machine.backends.values())
    table = output.make_table("backend", "here", *(["launch tables"] if tuned else []), "how to fix it")
    for name, look in machine.backends.items():
        runs = f"runs on {' and '.join(look['devices'])}" if look.get("devices") else look.get("reason")
        emulated = f" (in {look['emulator']}: never timed)" if look.get("emulator") else ""
        in_force = [look.get("tables", "")] if tuned else []
        table.add_row(name, f"{runs or look['error']}{emulated}", *in_force, look.get("remedy", ""))
    output.show(console, table)
    console.print()
    if found:
        table = output.make_table("suspicious", "what to do")
        for one in found:
            table.add_row(one.what, one.remedy)
        output.show(console, table)
        console.print()
    else:
        console.print("Nothing suspicious.")
