"""What is asked for to inspect a language, and what holds for every kernel that it shows."""

from pathlib import Path
from typing import Any

import kernelzoo
from kernelzoo import inspect, registry
from kernelzoo.device import ARCHITECTURES, occupancy
from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.inspect import Kernel, Request
from kernelzoo.launch import Launch

PROBLEMS = (((4096, 4096), "float32"), ((16, 262144), "bfloat16"), ((4096, 64), "float16"))
DTYPES = tuple(dtype for _, dtype in PROBLEMS)

Answers = dict[tuple[str, str], tuple[Kernel, ...]]
"""Kernels by id and dtype."""


def ask(backend: str, arch: str, *ids: str) -> Answers:
    """The kernels of all implementations, unless some are named, less what a named variant refuses."""
    return answers([request for request in _requests(backend, arch) if not ids or request.id in ids])


def ask_some(backend: str, arch: str, *named: tuple[str, str], every: bool) -> Answers:
    """The kernels of those named, by id and dtype, or of one problem of each; compiled in one process, to compare."""
    if every:
        return ask(backend, arch)
    requests, ids = _requests(backend, arch), [i.id for i in kernelzoo.implementations(backend)]
    first = [request for request in requests if request.dtype == DTYPES[ids.index(request.id) % len(DTYPES)]]
    autos = {(find_first_form(request), request.dtype) for request in first if request.variant == "auto"}
    wanted = {(request.id, request.dtype) for request in first} | autos | set(named)
    found = answers([request for request in requests if (request.id, request.dtype) in wanted])
    shown = {id for id, _ in found}
    return found | answers([request for request in requests if request.id not in shown])


def find_first_form(request: Request) -> str:
    """The form that a chooser hands a problem on to; nothing is compiled."""
    chosen: list[str] = []

    def ask(*tensors: Any, **scalars: Any) -> Launch:
        chosen.append(registry.choose_variant(request.backend, request.op, request.variant, *tensors, **scalars))
        return lambda: None

    operation = kernelzoo.implementation(request.id).operation
    with inspect.simulate_device(request.backend, request.device):
        args = request.arguments("meta")
        operation.make_launch(ask, args, operation.allocate(args))
    return f"{request.backend}/{request.op}/{chosen[0]}"


def _requests(backend: str, arch: str) -> list[Request]:
    return [
        Request(backend, i.op, i.variant, shape, dtype, -1, arch)
        for i in kernelzoo.implementations(backend)
        for shape, dtype in PROBLEMS
        if dtype in i.operation.dtypes
    ]


def answers(requests: list[Request]) -> Answers:
    found = {}
    for request, answer in zip(requests, inspect.ask_child(requests) if requests else (), strict=True):
        if isinstance(answer, UnsupportedProblemError):
            assert request.variant != "auto", answer
        elif isinstance(answer, kernelzoo.KernelZooError):
            raise answer
        else:
            found[request.id, request.dtype] = answer
    return found


def assert_launch(kernel: Kernel, id: str) -> None:
    """Every field that all languages fill says something, and what can be told from another field agrees with it."""
    backend = id.partition("/")[0]
    device = ARCHITECTURES[kernel.arch]
    assert kernel.device == str(device)
    assert kernel.source_file is not None and kernel.source_file.startswith(f"kernelzoo/kernels/{backend}/")
    file, _, line = kernel.source_file.partition(":")
    lines = (Path(kernelzoo.__file__).parents[1] / file).read_text(encoding="utf-8").splitlines()
    assert kernel.source is not None and lines[int(line) - 1].strip() == kernel.source.splitlines()[0]
    assert kernel.registers is not None and kernel.shared_bytes is not None and kernel.local_bytes is not None
    assert kernel.grid is not None and kernel.block is not None and kernel.cluster is not None
    assert kernel.grid[0] >= 1 and kernel.grid[0] % kernel.cluster[0] == 0
    assert kernel.occupancy == occupancy(device, kernel.registers, kernel.block[0], kernel.shared_bytes)
    assert kernel.occupancy.blocks >= 1
    if kernel.cooperative:
        assert kernel.grid[0] <= device.multiprocessors * kernel.occupancy.blocks
    chooses = kernelzoo.implementation(id).chooses
    assert kernel.implementation == id or (chooses and not kernel.implementation.endswith("/auto"))


def assert_same_as_sibling(found: Answers, op: str, backend: str) -> None:
    """``auto`` shows the kernels of the one sibling that it hands a problem on to; a form alone has none."""
    forms = {i.variant for i in kernelzoo.implementations(backend, op)}
    assert "auto" in forms or len(forms) == 1
    shown = [dtype for id, dtype in found if id == f"{backend}/{op}/auto"]
    assert bool(shown) == ("auto" in forms)
    for dtype in shown:
        kernels = found[f"{backend}/{op}/auto", dtype]
        (sibling,) = {kernel.implementation for kernel in kernels}
        assert kernels == found[sibling, dtype]
