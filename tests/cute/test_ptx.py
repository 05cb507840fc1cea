"""CuTe's kernels as compiled to PTX, emulated on the host, with special values in the rows."""

from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("cutlass.cute", reason="the cute backend needs the package nvidia-cutlass-dsl")
import kernelzoo.kernels.cute as backend  # noqa: E402  (after the skips)

if backend.stand_in is not None:
    pytest.skip("something else takes a device's place in this process", allow_module_level=True)
from kernelzoo.kernels.cute import compiler  # noqa: E402

if why := compiler.lacking():
    pytest.skip(why, allow_module_level=True)

from compiled_cute import Machine  # noqa: E402
from compiled_steps import Binds  # noqa: E402

import kernelzoo  # noqa: E402
from kernelzoo import operations  # noqa: E402
from kernelzoo.errors import UnsupportedProblemError  # noqa: E402
from kernelzoo.kernels.cute import tiles  # noqa: E402

BINDS = Binds("cute")
bind = BINDS.bind
FORMS = [(operations.OPERATIONS[i.op], i.variant) for i in kernelzoo.implementations("cute") if not i.chooses]
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


def _expected(op: operations.Operation, axis: int, inputs: Any) -> torch.Tensor:
    """By torch, in float64."""
    return {
        "softmax": lambda x: x.softmax(axis),
        "min": lambda x: x.amin(axis),
        "softmax_backward": lambda g, y: y * (g - (g * y).sum(axis, keepdim=True)),
        "min_backward": lambda x, y, g: (
            (equal := x == y.unsqueeze(axis)) * g.unsqueeze(axis) / equal.sum(axis, keepdim=True)
        ),
    }[op.name](*(tensor.double() for tensor in inputs))


@pytest.mark.sampled(6, "op", "form")
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize(("shape", "axis"), [((7, 100), 1), ((6, 2500), 1), ((100, 33), 0), ((64, 32), 1)], ids=str)
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
    try:
        launch = op.launch(bind(op, form), args, outs)
    except UnsupportedProblemError as refused:
        pytest.skip(f"a form that takes other problems: {refused}")
    expected = _expected(op, axis, inputs)
    for _ in range(2):  # a launch leaves its workspace as it was
        outs[0].fill_(7.0)
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


TURNED = ("fused", "rows_deferred", "split")
"""Forms whose threads are laid out along columns where rows lie across memory."""
AXES = [(op, form, axis) for op, form in FORMS for axis in (1, 0) if axis == 1 or form in TURNED]
IN_BLOCKS = [one for one in AXES if one[1] not in ("fused", "split_cluster")]


@pytest.mark.parametrize(("op", "form", "axis"), IN_BLOCKS, ids=lambda value: getattr(value, "name", value))
def test_rows_of_several_blocks(
    op: operations.Operation, form: str, axis: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parts of which the last has fewer blocks, and sums of which many are equal."""
    monkeypatch.setattr(backend, "stand_in", Machine())
    shape = (1408, 160) if axis == 0 else (10, 10240 if op.name == "softmax_backward" else 20480)
    x = torch.randint(0, 500, shape, generator=torch.Generator().manual_seed(3)) / 50
    x.select(axis, 700).fill_(-1)  # what another warp than the one that writes has, in the first block
    inputs = {
        "softmax_backward": (x, x.softmax(axis)),
        "min_backward": (x, x.amin(axis), torch.ones(shape[1 - axis])),
    }.get(op.name, (x,))
    args = operations.Arguments(inputs, (axis,))
    outs = op.allocate(args)
    launch = op.launch(bind(op, form), args, outs)
    expected = _expected(op, axis, inputs)
    for _ in range(4):
        outs[0].fill_(7.0)
        launch()
        torch.testing.assert_close(outs[0].double(), expected, rtol=1e-5, atol=1e-6)


def test_what_lies_past_a_row_is_no_minimum(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whose gradient would be shared with it, were it counted."""
    monkeypatch.setattr(backend, "stand_in", Machine())
    op, x = operations.OPERATIONS["min_backward"], torch.ones(5, 37)
    x[:, 3] = x[:, 36] = 0
    inputs = x, x.amin(1), torch.ones(5)
    args = operations.Arguments(inputs, (1,))
    for form in ("fused", "online", "split_two_launches"):
        outs = op.allocate(args)
        op.launch(bind(op, form), args, outs)()
        assert torch.equal(outs[0], (1 - x) / 2)


@pytest.mark.parametrize(("op", "form", "axis"), AXES, ids=lambda value: getattr(value, "name", value))
def test_numbers_of_64_bits(op: operations.Operation, form: str, axis: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernels of rows, and of numbers of rows, past 2^30: here every problem is taken for such a one."""
    monkeypatch.setattr(backend, "stand_in", Machine())
    monkeypatch.setattr(tiles, "FAR", 2)
    shape = (100, 36) if axis == 0 else (7, 2060 if "cluster" in form or "split" in form else 100)
    x = torch.randn((2, *shape), generator=torch.Generator().manual_seed(4)).half()[:, :, ::2]
    axis += 1
    inputs = {
        "softmax_backward": (x, x.softmax(axis)),
        "min_backward": (x, x.amin(axis), torch.ones(2, x.shape[3 - axis]).half()),
    }.get(op.name, (x,))
    if form == "split_cluster":
        inputs = (x.repeat(1, 1, 2),)
    args = operations.Arguments(inputs, (axis,))
    outs = op.allocate(args)
    op.launch(bind(op, form), args, outs)()
    torch.testing.assert_close(outs[0].double(), _expected(op, axis, inputs), rtol=2e-3, atol=1e-4)
    assert tiles.block(tiles.problem(x, x)).far


@pytest.mark.sampled(2, "op", "form", "short")
@pytest.mark.parametrize(
    ("op", "form", "short"), [(*f, False) for f in FORMS] + [(*f, True) for f in FORMS if f[1] == "fused"],
    ids=lambda v: getattr(v, "name", v),
)  # fmt: skip
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32], ids=str)
def test_rows_that_start_anywhere(
    op: operations.Operation, form: str, short: bool, dtype: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Vectors over the ends of rows: of neighbours' elements none is taken in, and none is written."""
    monkeypatch.setattr(backend, "stand_in", Machine())
    # Of a long row, one block by its length and two by where it starts.
    count, n = (19, 141) if short else (8, 16384 // dtype.itemsize - 1)
    x = torch.randint(1, 9, (count, n), generator=torch.Generator().manual_seed(5)).to(dtype)
    x[::3] -= 8.5
    x[::5, 0] = x[::5, -1] = -float("inf")  # neither is a neighbour's
    x[7, 3] = float("nan")
    inputs = {
        "softmax_backward": (x.nan_to_num(0, 0, 0), x.softmax(1)),
        "min_backward": (x, x.amin(1), torch.ones(count).to(dtype)),
    }.get(op.name, (x,))
    args = operations.Arguments(inputs, (1,))
    outs = op.allocate(args)
    assert tiles.problem(x.unsqueeze(2), x.unsqueeze(2)).shifted
    op.launch(bind(op, form), args, outs)()
    tolerance = {"rtol": 2e-3, "atol": 1e-4} if dtype == torch.float16 else {"rtol": 1e-5, "atol": 1e-6}
    torch.testing.assert_close(outs[0].double(), _expected(op, 1, inputs), equal_nan=True, **tolerance)
