"""The host's time to submit one call on a GPU: ``pytest bench/test_submit.py --benchmark-only``.

A small problem waits for the host, where that takes longer to submit a kernel than the device takes to run it. Measured
on (64, 64) float32, with no synchronisation in the timed region, the ways of calling in turns:

    torch/softmax/eager    torch.softmax(x, -1), or torch.amin: the yardstick
    B/softmax/call         kernelzoo.get(B).softmax(x), the output's allocation included
    B/softmax/bound        the launch of a problem already bound
    B/softmax/language     an empty kernel of two tensors and a number, launched again and again the fastest way that
                           the language's own documentation shows; in Helion, which makes none, one that writes a
                           number a row
    B/softmax/gradient     the call with an x that requires a gradient; torch/softmax/gradient is torch's own
    B/softmax/step         that, and the gradient of x, by torch.autograd.grad; torch/softmax/step likewise
    B/softmax/array        the call with an array of CuPy's
"""

import functools
import importlib.util
import random
import time
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

import kernelzoo
from kernelzoo import measure, registry
from kernelzoo.measure import record
from kernelzoo.measure.measurement import Measurement
from kernelzoo.measure.plugin import SampleReplayTimer
from kernelzoo.operations import MAPPED, OPERATIONS

CALLS = 200  # in one sample: fewer than the 1024 that a stream queues
SAMPLES = 25


def triton_own(x: torch.Tensor, out: torch.Tensor) -> Callable[[], Any]:
    """Compiled by ``warmup``, and what that returns launched: "Fused Softmax", Triton's tutorials,
    https://triton-lang.org/main/getting-started/tutorials/02-fused-softmax.html."""
    import triton

    @triton.jit
    def empty(x, out, n):
        pass

    compiled = empty.warmup(x, out, 64, grid=(1,))
    return lambda: compiled[1, 1, 1](x, out, 64)


def gluon_own(x: torch.Tensor, out: torch.Tensor) -> Callable[[], Any]:
    """As Triton's, whose launcher it is: "Introduction to Gluon",
    https://github.com/triton-lang/triton/blob/main/python/tutorials/gluon/01-intro.py."""
    from triton.experimental import gluon

    @gluon.jit
    def empty(x, out, n):
        pass

    compiled = empty.warmup(x, out, 64, grid=(1,))
    return lambda: compiled[1, 1, 1](x, out, 64)


def cupy_own(x: torch.Tensor, out: torch.Tensor) -> Callable[[], Any]:
    """A raw kernel on pointers, on torch's stream: "User-Defined Kernels" and "Interoperability", CuPy's user guide,
    https://docs.cupy.dev/en/stable/user_guide/kernel.html."""
    import cupy

    empty = cupy.RawKernel('extern "C" __global__ void empty(const float* x, float* out, long long n) {}', "empty")
    arguments = (x.data_ptr(), out.data_ptr(), 64)

    def call() -> None:
        empty((1,), (64,), arguments)

    def on_stream() -> None:
        with stream:
            call()

    current = torch.cuda.current_stream().cuda_stream
    stream = cupy.cuda.ExternalStream(current)
    return on_stream if current else call  # which is CuPy's own stream, too


def numba_own(x: torch.Tensor, out: torch.Tensor) -> Callable[[], Any]:
    """Configured once, on Numba's arrays over torch's memory: "Kernel invocation", "CUDA Array Interface", Numba CUDA,
    https://nvidia.github.io/numba-cuda/user/kernels.html."""
    from numba import cuda

    @cuda.jit
    def empty(x, out, n):
        pass

    current = torch.cuda.current_stream().cuda_stream
    stream = cuda.external_stream(current) if current else cuda.default_stream()
    configured, arrays = empty[1, 64, stream], (cuda.as_cuda_array(x), cuda.as_cuda_array(out))
    return lambda: configured(*arrays, 64)


def cutile_own(x: torch.Tensor, out: torch.Tensor) -> Callable[[], Any]:
    """``ct.launch``, the one way that there is: "Quickstart", cuTile Python,
    https://docs.nvidia.com/cuda/cutile-python/quickstart.html."""
    from cuda import tile as ct

    @ct.kernel
    def empty(x, out, n):
        pass

    return lambda: ct.launch(torch.cuda.current_stream(), (1,), empty, (x, out, 64))


def cute_own(x: torch.Tensor, out: torch.Tensor) -> Callable[[], Any]:
    """Compiled with TVM FFI, which takes torch's tensors and stream as they are: "TVM FFI Compilation", CuTe DSL,
    https://docs.nvidia.com/cutlass/4.8.0/media/docs/pythonDSL/guides/tvm_ffi_compilation.html. Without the package
    apache-tvm-ffi, by CuTe's own launcher, and the row says so."""
    from cuda.bindings.driver import CUstream
    from cutlass import Int32, cute
    from cutlass.cute.runtime import from_dlpack

    @cute.kernel
    def empty(x: cute.Tensor, out: cute.Tensor, n: Int32):
        pass

    @cute.jit
    def host(x: cute.Tensor, out: cute.Tensor, n: Int32, stream: CUstream):
        empty(x, out, n).launch(grid=(1, 1, 1), block=(64, 1, 1), stream=stream)

    if importlib.util.find_spec("tvm_ffi"):
        stream = cute.runtime.make_fake_stream(use_tvm_ffi_env_stream=True)
        tensors = (from_dlpack(x, enable_tvm_ffi=True), from_dlpack(out, enable_tvm_ffi=True))
        fast = cute.compile(host, *tensors, Int32(64), stream, options="--enable-tvm-ffi")
        return lambda: fast(x, out, 64)

    def arguments() -> tuple[Any, ...]:
        return from_dlpack(x), from_dlpack(out), 64, CUstream(torch.cuda.current_stream().cuda_stream)

    REMARKS["cute"] = "without TVM FFI: pip install apache-tvm-ffi"
    compiled = cute.compile(host, *arguments())
    return lambda: compiled(*arguments())


def helion_own(x: torch.Tensor, out: torch.Tensor) -> Callable[[], Any]:
    """Bound and compiled for a configuration, and what that returns called: "Advanced Manual Deployment", Helion,
    https://helionlang.com/deployment_autotuning.html."""
    global hl  # Helion takes no closures
    import helion
    import helion.language as hl

    config = helion.Config(block_sizes=[64], num_warps=1)

    @helion.kernel(config=config, static_shapes=False)
    def least(x: torch.Tensor, out: torch.Tensor, n: int):  # an empty one it refuses: this writes a number a row
        for rows in hl.tile(x.size(0)):
            out[rows, 0] = n

    arguments = (x, out.view(x.size(0), -1), 64)
    compiled = least.bind(arguments).compile_config(config)
    return lambda: compiled(*arguments)


REMARKS: dict[str, str] = {}
"""What is not the fastest way, by backend, and what it lacks."""
OWN = {
    "triton": triton_own,
    "gluon": gluon_own,
    "cutile": cutile_own,
    "cute": cute_own,
    "helion": helion_own,
    "cupy": cupy_own,
    "numba": numba_own,
}
"""The fastest launch that each language documents, by backend."""


TORCHS: dict[str, Callable[..., Any]] = {"softmax": torch.softmax, "min": torch.amin}
"""What a torch user calls for an operation."""


def ways(op: str) -> tuple[dict[str, Callable[[], Any]], dict[str, str]]:
    """Every way of calling that works here, and why the others don't."""
    x = torch.randn(64, 64, device="cuda")
    operation = OPERATIONS[op]
    (out,) = operation.allocate(operation.arguments((x,)))
    found: dict[str, Callable[[], Any]] = {registry.baseline(op): lambda: TORCHS[op](x, -1)}
    refused = {}

    def whole(name: str) -> Callable[[], Any]:
        return lambda: getattr(kernelzoo.get(name), op)(x)

    def bound(name: str) -> Callable[[], Any]:
        return kernelzoo.implementation(f"{name}/{op}/auto").launch(x, out=out)

    followed, seed = x.detach().requires_grad_(), torch.randn_like(out)

    def gradient(call: Callable[..., torch.Tensor]) -> Callable[[], Any]:
        return lambda: call(followed, -1)

    def step(call: Callable[..., torch.Tensor]) -> Callable[[], Any]:
        return lambda: torch.autograd.grad(call(followed, -1), followed, seed)

    def array(name: str) -> Callable[[], Any]:
        import cupy

        method, own = getattr(kernelzoo.get(name), op), cupy.from_dlpack(x)
        return lambda: method(own)

    found |= {f"torch/{op}/gradient": gradient(TORCHS[op]), f"torch/{op}/step": step(TORCHS[op])}
    makers: dict[str, Callable[[str], Callable[[], Any]]] = {
        "call": whole,
        "bound": bound,
        "language": lambda name: OWN[name](x, out),
        "gradient": lambda name: gradient(getattr(kernelzoo.get(name), op)),
        "step": lambda name: step(getattr(kernelzoo.get(name), op)),
        "array": array,
    }
    for name in OWN:
        for way, make in makers.items():
            id = f"{name}/{op}/{way}"
            try:
                with warnings.catch_warnings():  # of Numba, that one block leaves the device idle
                    warnings.simplefilter("ignore")
                    call = make(name)
                    call()
            except Exception as error:  # a language that is broken here costs its own row and no other
                refused[id] = f"{type(error).__name__}: {error}"
            else:
                found[id] = call
    return found, refused


@functools.cache
def measured(op: str) -> tuple[dict[str, list[float]], dict[str, str]]:
    """Seconds per call of each way, in shuffled turns; and why some could not be measured."""
    calls, refused = ways(op)
    samples: dict[str, list[float]] = {way: [] for way in calls}
    for call in calls.values():
        for _ in range(CALLS):
            call()
    order = list(calls)
    for _ in range(SAMPLES):
        random.shuffle(order)
        for way in order:
            call = calls[way]
            torch.cuda.synchronize()
            started = time.perf_counter()
            for _ in range(CALLS):
                call()
            samples[way].append((time.perf_counter() - started) / CALLS)
    torch.cuda.synchronize()
    return samples, refused


REPLAY = SampleReplayTimer()
TORCHS_WAYS = [registry.baseline("{}"), "torch/{}/gradient", "torch/{}/step"]
OUR_WAYS = ("call", "bound", "language", "gradient", "step", "array")
WAYS = [*TORCHS_WAYS, *(f"{name}/{{}}/{way}" for name in OWN for way in OUR_WAYS)]


def told(id: str, samples: list[float], device: str = "cuda") -> dict[str, Any]:
    """What a result says of itself beside its samples, as any other does; of the cache nothing, since the host waits
    for no data."""
    backend, op, variant = id.split("/")
    remark = f", {REMARKS[backend]}" if variant == "language" and backend in REMARKS else ""
    measured = Measurement(
        registry.Implementation(backend, op, variant, summary=""),
        measure.Problem(op, (64, 64), "float32"),
        clock="submit",
        clock_detail=f"time.perf_counter around calls that are not waited for{remark}",
        rounds=len(samples),
        samples=samples,
    )
    info = record.extra_info(measured, device, None, "submit")
    del info["cache"]
    return info


@pytest.mark.skipif(not torch.cuda.is_available(), reason="submitting is a matter of GPUs, and there is none")
@pytest.mark.benchmark(timer=REPLAY)
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.format("OP"))
@pytest.mark.parametrize("op", MAPPED)
def test_submit(benchmark: Any, op: str, way: str) -> None:
    id = way.format(op)
    samples, refused = measured(op)
    if id in refused:
        pytest.skip(refused[id])
    REPLAY.now, REPLAY.samples = 0.0, list(samples[id])
    benchmark.group = f"submit-{op}"
    benchmark.extra_info.update(told(id, samples[id]))
    benchmark.pedantic(REPLAY.step, rounds=SAMPLES, iterations=1)
