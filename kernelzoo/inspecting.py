"""The compiling process of :mod:`kernelzoo.inspect`. Only here are users' files run."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from kernelzoo import definitions, operations, registry
from kernelzoo.device import ARCHITECTURES, Device, plan_launches_for_device
from kernelzoo.errors import InspectionError, KernelZooError
from kernelzoo.inspect import Kernel, Request, check_request, record_kernels, simulate_device
from kernelzoo.operations.known import signature_fields
from kernelzoo.packages import BUILT_IN, backend_packages, files


def main() -> None:
    """Read a request from standard input, and write the answer to standard output as JSON."""
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # keeps a compiler's output out of the answer
    asked = json.load(sys.stdin)
    requests = [
        Request(**{**fields, "shape": tuple(fields["shape"]), "sizes": tuple(map(tuple, fields["sizes"]))})
        for fields in asked["requests"]
    ]
    with ExitStack() as stack:
        if asked["modules"] or not all(map(_has_inspection_module, requests)):
            stack.enter_context(_recording_launches(ARCHITECTURES[requests[0].arch if requests else "sm_90"]))
        else:
            importlib.import_module(f"{backend_packages()[requests[0].backend]}.inspection")  # fails without it
        try:
            told: dict[str, Any] = {"files": dict(_load_all(asked["modules"])), "answers": list(map(_answer, requests))}
            told["operations"] = [signature_fields(op) for op in operations.declared.values()]
        except KernelZooError as error:  # from a file
            told = _error_fields(error)
    json.dump(told, replies)
    replies.close()


def _load_all(modules: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Run the files, and yield each id that one registers, with the file."""
    for path in modules:
        before = {*registry._registered}
        definitions.load_file_locating_errors(path)
        yield from (("/".join(key), path) for key in registry._registered if key not in before)


def _answer(request: Request) -> dict[str, Any]:
    try:
        return {"kernels": [asdict(kernel) for kernel in compiled_kernels(request)]}
    except KernelZooError as error:
        return _error_fields(error)
    except Exception as error:  # a compiler may raise anything
        return _error_fields(_make_inspection_error(f"{request.id} fails for {request.arch}", error))


def _make_inspection_error(what: str, error: Exception) -> InspectionError:
    words = " ".join(str(error).strip("\n\0").splitlines()[:2])  # a log may have hundreds of lines
    made = InspectionError(f"{what}: {type(error).__name__}: {words}")
    made.add_note("".join(traceback.format_exception(error)))
    return made


def _error_fields(error: KernelZooError) -> dict[str, Any]:
    return {
        "error": type(error).__name__,
        "message": str(error),
        "attributes": {name: value for name, value in vars(error).items() if name != "__notes__"},
        "notes": getattr(error, "__notes__", []),
    }


def compiled_kernels(request: Request) -> tuple[Kernel, ...]:
    """Return the kernels of a launch, compiled here and not run. Raises as :func:`kernelzoo.inspect.inspect` does."""
    if not _has_inspection_module(request):
        return record_kernels(request, "cuda", _simulate_users_launch(request))
    inspection = importlib.import_module(f"{backend_packages()[request.backend]}.inspection")
    if refusal := inspection.refusal(request.variant, request.arch):
        raise InspectionError(f"{request.id} {refusal}")
    place = getattr(inspection, "INPUT_DEVICE", "meta")
    return record_kernels(request, place, simulate_device(request.backend, request.device))


def _has_inspection_module(request: Request) -> bool:
    """Whether the backend's package has a module ``inspection``, which can compile the kernel, and its source."""
    package = backend_packages().get(request.backend)
    if package is None or importlib.util.find_spec(f"{package}.inspection") is None:
        return False
    return bool(files(request.id))


@contextmanager
def _recording_launches(device: Device) -> Iterator[None]:
    """A context that records launches in any language. It must begin before a user's file runs."""
    with ExitStack() as stack:
        for package in reversed(BUILT_IN.values()):  # Triton asks torch for a device, so torch comes after it
            if importlib.util.find_spec(f"{package}.watching") is not None:
                try:
                    watching = importlib.import_module(f"{package}.watching")
                except ImportError:  # a file that needs it raises this itself
                    continue
                stack.enter_context(watching.record_user_launches(device))
        yield


@contextmanager
def _simulate_users_launch(request: Request) -> Iterator[None]:
    """A context within ``_recording_launches`` to run a user's launch on tensors without values; explains errors."""
    if package := backend_packages().get(request.backend):
        registry.import_kernels(request.backend, package)
    check_request(request)
    try:
        with plan_launches_for_device(request.device):
            yield
    except KernelZooError:
        raise
    except Exception as error:
        ours = ("site-packages", str(Path(__file__).parent))
        frames = [f for f in traceback.extract_tb(error.__traceback__) if not any(part in f.filename for part in ours)]
        frames = [f for f in frames if Path(f.filename).is_file()]  # drops sources of libraries built elsewhere
        where = f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""
        raise _make_inspection_error(
            f"{request.id} can't be followed without a GPU, where tensors have no values{where}", error
        ) from error


if __name__ == "__main__":
    main()
