"""Arrays of other libraries: in and out, in place, on their own stream; and the arguments that their users type."""

import importlib
import os
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from running_here import backends

import kernelzoo
from kernelzoo import AxisError, DeviceError, EmptyReductionError, InputTypeError, OutputError

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # JAX takes three quarters of a GPU otherwise
os.environ.setdefault("JAX_PLATFORMS", "" if torch.cuda.is_available() else "cpu")

pytestmark = pytest.mark.xdist_group("arrays")  # whose process imports JAX
DEVICES = backends()
HOST = [name for name, device in DEVICES.items() if device == "cpu" and not kernelzoo.get(name).emulator]
CUDA = [name for name, device in DEVICES.items() if device == "cuda"]
ON_GPU = CUDA or [pytest.param("", marks=pytest.mark.skip(reason="there is no GPU here, or no language for it"))]
RIGHT = {"softmax": lambda x: torch.softmax(x, -1), "min": lambda x: torch.amin(x, -1)}


def imported(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        pytest.skip(f"{name} is not installed")


def values(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(sum(shape)).standard_normal(shape, dtype=np.float32)


def jax_array(x: np.ndarray[Any, Any], device: str) -> Any:
    jax = imported("jax")
    try:
        place = jax.devices("gpu" if device == "cuda" else "cpu")[0]
    except RuntimeError as error:
        pytest.skip(f"JAX has no {device}: {error}")
    return jax.device_put(x, place)


MAKERS: dict[str, Callable[[np.ndarray[Any, Any], str], Any]] = {
    "torch": lambda x, device: torch.tensor(x, device=device),
    "numpy": lambda x, device: x,
    "jax": jax_array,
    "cupy": lambda x, device: imported("cupy").asarray(x),
    "numba": lambda x, device: imported("numba.cuda").to_device(x),
}
PAIRS = [(backend, library) for backend in HOST for library in ("numpy", "jax")]
PAIRS += [(backend, library) for backend in CUDA for library in ("cupy", "numba", "jax")]


def as_numpy(x: Any) -> np.ndarray[Any, Any]:
    if isinstance(x, torch.Tensor):
        return x.cpu().numpy()
    if hasattr(x, "copy_to_host"):
        return x.copy_to_host()  # type: ignore[no-any-return]
    return x.get() if hasattr(x, "get") else np.asarray(x)  # type: ignore[no-any-return]


@pytest.mark.parametrize(("backend", "library"), PAIRS, ids=str)
@pytest.mark.parametrize("op", RIGHT)
@pytest.mark.parametrize("shape", [(3, 5), (64, 781), (7,), (2, 0, 4), (0, 3), (4, 262144)], ids=str)
def test_arrays_in_arrays_out(backend: str, library: str, op: str, shape: tuple[int, ...]) -> None:
    """Twice, the second time by a launch that is kept; with the bits of a call on a tensor."""
    given = values(*shape)
    x = MAKERS[library](given, DEVICES[backend])
    method = getattr(kernelzoo.get(backend), op)
    tensor = torch.tensor(given, device=DEVICES[backend])
    for _ in range(3):
        found = method(x)
        right = method(tensor)
        assert type(found) is type(x)
        assert tuple(found.shape) == tuple(right.shape) and str(found.dtype) == str(x.dtype)
        assert np.array_equal(as_numpy(found), right.cpu().numpy())
    assert np.array_equal(as_numpy(x), given)
    torch.testing.assert_close(right, RIGHT[op](tensor))


@pytest.mark.parametrize(("backend", "library"), PAIRS, ids=str)
def test_the_function_takes_the_best_backend(backend: str, library: str) -> None:
    x = MAKERS[library](values(4, 33), DEVICES[backend])
    right = torch.softmax(torch.tensor(values(4, 33)), 0).numpy()
    np.testing.assert_allclose(as_numpy(kernelzoo.softmax(x, axis=0)), right, rtol=1e-5)
    assert type(kernelzoo.min(x)) is type(x)


@pytest.mark.parametrize("backend", HOST)
def test_numpy_in_place(backend: str) -> None:
    """Views of any strides, read-only memory, every dtype; out is written and returned."""
    owner, whole = kernelzoo.get(backend), values(6, 10, 8)
    for view in (whole[:, ::2], whole.T, whole[1:5, 3], np.broadcast_to(whole[0, 0], (5, 8))):
        before = view.copy()
        np.testing.assert_allclose(owner.softmax(view), torch.softmax(torch.tensor(before), -1).numpy(), rtol=1e-5)
        assert np.array_equal(owner.min(view, axis=0), before.min(0))
        assert np.array_equal(view, before)
    for dtype in ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float64"):
        x = (values(4, 9) * 3).astype(dtype)
        x.setflags(write=False)
        found = owner.min(x)
        assert found.dtype == x.dtype and np.array_equal(found, x.min(-1))
    x, out = values(4, 9), np.empty((4, 9), np.float32)
    assert owner.softmax(x, out=out) is out and np.array_equal(out, owner.softmax(x))
    assert owner.min(np.array(3.0)) == 3.0


def odd_layouts(library: str, device: str) -> dict[str, Any]:
    """Arrays that no tensor can lie as, which are copied."""
    whole = values(6, 10, 8)
    reversed_ = {
        "first": np.s_[::-1],
        "all": np.s_[::-1, ::-2, ::-3],
        "last": np.s_[2, :, ::-1],
        "none": np.s_[3:3, ::-1],
    }
    if library == "dlpack":
        return {name: Other(whole[at]) for name, at in reversed_.items()}
    on_it = MAKERS[library](whole, device)
    found = {name: on_it[at] for name, at in reversed_.items()}
    if library == "numpy":
        record = np.zeros((4, 9), "u1, f4")  # whose strides are no multiple of four
        record["f1"] = values(4, 9)
        found |= {"big-endian": whole.astype(">f4"), "one": np.array(3.0, ">f8"), "record": record["f1"]}
    return found


COPIED = [(backend, library) for backend in HOST for library in ("numpy", "dlpack")]
COPIED += [(backend, library) for backend in CUDA for library in ("cupy", "numba")]


@pytest.mark.parametrize(("backend", "library"), COPIED, ids=str)
def test_layouts_that_no_tensor_has_are_copied(backend: str, library: str) -> None:
    """Each time, since what is kept for the layout of the copy is not for the array's own."""
    owner = kernelzoo.get(backend)
    for name, x in odd_layouts(library, DEVICES[backend]).items():
        try:
            given = x._x if isinstance(x, Other) else as_numpy(x)
        except NotImplementedError:  # numba-cuda copies no array of negative strides to the host
            continue
        native = given.astype(given.dtype.newbyteorder("="))
        before = given.copy()
        for _ in range(3):
            found = as_numpy(owner.softmax(x))
            np.testing.assert_allclose(found, torch.softmax(torch.tensor(native.copy()), -1), rtol=1e-5, err_msg=name)
            assert found.dtype == native.dtype and found.dtype.isnative
        if given.size:
            assert np.array_equal(as_numpy(owner.min(x, axis=None)), given.min())
        assert np.array_equal(given, before)


def test_float8_of_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A result of it is one of ml_dtypes, which has to be there."""
    dtype, x = imported("ml_dtypes").float8_e4m3fn, np.linspace(-2, 2, 15, dtype=np.float32).reshape(3, 5)
    values, scale = kernelzoo.quantize_rows(x)
    right, scales = kernelzoo.quantize_rows(torch.tensor(x))
    assert values.dtype == dtype and np.array_equal(values.view(np.uint8), right.view(torch.uint8).numpy())
    assert np.array_equal(scale, scales.numpy())
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    with pytest.raises(InputTypeError, match="pip install ml_dtypes"):
        kernelzoo.quantize_rows(x)


@pytest.mark.parametrize("backend", HOST)
def test_bfloat16_of_numpy(backend: str) -> None:
    dtype = imported("ml_dtypes").bfloat16
    x = values(3, 50).astype(dtype)
    found = kernelzoo.get(backend).softmax(x)
    right = kernelzoo.get(backend).softmax(torch.tensor(x.astype(np.float32)).bfloat16())
    assert found.dtype == dtype and np.array_equal(found.astype(np.float32), right.float().numpy())


class Other:
    """An array of a library that speaks DLPack and no array API."""

    def __init__(self, x: Any) -> None:
        self._x = x

    def __dlpack__(self, **named: Any) -> Any:
        return self._x.__dlpack__(**named)

    def __dlpack_device__(self) -> Any:
        return self._x.__dlpack_device__()


@pytest.mark.parametrize("backend", DEVICES)
def test_any_library_with_dlpack(backend: str) -> None:
    x = torch.tensor(values(3, 50), device=DEVICES[backend])
    owner = kernelzoo.get(backend)
    found = owner.softmax(Other(x))
    assert isinstance(found, torch.Tensor) and torch.equal(found, owner.softmax(x))
    assert torch.equal(kernelzoo.min(Other(x)), x.amin(-1))


@pytest.mark.parametrize("backend", ON_GPU)
def test_any_library_with_the_cuda_array_interface(backend: str) -> None:
    class Interfaced:
        def __init__(self, x: torch.Tensor, read_only: bool) -> None:
            interface = x.__cuda_array_interface__
            self._x = x
            self.__cuda_array_interface__ = {**interface, "data": (interface["data"][0], read_only)}

    # Looked up by type, as a property would be.
    Interfaced.__cuda_array_interface__ = {}  # type: ignore[attr-defined]
    x = torch.tensor(values(3, 50), device="cuda")
    owner = kernelzoo.get(backend)
    for read_only in (False, True):
        assert torch.equal(owner.softmax(Interfaced(x, read_only)), owner.softmax(x))
    with pytest.raises(OutputError, match="read-only"):
        owner.softmax(Interfaced(x, False), out=Interfaced(torch.empty_like(x), True))


@pytest.mark.parametrize("backend", DEVICES)
def test_what_is_refused_by_name(backend: str) -> None:
    owner, x = kernelzoo.get(backend), values(3, 4)
    tensor = torch.tensor(x, device=DEVICES[backend])
    read_only = values(3, 4)
    read_only.setflags(write=False)
    for wrong, says in (
        ([1.0, 2.0], r"pass torch\.tensor\(x\)"),
        (3.0, r"pass torch\.tensor\(x\)"),
        (None, "__dlpack__"),
        (np.array(["a"]), "can't read"),
        (np.ma.array(x), "masked"),
        (x.astype(np.complex64), "complex64"),
    ):
        if "complex" not in says or DEVICES[backend] == "cpu":
            with pytest.raises(InputTypeError, match=says):
                owner.softmax(wrong)
    for mixed in ((x, tensor), (tensor, x), (tensor, [1.0])):
        with pytest.raises(InputTypeError, match="arrays of one library"):
            owner.softmax_backward(*mixed)
    with pytest.raises(OutputError, match=r"must be a dense torch\.Tensor"):
        owner.softmax(tensor, out=x)
    if "cpu" not in owner.devices:
        with pytest.raises(DeviceError, match=r"call kernelzoo\.softmax"):
            owner.softmax(x)
        return
    with pytest.raises(OutputError, match="read-only"):
        owner.softmax(x, out=read_only)
    with pytest.raises(OutputError, match=r"must be a numpy\.ndarray"):
        owner.softmax(x, out=tensor)
    with pytest.raises(OutputError, match="overlap"):
        owner.softmax(x, out=x)
    for unwritten in (np.empty((3, 4), np.float32)[::-1], np.empty((3, 4), ">f4")):
        with pytest.raises(OutputError, match=r"without out=, and assign the result to out\[\.\.\.\]"):
            owner.softmax(x, out=unwritten)
    with pytest.raises(EmptyReductionError):
        owner.min(np.empty((2, 0)))


@pytest.mark.parametrize("backend", HOST)
def test_jax_s_traces_and_outputs_are_refused(backend: str) -> None:
    jax, call = imported("jax"), kernelzoo.get(backend).softmax
    x = jax_array(values(3, 4), "cpu")
    for transform in (jax.jit, jax.vmap, jax.grad):
        for traced in (call, kernelzoo.softmax, lambda x: kernelzoo.softmax(x, dtype="float32")):
            with pytest.raises(InputTypeError, match=r"Tracer.*jax\.pure_callback"):
                transform(traced)(x)
    with pytest.raises(InputTypeError, match=r"jax\.pure_callback"):
        jax.jit(lambda x, y: kernelzoo.get(backend).softmax_backward(y, x))(x, x)
    with pytest.raises(OutputError, match="read-only"):
        call(x, out=x)


@pytest.mark.parametrize("backend", HOST)
def test_the_remedy_for_jax_s_traces(backend: str) -> None:
    jax, owner = imported("jax"), kernelzoo.get(backend)

    def callback(of: Callable[..., Any], *arrays: Any) -> Any:
        result = jax.ShapeDtypeStruct(arrays[0].shape, arrays[0].dtype)
        return jax.pure_callback(of, result, *arrays, vmap_method="expand_dims")

    def forward(x: Any) -> Any:
        y = softmax(x)
        return y, y

    softmax = jax.custom_vjp(lambda x: callback(owner.softmax, x))
    softmax.defvjp(forward, lambda y, grad: (callback(owner.softmax_backward, grad, y),))
    x = jax_array(values(3, 4), "cpu")
    for transform, right in ((jax.jit, owner.softmax(x)), (jax.vmap, owner.softmax(x))):
        np.testing.assert_array_equal(transform(softmax)(x), right)
    square = jax.grad(lambda x, of: (of(x) ** 2).sum())
    np.testing.assert_allclose(square(x, softmax), square(x, jax.nn.softmax), atol=1e-6)


def test_arrays_within_torch_compile_are_refused() -> None:
    with pytest.raises(Exception, match=r"from_dlpack|Observed exception|InputTypeError"):
        torch.compile(lambda: kernelzoo.get("torch").softmax(_X), fullgraph=True, backend="eager")()


_X = Other(torch.ones(2, 3))


@pytest.mark.parametrize("backend", DEVICES)
def test_two_inputs(backend: str) -> None:
    device, owner = DEVICES[backend], kernelzoo.get(backend)
    library = "numpy" if device == "cpu" else "cupy"
    grad, y = values(4, 33), torch.softmax(torch.tensor(values(4, 33)), -1).numpy()
    right = owner.softmax_backward(torch.tensor(grad, device=device), torch.tensor(y, device=device))
    for _ in range(2):
        found = owner.softmax_backward(MAKERS[library](grad, device), MAKERS[library](y, device), axis=-1)
        assert np.array_equal(as_numpy(found), right.cpu().numpy())


# --- Streams ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ON_GPU)
@pytest.mark.parametrize("blocking", [True, False])
def test_on_cupy_s_own_stream(backend: str, blocking: bool) -> None:
    """Ordered after what CuPy has in hand there, and before what follows."""
    cupy, call = imported("cupy"), kernelzoo.get(backend).softmax
    stream = cupy.cuda.Stream(non_blocking=not blocking)
    weights = cupy.random.standard_normal((2048, 2048), dtype=cupy.float32)
    x = cupy.asarray(values(300, 2048))
    call(x)
    torch.cuda.synchronize()
    with stream:
        for i in range(4):
            late = x.copy()
            for _ in range(20):
                late = late @ weights / 50  # a millisecond or so
            found = call(late)
            total = found.sum(1)
            stream.synchronize()
            np.testing.assert_allclose(total.get(), 1, rtol=1e-4)
            np.testing.assert_allclose(found.get(), torch.softmax(torch.tensor(late.get()), -1), rtol=1e-3, atol=1e-6)
            x = x + i


@pytest.mark.parametrize("backend", ON_GPU)
def test_the_default_stream_of_a_thread_is_refused(backend: str) -> None:
    cupy, call = imported("cupy"), kernelzoo.get(backend).softmax
    x = cupy.asarray(values(3, 4))
    call(x)
    with cupy.cuda.Stream.ptds, pytest.raises(DeviceError, match="default stream"):
        call(x)


@pytest.mark.parametrize("backend", ON_GPU)
def test_on_the_stream_that_numba_s_array_is_bound_to(backend: str) -> None:
    cuda, call = imported("numba.cuda"), kernelzoo.get(backend).softmax
    stream, x = cuda.stream(), values(2000, 4096)
    with torch.cuda.stream(torch.cuda.Stream()):  # torch's own current stream is not waited for
        for _ in range(4):
            late = cuda.to_device(x, stream=stream)
            found = call(late)
            stream.synchronize()
            np.testing.assert_allclose(as_numpy(found)[::97], torch.softmax(torch.tensor(x[::97]), -1), rtol=1e-5)
            x = x + 1


@pytest.mark.parametrize("backend", ON_GPU)
def test_jax_s_own_stream(backend: str) -> None:
    jax, call = imported("jax"), kernelzoo.get(backend).softmax
    x = jax_array(values(1000, 1000), "cuda")
    for _ in range(4):
        late = jax.jit(lambda x: jax.lax.fori_loop(0, 20, lambda _, y: jax.numpy.tanh(y @ y.T / 1000 + x), x))(x)
        found = call(late)
        total = found.sum(1)
        np.testing.assert_allclose(np.asarray(total), 1, rtol=1e-4)
        np.testing.assert_allclose(np.asarray(found), torch.softmax(torch.tensor(np.asarray(late)), -1), rtol=1e-3)
        x = x + 0.1


@pytest.mark.parametrize("backend", ON_GPU)
def test_memory_of_results_is_freed(backend: str) -> None:
    """Each side frees what it made: no result of a thousand is kept, and none is freed too early."""
    cupy, call = imported("cupy"), kernelzoo.get(backend).softmax
    x = cupy.asarray(values(64, 1000))
    right = call(x).get()
    before = torch.cuda.memory_allocated(), cupy.get_default_memory_pool().used_bytes()
    kept = [call(x) for _ in range(8)]
    for _ in range(1000):
        call(x)
    assert all(np.array_equal(found.get(), right) for found in kept)
    del kept
    after = torch.cuda.memory_allocated(), cupy.get_default_memory_pool().used_bytes()
    assert after[0] <= before[0] + 2**20 and after[1] <= before[1] + 2**20


# --- What users type --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("backend", "library"),
    [*((backend, "torch") for backend in DEVICES), *PAIRS, *((backend, "dlpack") for backend in HOST)],
    ids=str,
)
def test_axes_by_other_names(backend: str, library: str) -> None:
    """The second call of each by a launch that may be kept."""
    owner, given = kernelzoo.get(backend), values(3, 4, 5)
    x = MAKERS.get(library, lambda x, device: Other(x))(given, DEVICES[backend])
    softmax, least = torch.softmax(torch.tensor(given), 1), given.min((0, 1))
    for one in (1, np.int64(1), np.int32(-2), np.uint8(1)):
        for found in (owner.softmax(x, one), owner.softmax(x, axis=one), owner.softmax(x, axis=one, out=None)):
            np.testing.assert_allclose(as_numpy(found), softmax, rtol=1e-5)
    for two in ((0, 1), [0, 1], [np.int64(0), -2], (np.int64(0), np.int64(1))):
        assert np.array_equal(as_numpy(owner.min(x, two)), least)
        assert np.array_equal(as_numpy(owner.min(x, axis=two, out=None)), least)
    for axes in (None, (), []):
        assert as_numpy(owner.min(x, axes)) == as_numpy(kernelzoo.min(x, axis=axes)) == given.min()
        assert tuple(owner.min(x, axis=axes, keepdims=True).shape) == (1, 1, 1)
    for call in (owner.softmax, owner.min, kernelzoo.softmax, kernelzoo.min):
        with pytest.raises(AxisError, match="another name of dim"):
            call(x, 0, axis=0)
    for wrong in (None, [0], (0,), 1.0, np.float64(1), np.True_, "0", torch.tensor(0), (torch.tensor(0),), 3):
        with pytest.raises(AxisError):
            owner.softmax(x, wrong)
    for wrong in (True, 1.0, [True], "0", [[0]], torch.tensor(0), (torch.tensor(0),), 3, [0, 0]):
        for named in ({"dim": wrong}, {"axis": wrong}):
            with pytest.raises(AxisError):
                owner.min(x, **named)


@pytest.mark.parametrize("backend", DEVICES)
def test_keepdims_is_another_name_of_keepdim(backend: str) -> None:
    owner, device = kernelzoo.get(backend), DEVICES[backend]
    library = "numpy" if device == "cpu" else "cupy"
    for x in (
        torch.tensor(values(3, 4), device=device),
        *([] if owner.emulator else [MAKERS[library](values(3, 4), device)]),
    ):
        for call in (owner.min, kernelzoo.min, lambda x, *given, **named: kernelzoo.vecdot(x, x, *given, **named)):
            for kept in ({"keepdims": True}, {"keepdims": True, "keepdim": True}):
                assert tuple(call(x, **kept).shape) == (3, 1)
            for gone in ({"keepdims": False}, {"keepdims": False, "keepdim": False}, {"keepdims": None}):
                assert tuple(call(x, **gone).shape) == (3,)
            for differ in (True, False):
                with pytest.raises(InputTypeError, match="another name of keepdim"):
                    call(x, keepdim=differ, keepdims=not differ)
                with pytest.raises(InputTypeError, match="another name of keepdim"):
                    call(x, -1, differ, keepdims=not differ)
            with pytest.raises(InputTypeError, match="keepdims is a bool"):
                call(x, keepdims=1)
        with pytest.raises(TypeError, match="keepdims"):
            owner.softmax(x, keepdims=True)


def test_an_operation_s_input_is_not_called_keepdims() -> None:
    with pytest.raises(kernelzoo.RegistrationError, match="a name that a call needs"):

        @kernelzoo.operation()
        class named:
            keepdims = kernelzoo.Input("outer n inner")
            out = kernelzoo.Output("outer n inner")

            def reference(keepdims: torch.Tensor) -> torch.Tensor:  # type: ignore[misc]  # noqa: N805
                return keepdims


@pytest.mark.parametrize("backend", DEVICES)
def test_dtype_as_in_torch(backend: str) -> None:
    owner, x = kernelzoo.get(backend), torch.tensor(values(3, 40), device=DEVICES[backend])
    for given, dtype in ((x.half(), torch.float32), (x, torch.float64), (x, torch.float16), (x.long(), torch.float32)):
        found = owner.softmax(given, dtype=dtype)
        assert found.dtype == dtype and torch.equal(found, owner.softmax(given.to(dtype)))
        torch.testing.assert_close(found, torch.softmax(given, -1, dtype=dtype))
        assert torch.equal(kernelzoo.softmax(given, -1, dtype=dtype), kernelzoo.softmax(given.to(dtype)))
    followed = x.half().requires_grad_()
    owner.softmax(followed, dtype=torch.float32).square().sum().backward()
    assert followed.grad is not None and followed.grad.dtype == torch.float16
    for wrong in ("float32", np.float32, 1):
        with pytest.raises(InputTypeError, match="dtype"):
            owner.softmax(x, dtype=wrong)
    with pytest.raises(InputTypeError, match="int32"):
        owner.softmax(x, dtype=torch.int32)
    with pytest.raises(TypeError):
        owner.min(x, dtype=torch.float32)


@pytest.mark.parametrize("backend", HOST)
def test_dtype_of_arrays(backend: str) -> None:
    call, x = kernelzoo.get(backend).softmax, values(3, 40)
    for dtype in (np.float64, "float64", torch.float64, np.dtype("float64")):
        assert np.array_equal(call(x, dtype=dtype), call(x.astype(np.float64)))
    with pytest.raises(InputTypeError, match="nothing"):
        call(x, dtype="nothing")
