"""Checks that a machine has what Triton needs for a launch: its version, an assembler, libcuda, a C compiler."""

import os
import shutil
import sysconfig
from pathlib import Path
from typing import Any

from kernelzoo.errors import BackendUnavailableError
from kernelzoo.kernels.shared import code_cache
from kernelzoo.packages import requirement, why_version_unfit

MEND = "install gcc and Python's headers (python3-dev), or set CC to a C compiler"


COMPILES_WITH = {"TRITON_INTERPRET": "0"}
"""Environment variables of a process that only compiles kernels. Triton's interpreter is off: it compiles nothing."""


def why_too_old(version: str) -> str:
    """Return why a version of Triton can't be used, or "" if it meets this package's requirement."""
    return why_version_unfit("triton", version, "triton")


def check_version(backend: str, triton: Any) -> None:
    """Raise BackendUnavailableError if Triton's version can't be used."""
    if why := why_too_old(triton.__version__):
        remedy = f"install a newer one with: pip install '{requirement('triton', 'triton')}'"
        raise BackendUnavailableError(backend, why, remedy)


def find_device_types(backend: str, torch: Any, triton: Any) -> tuple[str, ...]:
    """Return the device types that Triton's compiler or interpreter can use here. Raises BackendUnavailableError."""
    found = ("cuda",) if torch.cuda.is_available() else ()
    if found:
        check_launches(backend, triton)
    if triton.knobs.runtime.interpret:
        return (*found, "cpu")
    if not found:
        raise BackendUnavailableError(
            backend,
            "torch sees no GPU",
            "use kernelzoo.get('cpu'), or set TRITON_INTERPRET=1 before Triton is imported to run the kernels in its "
            "interpreter (for checking, never for timing)",
        )
    return found


def check_launches(backend: str, triton: Any) -> None:
    """Set up Triton's cache of compiled kernels. Raises BackendUnavailableError if launches need more software."""
    code_cache.check_cache_folder("TRITON_CACHE_DIR", Path(triton.knobs.cache.get_triton_dir("cache")))
    if not triton.knobs.runtime.interpret and (missing := find_missing_requirement(triton)):
        raise BackendUnavailableError(backend, *missing)


def find_missing_requirement(triton: Any) -> tuple[str, str] | None:
    """Return what a launch on a GPU lacks, and the remedy; None if it lacks nothing. Nothing is compiled.

    Triton launches through a C module, which it compiles at first use and caches. NVIDIA's assembler comes with
    Triton's package, or an environment variable names it.
    """
    import torch

    if torch.version.hip is None:
        from triton.backends.nvidia import driver

        try:
            _ = triton.knobs.nvidia.ptxas
        except RuntimeError as error:
            return f"Triton finds no assembler: {error}", "reinstall triton, or set TRITON_PTXAS_PATH to a ptxas"
        try:
            getattr(driver, "libcuda_dirs", list)()
        except (AssertionError, OSError) as error:
            said = " ".join(str(error).split())
            return f"Triton finds no libcuda.so.1: {said}", "set TRITON_LIBCUDA_PATH to the folder that has it"
    return _find_missing_for_launcher(triton)


def _find_missing_for_launcher(triton: Any) -> tuple[str, str] | None:
    """Return what Triton lacks to compile its C launcher module, and the remedy; None if it can, or has it cached."""
    if triton.knobs.build.impl is not None:
        return None
    given = os.environ.get("CC")  # which Triton takes as it is, even if it is no program's name
    compiler = shutil.which(given) if given is not None else shutil.which("gcc") or shutil.which("clang")
    scheme = sysconfig.get_default_scheme().replace("posix_local", "posix_prefix")  # as Triton does, for Debian's
    headers = Path(sysconfig.get_paths(scheme)["include"])
    if compiler is None:
        reason = f"Triton needs a C compiler, and {'there is none' if given is None else f'CC={given} is none'}"
    elif not (headers / "Python.h").exists():
        reason = f"Triton compiles a module for Python, and its header Python.h is not in {headers}"
    else:
        return None
    return None if _is_launcher_cached(triton) else (reason, MEND)


def _is_launcher_cached(triton: Any) -> bool:
    """Whether Triton has its C launcher module cached. Triton 3.6 needs one per kind of kernel: always False."""
    if triton.__version__.startswith("3.6."):
        return False

    def refuses(*_: Any) -> str:
        raise RuntimeError("it is not in the cache")

    with triton.knobs.build.scope():
        triton.knobs.build.impl = refuses
        try:
            return triton.runtime.driver.active.utils is not None
        except Exception:  # whatever a driver raises as it is made
            return False
