"""Answers a backend's probe without loading a language.

``kernelzoo list`` runs the same probes as ``kernelzoo.get``. Within :func:`unloaded`, ``require`` only locates modules,
and the facts below answer for them: versions, environment variables and NVML. Any other question raises NotSeenError;
then only loading the backend can tell.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib import metadata
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import Any, NamedTuple

from kernelzoo import packages


class NotSeenError(BaseException):
    """Only loading a package could answer a probe. It is no Exception, since a probe may catch those."""


def probed(backend: str) -> tuple[tuple[str, ...], str]:
    """The device types that a built-in backend takes here, and its emulator. Nothing is loaded.

    Raises BackendUnavailableError, or NotSeenError.
    """
    with unloaded():
        module = importlib.import_module(packages.BUILT_IN[backend])
        return module.probe(), module.emulator() if hasattr(module, "emulator") else ""


@contextmanager
def unloaded() -> Iterator[None]:
    """A context in which ``require`` only locates packages; other imports of them raise NotSeenError."""
    _numbers.cache_clear()
    sys.meta_path.insert(0, guard := _Guard())
    token = packages.instead.set(_found)
    try:
        yield
    finally:
        packages.instead.reset(token)
        sys.meta_path.remove(guard)


class _Guard:
    """Refuses imports except of Python's modules, this package's, and NVML."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        first = name.partition(".")[0]
        if first in sys.stdlib_module_names or first in ("kernelzoo", "pynvml"):
            return None
        raise NotSeenError(f"importing {name}")


def _found(module: str) -> Any:
    """A stand-in for a module that can be imported. Raises ModuleNotFoundError as an import would."""
    path: Any = None
    parts = module.split(".")
    for index in range(len(parts)):
        name = ".".join(parts[: index + 1])
        if (loaded := sys.modules.get(name)) is not None:
            path = getattr(loaded, "__path__", None)
            continue
        if name in sys.modules:  # it is hidden, and an import would name it
            name = ".".join(parts[: index + 2])
        elif (spec := _spec(name, path)) is not None:
            path = spec.submodule_search_locations
            continue
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    return _Unloaded(module)


def _spec(name: str, path: Any) -> ModuleSpec | None:
    """A module's spec, or None. Raises NotSeenError if finding it could import something."""
    unsure: NotSeenError | None = None
    for finder in sys.meta_path:
        if not isinstance(finder, _Guard):
            try:
                if (spec := finder.find_spec(name, path)) is not None:
                    return spec
            except NotSeenError as error:
                unsure = error
    if unsure is not None:
        raise unsure
    return None


class _Unloaded:
    """A stand-in for a module, or a part of one, that is not loaded."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        whole = f"{self._name}.{attribute}"
        if whole in FACTS:
            return FACTS[whole]()
        if any(fact.startswith(f"{whole}.") for fact in FACTS):
            return _Unloaded(whole)
        raise NotSeenError(whole)


def _version(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        raise NotSeenError(f"the version of {distribution}") from None


def _switch(variable: str) -> bool:
    """A switch in the environment. Raises NotSeenError for values that languages read differently."""
    value = os.environ.get(variable, "0")
    if value not in ("0", "1", "") or Path(".numba_config.yaml").exists():
        raise NotSeenError(f"{variable}={value}")
    return value == "1"


@cache
def _built_for(which: str) -> str | None:
    """What torch was built for, ``cuda`` or ``hip``, from its version file."""
    spec = PathFinder.find_spec("torch")
    if spec is None or spec.origin is None:
        raise NotSeenError("torch's files")
    said = Path(spec.origin).with_name("version.py").read_text(encoding="utf-8")
    found = re.search(rf"^{which}(?:: [\w\[\]]+)? = (?:None|'([\d.]+)')", said, re.MULTILINE)
    if found is None:
        raise NotSeenError(f"torch.version.{which}")
    return found[1]


class _Numbers(NamedTuple):
    """Facts from NVML."""

    capabilities: tuple[tuple[int, int], ...] = ()
    """Compute capabilities of the devices visible to this process."""
    driver: int = 0
    """The driver's CUDA version, as a number."""


@cache
def _numbers() -> _Numbers:
    """The NVIDIA devices that torch sees; none for a build without GPUs."""
    if _built_for("hip") is not None:
        raise NotSeenError("AMD's devices")
    built, visible = _built_for("cuda"), os.environ.get("CUDA_VISIBLE_DEVICES")
    if built is None or visible in ("", "-1"):
        return _Numbers()
    try:
        import pynvml
    except ImportError:
        raise NotSeenError("pynvml") from None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:  # no driver
        return _Numbers()
    try:
        driver = pynvml.nvmlSystemGetCudaDriverVersion()
        handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
        capabilities = [tuple(map(int, pynvml.nvmlDeviceGetCudaComputeCapability(handle))) for handle in handles]
    except pynvml.NVMLError as error:
        raise NotSeenError(str(error)) from None
    if driver // 1000 < int(built.partition(".")[0]) or not Path("/dev/nvidiactl").exists():
        raise NotSeenError("whether torch takes this driver")
    if visible is not None:
        if not re.fullmatch(r"\d+(,\d+)*", visible) or len(set(capabilities)) > 1:
            raise NotSeenError("which devices are visible")
        capabilities = [capabilities[int(i)] for i in visible.split(",") if int(i) < len(capabilities)]
    return _Numbers(tuple(capabilities), driver)  # type: ignore[arg-type]


def _library(folder: str, name: str) -> bool:
    """Whether one of NVIDIA's wheels or the toolkit has such a file. Raises NotSeenError otherwise."""
    toolkits = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"]
    places = [Path(place, "nvidia") for place in sys.path if place]
    if any(next(place.glob(f"**/{name}.so*"), None) for place in places):
        return True
    if any(next(Path(toolkit, folder).glob(f"{name}.so*"), None) for toolkit in toolkits if toolkit):
        return True
    raise NotSeenError(name)


def _toolkit() -> tuple[int, ...]:
    """The version of the CUDA toolkit in the wheels."""
    return tuple(map(int, _version("nvidia-cuda-runtime").split(".")[:2]))


def _cupy_built_for() -> int:
    (built, *others) = [name for name in ("11", "12", "13", "14") if _is_there(f"cupy-cuda{name}x")] or ["", ""]
    if others:
        raise NotSeenError("which CuPy this is")
    return int(built) * 1000


def _is_there(distribution: str) -> bool:
    try:
        return bool(metadata.version(distribution))
    except metadata.PackageNotFoundError:
        return False


def _too_old(distribution: str, backend: str) -> str:
    return packages.unfit(distribution, _version(distribution), backend)


FACTS: dict[str, Callable[[], Any]] = {
    "torch.version.cuda": lambda: _built_for("cuda"),
    "torch.version.hip": lambda: _built_for("hip"),
    "torch.cuda.is_available": lambda: lambda: bool(_numbers().capabilities),
    "torch.cuda.device_count": lambda: lambda: len(_numbers().capabilities),
    "torch.cuda.get_device_capability": lambda: lambda index: _numbers().capabilities[index],
    "numpy.__version__": lambda: _version("numpy"),
    "numba.config.DISABLE_JIT": lambda: _switch("NUMBA_DISABLE_JIT"),
    "numba.cuda.implementation": lambda: "NVIDIA" if _is_there("numba-cuda") else None,
    "numba.cuda.config.ENABLE_CUDASIM": lambda: _switch("NUMBA_ENABLE_CUDASIM"),
    "numba.cuda.cudadrv.nvvm.NVVM": lambda: lambda: _library("nvvm/lib64", "libnvvm"),
    "numba.cuda.runtime.get_version": lambda: _toolkit,
    "cuda.bindings.driver.cuDriverGetVersion": lambda: lambda: (0, _numbers().driver),
    "cupy.cuda.runtime.is_hip": lambda: _built_for("hip") is not None,
    "cupy.cuda.runtime.runtimeGetVersion": lambda: _cupy_built_for,
    "cupy.cuda.runtime.driverGetVersion": lambda: lambda: _numbers().driver,
    "cupy.cuda.runtime.getDeviceCount": lambda: lambda: len(_numbers().capabilities),
    "cupy.cuda.runtime.CUDARuntimeError": lambda: RuntimeError,
    "cupy.cuda.nvrtc.getVersion": lambda: lambda: _library("lib64", "libnvrtc"),
    "triton.__version__": lambda: _version("triton"),
    "triton.knobs.runtime.interpret": lambda: _switch("TRITON_INTERPRET"),
    "triton.knobs.cache.get_triton_dir": lambda: lambda name: Path("~/.triton", name).expanduser(),
    "kernelzoo.kernels.cute.compiler.lacking": lambda: lambda: _too_old("nvidia-cutlass-dsl", "cute"),
    "kernelzoo.kernels.cutile.compiler.lacking": lambda: lambda: _too_old("nvidia-cuda-tileiras", "cutile"),
    "kernelzoo.kernels.shared.driver.version": lambda: lambda: _numbers().driver,
}
"""Facts about modules that are not loaded, by dotted name. A callable's fact is a function."""
