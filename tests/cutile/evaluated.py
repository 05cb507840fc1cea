"""``install()`` replaces ``cuda.tile`` by tiles of torch's tensors; what cuTile leaves open goes the worst way."""

import enum
import sys
from collections.abc import Callable, Sequence
from functools import partial
from types import ModuleType, SimpleNamespace
from typing import Any

import torch

DTYPES = {
    name: getattr(torch, name)
    for name in ("float16", "bfloat16", "float32", "float64", "uint8", "int8", "int16", "int32", "int64")
} | {"float8_e4m3fn": torch.float8_e4m3fn}


class PaddingMode(enum.Enum):
    UNDETERMINED = "undetermined"
    ZERO = "zero"
    NAN = "nan"
    POS_INF = "pos_inf"
    NEG_INF = "neg_inf"


PADDING = {"zero": 0, "nan": float("nan"), "pos_inf": float("inf"), "neg_inf": -float("inf")}


class Constant:
    """An annotation."""

    def __class_getitem__(cls, kind: Any) -> type["Constant"]:
        return cls


class Kernel:
    """``ct.kernel``: the function itself."""

    def __init__(self, function: Callable[..., None]) -> None:
        self._pyfunc = function


class Array:
    """A tensor's elements, by the sizes and strides that a launch passes."""

    def __init__(self, tensor: torch.Tensor, sizes: Sequence[int], strides: Sequence[int]) -> None:
        room = tensor.untyped_storage().nbytes() // tensor.element_size() - tensor.storage_offset()
        last = min(sizes[-1], room) if strides[-1] else sizes[-1]
        self.elements = tensor.as_strided((*sizes[:-1], last), strides, tensor.storage_offset())
        self.dtype, self.shape = tensor.dtype, tuple(sizes)

    def slice(self, axis: int, start: int, stop: int) -> "Array":
        assert 0 <= start < self.shape[axis] and start <= stop <= self.shape[axis]
        part = self.elements.narrow(axis, start, stop - start)
        return Array(part, part.shape, part.stride())

    def get_raw_memory(self) -> "RawMemory":
        return RawMemory(self.elements)


class RawMemory:
    """An array's elements by how far they are from its first."""

    def __init__(self, elements: torch.Tensor) -> None:
        assert elements.is_contiguous()
        self.elements = elements.view(-1)

    def load_offset(self, offset: torch.Tensor, *, mask: torch.Tensor, padding_value: float) -> torch.Tensor:
        found = torch.full(offset.shape, padding_value, dtype=self.elements.dtype)
        found[mask] = self.elements[offset[mask]]
        return found

    def store_offset(self, offset: torch.Tensor, value: torch.Tensor, *, mask: torch.Tensor) -> None:
        assert value.dtype == self.elements.dtype
        self.elements[offset[mask]] = value[mask]


def _inside(array: Array, index: Sequence[int], shape: Sequence[int]) -> tuple[slice, ...]:
    """What of an array is a tile's."""
    assert len(index) == len(shape) == len(array.shape)
    found = []
    for place, size, whole in zip(index, shape, array.shape, strict=True):
        assert size & (size - 1) == 0, "a tile's size is a power of two"
        assert 0 <= place * size < whole, f"a tile lies outside of its array: {index} of {shape} in {array.shape}"
        found.append(slice(place * size, min(whole, place * size + size)))
    return tuple(found)


def load(
    array: Array, index: Sequence[int], shape: Sequence[int], *, padding_mode: Any = None, check_bounds: bool = True,
    allow_tma: bool = True,
) -> torch.Tensor:  # fmt: skip
    assert not allow_tma, "a copy by TMA is nowhere asked for"
    mode = getattr(padding_mode, "value", "undetermined")
    whole = array.dtype.is_floating_point
    unknown = float("nan") if whole else 85
    assert whole or mode in ("undetermined", "zero"), "there is no such number"
    tile = torch.full(tuple(shape), PADDING.get(mode, unknown), dtype=array.dtype)
    inside = _inside(array, index, shape)
    assert check_bounds or [part.stop - part.start for part in inside] == [*shape], "not checked, and partly outside"
    tile[tuple(slice(0, part.stop - part.start) for part in inside)] = array.elements[inside]
    return tile


def store(
    array: Array, index: Sequence[int], tile: torch.Tensor, *, check_bounds: bool = True, allow_tma: bool = True
) -> None:
    assert tile.dtype == array.dtype, f"{tile.dtype} is stored to an array of {array.dtype}"
    inside = _inside(array, index, tile.shape)
    assert check_bounds or [part.stop - part.start for part in inside] == [*tile.shape], "partly outside"
    array.elements[inside] = tile[tuple(slice(0, part.stop - part.start) for part in inside)]


def _dropped(x: torch.Tensor, keeps: bool, instead: float) -> torch.Tensor:
    """Without its NaNs, unless they are kept."""
    return x if keeps or not x.dtype.is_floating_point else torch.where(x.isnan(), instead, x)


def _reduced(
    found: Callable[..., torch.Tensor], instead: float, x: torch.Tensor, axis: int, *, keepdims: bool = False,
    propagate_nan: bool = False,
) -> torch.Tensor:  # fmt: skip
    return found(_dropped(x, propagate_nan, instead), axis, keepdim=keepdims)


def _of_two(
    found: Callable[..., torch.Tensor], dropping: Callable[..., torch.Tensor], a: Any, b: Any, *,
    propagate_nan: bool = False,
) -> torch.Tensor:  # fmt: skip
    assert a.dtype == b.dtype
    return found(a, b) if propagate_nan or not a.dtype.is_floating_point else dropping(a, b)


def total(x: torch.Tensor, axis: int, *, keepdims: bool = False) -> torch.Tensor:
    return x.sum(axis, keepdim=keepdims, dtype=x.dtype)


def exp2(x: torch.Tensor, *, flush_to_zero: bool = False) -> torch.Tensor:
    found = torch.exp2(x)
    return torch.where(found.abs() < torch.finfo(x.dtype).tiny, 0.0, found) if flush_to_zero else found


def joined(
    tiles: tuple[torch.Tensor, ...], axis: int, join: Callable[..., tuple[torch.Tensor, ...]], identity: tuple[Any, ...]
) -> tuple[torch.Tensor, ...]:
    """``ct.reduce``, two halves at a time: a function of scalars, given tiles."""
    while (size := tiles[0].shape[axis]) > 1:
        first, second = ([tile.narrow(axis, start, size // 2) for tile in tiles] for start in (0, size // 2))
        tiles = join(*second, *first)  # in whatever order
    return tuple(tile.squeeze(axis) for tile in tiles)


def scanned(
    tiles: tuple[torch.Tensor, ...], axis: int, join: Callable[..., tuple[torch.Tensor, ...]], identity: tuple[Any, ...]
) -> tuple[torch.Tensor, ...]:
    """``ct.scan``, one place after the other."""
    found = [tuple(tile.select(axis, 0) for tile in tiles)]
    for place in range(1, tiles[0].shape[axis]):
        found.append(join(*found[-1], *(tile.select(axis, place) for tile in tiles)))
    return tuple(torch.stack(parts, axis) for parts in zip(*found, strict=True))


def gather(array: Array, indices: Sequence[Any], *, mask: Any = True, padding_value: Any = 0) -> torch.Tensor:
    places = torch.broadcast_tensors(*(torch.as_tensor(index) for index in indices))
    inside = torch.as_tensor(mask)
    for place, size in zip(places, array.shape, strict=True):
        inside = inside & (place >= 0) & (place < size)
    found = array.elements[tuple(place.where(inside, 0) for place in places)]
    return torch.where(inside, found, torch.tensor(padding_value, dtype=array.dtype))


def atomic_add(array: Array, place: int, added: int, **order: Any) -> int:
    before = int(array.elements[place])
    array.elements[place] += added
    return before


def scatter(array: Array, place: int, value: int) -> None:
    array.elements[place] = value


def truediv(a: Any, b: torch.Tensor, *, rounding_mode: str = "nearest") -> torch.Tensor:
    assert isinstance(a, float) or a.dtype == b.dtype
    assert rounding_mode == "nearest" or b.dtype == torch.float32, "there is no other division"
    return a / b


class Language(ModuleType):
    """``cuda.tile``."""

    kernel, Constant, PaddingMode, static_iter = Kernel, Constant, PaddingMode, iter
    load, store, scatter = staticmethod(load), staticmethod(store), staticmethod(scatter)
    exp2, atomic_add = staticmethod(exp2), staticmethod(atomic_add)
    max = staticmethod(partial(_reduced, torch.amax, -float("inf")))
    min = staticmethod(partial(_reduced, torch.amin, float("inf")))
    sum = staticmethod(total)
    maximum = staticmethod(partial(_of_two, torch.maximum, torch.fmax))
    minimum = staticmethod(partial(_of_two, torch.minimum, torch.fmin))
    expand_dims = staticmethod(torch.unsqueeze)
    reduce, scan, gather = staticmethod(joined), staticmethod(scanned), staticmethod(gather)
    cumsum, arange, reshape = staticmethod(torch.cumsum), staticmethod(torch.arange), staticmethod(torch.reshape)
    bitcast = staticmethod(torch.Tensor.view)
    log, sqrt = torch.log, torch.sqrt
    exp, abs, where, truediv = torch.exp, torch.abs, torch.where, staticmethod(truediv)
    MemoryOrder = SimpleNamespace(ACQ_REL=0, RELAXED=1, ACQUIRE=2, RELEASE=3)
    MemoryScope = SimpleNamespace(DEVICE=0)
    RoundingMode = SimpleNamespace(FULL="full")

    bool_ = torch.bool
    number = 0
    """Of the program that runs."""

    def bid(self, axis: int) -> int:
        return self.number if axis == 0 else 0

    @staticmethod
    def num_tiles(array: Array, axis: int, shape: Sequence[int]) -> int:
        return -(-array.shape[axis] // shape[axis])

    @staticmethod
    def astype(x: Any, dtype: torch.dtype) -> Any:
        return x if isinstance(x, int) else x.to(dtype)  # a scalar, a size, is Python's own here

    @staticmethod
    def extract(x: torch.Tensor, index: Sequence[int], shape: Sequence[int]) -> torch.Tensor:
        return x[tuple(slice(place * size, place * size + size) for place, size in zip(index, shape, strict=True))]

    @staticmethod
    def full(shape: Sequence[int], value: Any, dtype: torch.dtype) -> torch.Tensor:
        if isinstance(value, float):  # cuTile rounds a constant
            value = torch.tensor(value, dtype=torch.float32).item()
        return torch.full(tuple(shape), value, dtype=dtype)

    @staticmethod
    def zeros(shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        return torch.zeros(tuple(shape), dtype=dtype)

    @staticmethod
    def grid_dependency_control_wait() -> None:
        """One launch after the other runs here."""


class Machine:
    """What takes a device's place."""

    def __init__(self, language: Language) -> None:
        from kernelzoo.device import Device

        self.language = language
        # Few multiprocessors: a row of a small problem is cut into some parts.
        self.device = Device("sm_90", str(self), 2, 4096, 0.0, 1024, 1, 2048, 2048)

    def __str__(self) -> str:
        return "torch, in the place of cuTile's tiles"

    def launch(self, program: Any, programs: int, views: Sequence[Any], integers: Sequence[int]) -> Callable[[], None]:
        for view, known in zip(views, program.arrays, strict=True):
            _check(view, known)

        def run() -> None:
            arrays = [Array(view.tensor, view.sizes, view.strides) for view in views]
            for self.language.number in range(programs):
                program.function(*arrays, *integers, *program.constants)

        return run


def _check(view: Any, known: Any) -> None:
    """What a kernel is compiled to know of an array must be so."""
    assert view.tensor.data_ptr() % known.aligned == 0
    strides = [stride for stride, one in zip(view.strides, known.ones, strict=True) if not one]
    if not known.ones[-1]:
        assert view.sizes[-1] % known.multiple == 0
        last = strides.pop()
        assert last == 1 or not known.dense
    assert [stride for stride in strides if stride % known.multiple] == []
    assert all(size == 1 for size, one in zip(view.sizes, known.ones, strict=True) if one)
    if known.index == "int32":
        assert view.extent_in_elements < 2**31
    assert min(view.sizes) >= 0


def install() -> None:
    """Put this in cuTile's place, for this process."""
    import cuda.tile  # what compiles stays its own, and is never asked

    import kernelzoo.kernels.cutile as backend
    import kernelzoo.kernels.cutile.compiler  # noqa: F401

    assert "kernelzoo.kernels.cutile.device_functions" not in sys.modules
    language = Language("cuda.tile")
    for name, dtype in DTYPES.items():
        setattr(language, name, dtype)
    sys.modules["cuda.tile"] = cuda.tile = language
    backend.stand_in = Machine(language)
