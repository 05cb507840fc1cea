"""Examination of one part of this machine: ``python -m kernelzoo.cli.probe NAME`` prints JSON.

Each part is examined in a separate process, so that a crash loses only this part's answer; see :func:`run_probes`.
"""

import ctypes
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import asdict
from typing import Any

from kernelzoo import children
from kernelzoo.cli import output
from kernelzoo.cli.availability import availability

Facts = dict[str, Any]

_ANSWER = "answer: "
"""The prefix of a line with an answer."""

_PATIENCE = 120  # seconds for each process: one of them imports every language, perhaps from a cold disk


def torch() -> Facts:
    """Return the facts of torch's build, and the devices that torch sees."""
    import torch

    devices = []
    for index in range(torch.cuda.device_count()):
        about = torch.cuda.get_device_properties(index)
        free, total = torch.cuda.mem_get_info(index)
        devices.append(
            {
                "name": about.name,
                "capability": f"{about.major}.{about.minor}",
                "multiprocessors": about.multi_processor_count,
                "l2_bytes": about.L2_cache_size,
                "memory_bytes": total,
                "free_bytes": free,
            }
        )
    return {
        "version": torch.__version__,
        "cuda": torch.version.cuda,
        "hip": torch.version.hip,
        "threads": torch.get_num_threads(),
        "devices": devices,
    }


def driver() -> Facts:
    """Return the newest CUDA version that the driver supports."""
    library = ctypes.CDLL("libcuda.so.1")
    version = ctypes.c_int()
    status = library.cuDriverGetVersion(ctypes.byref(version))
    if status:
        raise RuntimeError(f"cuDriverGetVersion answers {status}")
    return {"cuda": f"{version.value // 1000}.{version.value % 1000 // 10}"}


def nvml() -> Facts:
    """Return what NVML reports about the devices: clocks, persistence mode, other processes."""
    import pynvml

    pynvml.nvmlInit()
    devices = []
    for index in range(pynvml.nvmlDeviceGetCount()):
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)

        def ask(question: str, *arguments: Any, _handle: Any = handle) -> Any:
            try:
                return getattr(pynvml, question)(_handle, *arguments)
            except pynvml.NVMLError:  # not every card or container answers everything
                return None

        others = ask("nvmlDeviceGetComputeRunningProcesses")
        devices.append(
            {
                "name": pynvml.nvmlDeviceGetName(handle),
                "persistence": ask("nvmlDeviceGetPersistenceMode"),
                "sm_mhz": ask("nvmlDeviceGetClockInfo", pynvml.NVML_CLOCK_SM),
                "sm_max_mhz": ask("nvmlDeviceGetMaxClockInfo", pynvml.NVML_CLOCK_SM),
                "throttled": ask("nvmlDeviceGetCurrentClocksThrottleReasons"),
                "temperature": ask("nvmlDeviceGetTemperature", pynvml.NVML_TEMPERATURE_GPU),
                "processes": None if others is None else [process.pid for process in others],
            }
        )
    return {"driver": pynvml.nvmlSystemGetDriverVersion(), "devices": devices}


def nvrtc() -> Facts:
    """Find the runtime compiler that CuPy uses."""
    return _library_version("nvrtc", "nvrtcVersion", 2)


def nvvm() -> Facts:
    """Find the compiler library that Numba uses."""
    found = _library_version("nvvm", "nvvmIRVersion", 4)
    return found | {"version": f"IR {found['version']}"}


def _library_version(name: str, function: str, count: int) -> Facts:
    """Return a library's path and version. ``function`` writes ``count`` integers; the first two are the version."""
    from cuda.pathfinder import load_nvidia_dynamic_lib

    path, numbers = load_nvidia_dynamic_lib(name).abs_path, [ctypes.c_int() for _ in range(count)]
    getattr(ctypes.CDLL(path), function)(*map(ctypes.byref, numbers))
    return {"version": f"{numbers[0].value}.{numbers[1].value}", "path": path}


def ptxas() -> Facts:
    """Find the assembler that Triton brings and uses."""
    import triton

    tool = triton.knobs.nvidia.ptxas
    return {"version": tool.version, "path": tool.path}


LOOKS: dict[str, Callable[[], Facts]] = {look.__name__: look for look in (torch, driver, nvml, nvrtc, nvvm, ptxas)}


def run_probes(names: Sequence[str]) -> dict[str, Facts]:
    """Examine parts of this machine in parallel processes. The answer of a part that fails is an ``error``.

    One process examines all parts ``backend:NAME``. If it crashes, each of them without an answer gets a new one."""
    console, backends = output.console(errors=True), [name for name in names if ":" in name]
    with console.status("looking at this machine") if console.is_terminal else nullcontext():
        found = _read_answers(_start_process(backends))[0] if len(backends) > 1 else {}
        for name, process in {name: _start_process([name]) for name in names if name not in found}.items():
            told, failure = _read_answers(process)
            found[name] = told.get(name, {"error": failure})
    return {name: found[name] for name in names}


def _start_process(names: Sequence[str]) -> subprocess.Popen[str]:
    command, pipe = [sys.executable, "-P", "-m", "kernelzoo.cli.probe", *names], subprocess.PIPE
    how: dict[str, Any] = {"env": children.child_env(), "stdout": pipe, "stderr": pipe, "stdin": subprocess.DEVNULL}
    return subprocess.Popen(command, text=True, errors="replace", **how)


def _read_answers(process: subprocess.Popen[str]) -> tuple[dict[str, Facts], str]:
    """Return a process's answer for each part, and how the process ended."""
    try:
        said, complaints = process.communicate(timeout=_PATIENCE)
        code = process.returncode
        how = f"crashed ({signal.Signals(-code).name})" if code < 0 else f"ended with status {code}"
    except subprocess.TimeoutExpired:
        process.kill()
        said, complaints = process.communicate()[0], ""
        how = f"hung: no answer in {_PATIENCE} s"
    found: dict[str, Facts] = {}
    for line in said.splitlines():
        if line.startswith(_ANSWER):  # a library may print anything else
            with suppress(ValueError):  # the process may have been killed within the line
                found |= json.loads(line.removeprefix(_ANSWER))
    last = [line.strip() for line in complaints.splitlines() if line.strip()][-1:]
    return found, ": ".join([how, *last])


def main(names: Sequence[str]) -> None:
    for name in names:
        try:
            kind, _, backend = name.partition(":")
            found = asdict(availability(backend)) if backend else LOOKS[kind]()
        except Exception as error:  # any error is the answer
            found = {"error": f"{type(error).__name__}: {' '.join(str(error).split())}"}
        print(f"\n{_ANSWER}{json.dumps({name: found})}", flush=True)
    os._exit(0)  # a broken library may crash at exit


if __name__ == "__main__":
    main(sys.argv[1:])
