"""cuTile's kernels as compiled to PTX, emulated on the host, with special values in the rows."""

from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("cuda.tile", reason="the cutile backend needs the package cuda-tile")
import kernelzoo.kernels.cutile as backend  # noqa: E402  (after the skips)

if backend.stand_in is not None:
    pytest.skip("something else takes a device's place in this process", allow_module_level=True)
from kernelzoo.kernels.cutile import compiler  # noqa: E402

if why := compiler.lacking():
    pytest.skip(why, allow_module_level=True)

from compiled_cutile import Machine  # noqa: E402
from compiled_steps import Binds  # noqa: E402

import kernelzoo  # noqa: E402
from kernelzoo import operations  # noqa: E402
from kernelzoo.errors import UnsupportedProblemError  # noqa: E402

BINDS = Binds("cutile")
bind = BINDS.bind
FORMS = [(operations.OPERATIONS[i.op], i.variant) for i in kernelzoo.implementations("cutile") if not i.chooses]
FLOATS = (torch.float32, torch.bfloat16, torch.float64)


def _special(shape: tuple[int, int], axis: int, dtype: Any) -> torch.Tensor:
    """Rows of which one has a NaN, one infinity, one -inf here and there, one nothing else, one it at its end."""
    x = torch.randn(shape, generator=torch.Generator().manual_seed(1)).to(dtype)
    rows = x if axis == 1 else x.T
    n = rows.shape[1]
    rows[0, n // 2] = float("nan")
    rows[1, n // 3] = float("inf")
    rows[2, ::3] = -float("inf")
    rows[3] = -float("inf")
    rows[4, n // 2 :] = -float("inf")
    return x


@pytest.mark.sampled(6, "op", "form")
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize(
    ("shape", "axis"), [((7, 100), 1), ((6, 2500), 1), ((5, 2501), 1), ((100, 33), 0), ((64, 32), 1)], ids=str
)
@pytest.mark.parametrize(("op", "form"), FORMS, ids=lambda value: getattr(value, "name", value))
def test_compiled_kernels_compute_what_they_should(
    op: operations.Operation, form: str, shape: tuple[int, int], axis: int, dtype: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backend, "stand_in", Machine())
    x = _special(shape, axis, dtype)
    if op.name == "softmax_backward":
        inputs = [torch.randn(shape, generator=torch.Generator().manual_seed(2)).to(dtype), x.softmax(axis)]
    elif op.name == "min_backward":
        inputs = [x, x.amin(axis), torch.arange(shape[1 - axis]).to(dtype)]
    else:
        inputs = [x]
    args = operations.Arguments(tuple(inputs), (axis,))
    outs = op.allocate(args)
    outs[0].fill_(7.0)
    try:
        launch = op.launch(bind(op, form), args, outs)
    except UnsupportedProblemError as refused:
        pytest.skip(f"a form that takes other problems: {refused}")
    expected = {
        "softmax": lambda x: x.softmax(axis),
        "min": lambda x: x.amin(axis),
        "softmax_backward": lambda g, y: y * (g - (g * y).sum(axis, keepdim=True)),
        "min_backward": lambda x, y, g: (
            (equal := x == y.unsqueeze(axis)) * g.unsqueeze(axis) / equal.sum(axis, keepdim=True)
        ),
    }[op.name](*(tensor.double() for tensor in inputs))
    for _ in range(2):  # a launch leaves its workspace as it was
        launch()
        torch.testing.assert_close(outs[0].double(), expected, rtol=1e-2, atol=1e-5, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64], ids=str)
def test_compiled_minima_of_integers(dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is as low as what lies past a row's end would be, were it taken in."""
    monkeypatch.setattr(backend, "stand_in", Machine())
    op, most = operations.OPERATIONS["min"], 1 if dtype == torch.bool else torch.iinfo(dtype).max
    for form, shape, axis in (("rows", (5, 100), 1), ("split", (2, 20003), 1), ("rows_deferred", (45, 33), 0)):
        x = torch.full(shape, most, dtype=dtype)
        x.select(1 - axis, 1).select(0, 3).fill_(0)
        args = operations.Arguments((x,), (axis,))
        outs = op.allocate(args)
        op.launch(bind(op, form), args, outs)()
        assert torch.equal(outs[0], x.long().amin(axis).to(dtype))


@pytest.mark.sampled(3, "form")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int32, torch.uint8], ids=str)
@pytest.mark.parametrize("form", ["rows", "rows_deferred", "split"])
def test_minima_of_rows_that_start_anywhere(form: str, dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several blocks of vectors and the ends of a row: the least is each element once, and a NaN too."""
    monkeypatch.setattr(backend, "stand_in", Machine())
    n = 2 * 8192 + 29
    places = (0, 1, 15, 16, 17, 8191, 8192, 16384, n - 17, n - 16, n - 2, n - 1)
    x = torch.full((len(places), n), 100, dtype=dtype)
    for row, place in enumerate(places):
        x[row, place] = row + 1
    if dtype.is_floating_point:
        x[5, 7] = float("nan")
    args = operations.Arguments((x,), (1,))
    outs = operations.OPERATIONS["min"].allocate(args)
    launch = operations.OPERATIONS["min"].launch(bind(operations.OPERATIONS["min"], form), args, outs)
    for _ in range(2):
        outs[0].fill_(77)
        launch()
        assert torch.equal(outs[0].nan_to_num(200), x.amin(1).nan_to_num(200))


@pytest.mark.parametrize("dtype", FLOATS[:2], ids=str)
@pytest.mark.parametrize("n", [8192, 17000, 17003], ids=str)
def test_a_program_goes_through_a_row(n: int, dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """With whole blocks alone and with others; NaN and infinities are any block's, and ends weigh."""
    monkeypatch.setattr(backend, "stand_in", Machine())
    x = _special((5, n), 1, dtype)
    x[:, [0, -1]] += 7
    x[4, 0] = 100  # whose exponential is too large for float32, less another maximum
    rtol = 1e-5 if dtype == torch.float32 else 1e-2
    args = operations.Arguments((x,), (1,))
    outs = operations.OPERATIONS["softmax"].allocate(args)
    launch = operations.OPERATIONS["softmax"].launch(bind(operations.OPERATIONS["softmax"], "online"), args, outs)
    for _ in range(2):
        outs[0].fill_(7.0)
        launch()
        torch.testing.assert_close(outs[0].double(), x.double().softmax(1), rtol=rtol, atol=1e-9, equal_nan=True)
