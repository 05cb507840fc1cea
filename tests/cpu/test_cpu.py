"""What is the cpu backend's own: its bit-level conversions, sums and threads. The rest is conformance."""

import gc
import os
import weakref
from collections.abc import Iterator

import numba
import numpy as np
import pytest
import torch
import warm
from one_input import MIN, SOFTMAX

import kernelzoo
from kernelzoo import measure
from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.cpu import device_functions as dev  # need Numba
from kernelzoo.kernels.cpu import launch as launching
from kernelzoo.kernels.cpu.softmax import fused
from kernelzoo.operations import OPERATIONS

pytestmark = pytest.mark.slow

HALVES = pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
SOFTMAX_VARIANTS = pytest.mark.parametrize("variant", ["fused", "online"])


from_half = numba.njit(dev._from_half)


def widen(element, like):
    return dev.widen(element)


def widen_by_integers(element, like):
    return from_half(element)


def halves(*functions):
    """Each half by what the host's kernels take here, and float16 as where the processor can't convert it too."""
    taken, integers = functions
    cases = [(torch.float16, taken), (torch.bfloat16, taken), (torch.float16, integers)]
    return pytest.mark.parametrize(("dtype", "function"), cases, ids=["float16", "bfloat16", "float16-by-integers"])


def convert_all(function, values, out):
    """One function over all elements."""
    compiled = numba.njit(function)

    @numba.njit
    def run(values, out):
        for i in range(values.size):
            out[i] = compiled(values[i], out[i])

    run(values, out)


def rounded(value, like):
    return dev.round_like(value, like)


def exponential(value, like):
    return dev.exponential(value)


def every_pattern(dtype: torch.dtype) -> torch.Tensor:
    return torch.arange(65536, dtype=torch.int32).to(torch.uint16).view(dtype)


def storage(x: torch.Tensor) -> np.ndarray:
    return x.view(launching.ELEMENTS.get(x.dtype, x.dtype)).numpy()


@halves(widen, widen_by_integers)
def test_every_half_widens_exactly(dtype, function):
    x = every_pattern(dtype)
    wide = torch.empty(x.shape)
    convert_all(function, storage(x), wide.numpy())
    torch.testing.assert_close(wide, x.float(), rtol=0, atol=0, equal_nan=True)
    numbers = ~x.isnan()
    assert torch.equal(wide.signbit()[numbers], x.signbit()[numbers])


@pytest.mark.parametrize(("dtype", "lowest"), [(torch.float32, -87.336), (torch.float64, -708.39)], ids=str)
def test_exponential_is_within_three_units_of_roundoff(dtype, lowest):
    wide, tiny = torch.linspace(lowest, 8, 200_001, dtype=torch.float64), -torch.logspace(-30, 1, 9999)
    t = torch.cat([wide.to(dtype), tiny.to(dtype)])
    actual = torch.empty_like(t)
    convert_all(exponential, t.numpy(), actual.numpy())
    exact = np.exp(t.numpy().astype(np.longdouble))
    error = np.abs(actual.numpy() / exact - 1).max()
    assert error <= 3 * torch.finfo(dtype).eps / 2


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_exponential_of_special_values(dtype):
    t = torch.tensor([0.0, -0.0, -float("inf"), torch.finfo(dtype).min, -1e4, float("nan"), -float("nan")], dtype=dtype)
    actual = torch.empty_like(t)
    convert_all(exponential, t.numpy(), actual.numpy())
    expected = torch.tensor([1, 1, 0, 0, 0, float("nan"), float("nan")], dtype=dtype)
    torch.testing.assert_close(actual, expected, rtol=0, atol=0, equal_nan=True)


@HALVES
@pytest.mark.parametrize("variant", ["rows", "split"])
def test_minimum_orders_every_half(dtype, variant):
    x = every_pattern(dtype)
    backend = kernelzoo.get("cpu")
    for shift in (1, 7, 1024, 31744, 32768, 40000):
        pairs = torch.stack([x, x.roll(shift)])
        MIN.assert_close(backend.min(pairs, 0, variant=variant), pairs, 0)
        MIN.assert_close(backend.min(pairs.T, 1, variant=variant), pairs.T, 1)
    rows = x.view(256, 256)[:, torch.randperm(256)]
    MIN.assert_close(backend.min(rows, 1, variant=variant), rows, 1)


@SOFTMAX_VARIANTS
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("below", [0.1, 0.37, 5.01])
def test_equal_terms_do_not_add_up_their_rounding(variant, dtype, below):
    """Where all terms but one are equal, each addition in turn errs the same way."""
    for n in (1024, 1 << 20):
        x = torch.full((1, n), -below, dtype=dtype)
        x[0, -1] = 0
        SOFTMAX.assert_close(kernelzoo.get("cpu").softmax(x, variant=variant), x)
    columns = torch.full((9000, 16), -below, dtype=dtype)
    columns[-1] = 0
    SOFTMAX.assert_close(kernelzoo.get("cpu").softmax(columns, 0, variant=variant), columns, 0)


@SOFTMAX_VARIANTS
def test_slowly_growing_maximum(variant):
    """Each block raises the maximum by a little: rescaling for each would round the sum a thousand times."""
    x = torch.linspace(0, 30, 1 << 20, dtype=torch.float64).expand(2, -1)
    SOFTMAX.assert_close(kernelzoo.get("cpu").softmax(x, variant=variant), x)
    SOFTMAX.assert_close(kernelzoo.get("cpu").softmax(x[:, ::64].T, 0, variant=variant), x[:, ::64].T, 0)


@pytest.mark.parametrize("id", ["softmax/fused", "softmax/online", "softmax_backward/auto"])
def test_same_bits_on_one_thread_and_on_all(id):
    op, _, variant = id.partition("/")
    method, threads = getattr(kernelzoo.get("cpu"), op), numba.get_num_threads()
    inputs = torch.randn(2 if "backward" in op else 1, 67, 5003)
    for dim in (0, 1):
        parallel = method(*inputs, dim, variant=variant)
        numba.set_num_threads(1)
        try:
            serial = method(*inputs, dim, variant=variant)
        finally:
            numba.set_num_threads(threads)
        assert torch.equal(parallel.view(torch.int32), serial.view(torch.int32))


def test_fused_refuses_rows_that_no_cache_holds():
    x = torch.zeros(1).expand(fused.CACHED + 1)
    with pytest.raises(UnsupportedProblemError, match=r"softmax/fused can't take .* up to 4194304 .*'auto'"):
        kernelzoo.get("cpu").softmax(x, variant="fused")
    SOFTMAX.assert_close(kernelzoo.get("cpu").softmax(x), x)


def test_elements_off_their_natural_alignment():
    x = torch.frombuffer(bytearray(4 * 300 + 1), dtype=torch.float32, offset=1).view(3, 100)
    x.copy_(torch.randn(3, 100))
    SOFTMAX.assert_close(kernelzoo.get("cpu").softmax(x), x)
    MIN.assert_close(kernelzoo.get("cpu").min(x), x)


THREADS = """
import threading
import torch
import kernelzoo
from kernelzoo.operations import OPERATIONS

x = torch.randn(512, 1024)
failures = []
gate = threading.Barrier(16)

def work(dim):
    try:
        gate.wait()
        for _ in range(5):
            OPERATIONS["min"].assert_close(kernelzoo.get("cpu").min(x, dim), x, dim)
    except BaseException as error:
        failures.append(error)

threads = [threading.Thread(target=work, args=(i % 2,)) for i in range(16)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert not failures, failures
"""


@pytest.mark.parametrize("layer", ["workqueue", "default"])
def test_sixteen_threads_first_call_included(layer, tmp_path):
    """In a process of its own, with nothing compiled: the workqueue layer ends a process entered twice at once."""
    environment = {**os.environ, "NUMBA_THREADING_LAYER": layer, "NUMBA_CACHE_DIR": str(tmp_path)}
    status, _, err = warm.run(["-c", THREADS], str(tmp_path), environment)
    assert status == 0, err


def test_bits_do_not_depend_on_where_memory_lies() -> None:
    """Temporaries move with every result that is kept: a loop that adds in another order near its input shows here."""
    x = torch.randn(3, 5, 7, 33, generator=torch.Generator().manual_seed(0))[:, 1:4, ::2]
    for variant in ("fused", "online"):
        results = [kernelzoo.get("cpu").softmax(x, variant=variant) for _ in range(1000)]
        assert all(torch.equal(result, results[0]) for result in results), variant


@halves(rounded, dev._to_half)
def test_every_number_rounds_to_the_nearest_half(dtype, function):
    exact = every_pattern(dtype).float()
    exact = exact[exact.isfinite()].unique()
    middles = (exact[1:].double() + exact[:-1].double()).div_(2).float()
    ends = torch.tensor([0.0, -0.0, 65519.99, 65520.0, 1e30, 3.4e38, float("inf"), float("nan")])
    values = torch.cat([exact, middles, *(middles.nextafter(torch.tensor(end)) for end in (1e38, -1e38)), ends, -ends])
    found = torch.empty(values.shape, dtype=dtype)
    convert_all(function, values.numpy(), storage(found))
    torch.testing.assert_close(found, values.to(dtype), rtol=0, atol=0, equal_nan=True)
    numbers = ~values.isnan()
    assert torch.equal(found.signbit()[numbers], values.signbit()[numbers])


def test_gradients_where_tensors_lie_in_different_ways():
    """Rows along in one tensor and across in another, several tiles of rows side by side, more than a block of each."""
    backend, generator = kernelzoo.get("cpu"), torch.Generator().manual_seed(0)
    for dtype in (torch.float32, torch.bfloat16):
        grad, y, out = (torch.rand(1301, 1100, generator=generator).to(dtype) for _ in range(3))
        turned = y.T.contiguous()
        for a, b, to in ((grad.T, turned, out.T), (grad, turned.T, out), (grad.T, y.T, out.T), (grad.T, y.T, None)):
            for dim in (0, 1):
                result = backend.softmax_backward(a, b, dim, out=to)
                OPERATIONS["softmax_backward"].assert_close(result, (a, b), dim)
                x = (b * 8).round()
                inputs = x, x.amin(dim), a.select(dim, 7)
                OPERATIONS["min_backward"].assert_close(backend.min_backward(*inputs, dim, out=to), inputs, dim)


def test_an_infinite_sum_is_no_nan():
    """What a sum in two parts rounds off is no number, where the sum is infinite."""
    grad, y = torch.ones(3, 600), torch.full((3, 600), 0.5)
    grad[1, 7] = float("inf")
    for dim in (0, 1):
        a, b = (grad, y) if dim else (grad.T.contiguous(), y.T.contiguous())
        result = kernelzoo.get("cpu").softmax_backward(a, b, dim)
        result = result if dim else result.T
        assert result[1, 7].isnan() and (result[1, 8:] == -float("inf")).all() and result[2].isfinite().all()


@pytest.mark.parametrize("eps", [0.0, 1e-50])
def test_norms_of_nothing_are_no_numbers_as_torch_s(eps):
    """A division by zero raises nothing."""
    cpu, weight, grad = kernelzoo.get("cpu"), torch.ones(8), torch.randn(3, 8)
    for value in (0.0, 1e-25, 3.0):
        x = torch.full((3, 8), value, requires_grad=True)
        right = torch.nn.functional.rms_norm(x, (8,), weight, eps)
        for found in (cpu.rms_norm(x, weight, eps=eps), cpu.add_rms_norm(x, torch.zeros(3, 8), weight, eps=eps)[0]):
            torch.testing.assert_close(found, right, equal_nan=True)
        if value != 1e-25:  # torch's gradient is NaN and infinities there
            found, _ = cpu.rms_norm_backward(x.detach(), weight, grad, eps=eps)
            torch.testing.assert_close(found, torch.autograd.grad(right, x, grad)[0], equal_nan=True)
        right = torch.nn.functional.layer_norm(x, (8,), weight, weight, eps)
        torch.testing.assert_close(cpu.layer_norm(x, weight, weight, eps=eps), right, equal_nan=True)
        found, *_ = cpu.layer_norm_backward(x.detach(), weight, grad, eps=eps)
        torch.testing.assert_close(found, torch.autograd.grad(right, x, grad)[0], equal_nan=True)


@pytest.fixture
def uncollected() -> Iterator[None]:
    """Nothing is freed that is part of a cycle."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("dim", [-1, 0])
@pytest.mark.parametrize(
    "id", ["min/rows", "min/split", "softmax/fused", "softmax/online", "softmax_backward/fused", "min_backward/fused"]
)
def test_a_launch_runs_on_other_addresses_and_holds_no_memory(id: str, dim: int, uncollected: None) -> None:
    """So it can be kept for a layout, and the tensors that it was bound to are freed when its caller drops them."""
    problem = measure.Problem(id.split("/")[0], (40, 70_000) if dim == -1 else (4000, 24), "float32", dim)
    held = [tensor.numpy() for tensor in problem.inputs(torch.Generator().manual_seed(1))]
    refs = [weakref.ref(array) for array in held]
    inputs = [torch.from_numpy(array) for array in held]
    (out,) = problem.operation.allocate(problem.arguments(inputs))
    launch = problem.launch(kernelzoo.implementation(f"cpu/{id}"), inputs, [out])
    at = launch.at
    del inputs, held, launch
    assert [ref() for ref in refs] == [None] * len(refs)
    others = problem.inputs(torch.Generator().manual_seed(2))
    expected = torch.full_like(out, -1)
    problem.launch(kernelzoo.implementation(f"cpu/{id}"), others, [expected])()
    out.fill_(-2)
    result = torch.full_like(out, -1)
    at(*(tensor.data_ptr() for tensor in (*others, result)))
    assert torch.equal(result, expected) and (out == -2).all() and not (expected == -1).all()


def test_rows_are_counted_on_where_a_task_begins_and_every_chunk_ends() -> None:
    """In whatever order rows, their groups and their chunks follow one another in memory."""
    for shape, order in (((7, 300, 5), (0, 1, 2)), ((5, 300, 7), (2, 1, 0)), ((3, 90_001, 2), (0, 2, 1))):
        x = torch.randn([shape[d] for d in order]).permute([order.index(d) for d in range(3)])
        for variant in ("rows", "split"):
            assert torch.equal(kernelzoo.get("cpu").min(x, 1, variant=variant), x.amin(1)), (shape, order, variant)
