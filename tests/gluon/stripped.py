"""``install()`` runs Gluon's kernels in Triton's interpreter, less their layouts; copies arrive when waited for."""

import sys
from types import ModuleType
from typing import Any

import triton
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon.language.nvidia import ampere
from triton.runtime import jit as runtime

import kernelzoo.kernels.gluon as backend
from kernelzoo.kernels.shared import exchange


class Layout:
    """Any layout: what it is asked about, it doesn't know."""

    def __init__(self, *_: Any) -> None:
        pass


class Memory:
    """Slots of shared memory, each with the tile that was copied to it last, or None while it is under way."""

    def __init__(self, dtype: Any, shape: list[int], layout: Any) -> None:
        self.dtype, self.shape = dtype, shape
        self.slots: list[Any] = [None] * shape[0]
        COPIES.clear()  # of the program before
        COPIES.append([])

    def index(self, slot: Any) -> "Slot":
        return Slot(self, int(slot))


class Slot:
    def __init__(self, memory: Memory, number: int) -> None:
        self.memory, self.number = memory, number
        assert 0 <= number < len(memory.slots)

    def load(self, layout: Any) -> Any:
        found = self.memory.slots[self.number]
        assert found is not None, "a slot is read before what is copied to it has arrived"
        return found


COPIES: list[list[Any]] = []
"""Groups of copies that are under way; the last is not committed yet."""


def copy(slot: Slot, pointer: Any, mask: Any) -> None:
    slot.memory.slots[slot.number] = None
    COPIES[-1].append((slot, tl.load(pointer, mask, other=0)))


def commit_group() -> None:
    COPIES.append([])


def wait_group(outstanding: int) -> None:
    assert not COPIES[-1], "copies are waited for that were never committed"
    while len(COPIES) - 1 > outstanding:
        for slot, tile in COPIES.pop(0):
            slot.memory.slots[slot.number] = tile


class Language(ModuleType):
    """``gluon.language``: Triton's own words, as the interpreter has them at that moment, but for those below."""

    BlockedLayout = SliceLayout = SwizzledSharedLayout = Layout
    allocate_shared_memory = Memory

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "barrier":
            raise AttributeError(name)
        return getattr(tl, name)

    @staticmethod
    def arange(start: int, end: int, layout: Any) -> Any:
        return tl.arange(start, end)

    @staticmethod
    def full(shape: list[int], value: Any, dtype: Any, layout: Any) -> Any:
        return tl.full(shape, value, dtype)

    @staticmethod
    def convert_layout(value: Any, layout: Any) -> Any:
        return value

    @staticmethod
    def thread_barrier() -> None:
        """One thread after the other runs here."""


def jit(function: Any = None, **options: Any) -> Any:
    """``gluon.jit``: the interpreted function; it has nothing to wait for before it."""
    if function is None:
        return lambda function: jit(function, **options)
    if function.__name__ == "await_last_launch":
        return lambda: None
    function.__globals__["_interpreted"] = tl  # which the interpreter looks for there
    return triton.jit(function, **options)


def await_words(words: Any, there: Any) -> Any:
    """In the place of ``exchange.await_words``: what is there already."""
    return tl.load(words, there, other=0)


def install() -> None:
    """Put this in Gluon's place, for this process."""
    assert triton.knobs.runtime.interpret and "kernelzoo.kernels.gluon.device_functions" not in sys.modules
    named = runtime._normalize_ty
    runtime._normalize_ty = lambda kind: named(kind.replace("gl.", "tl.") if isinstance(kind, str) else kind)
    copies = ModuleType("async_copy")
    words: dict[str, Any] = {"async_load": copy, "commit_group": commit_group, "wait_group": wait_group}
    vars(copies).update(words)
    gluon.jit, gluon.language, ampere.async_copy = jit, Language("language"), copies
    exchange.await_words = await_words
    backend.stand_in = "Triton's interpreter, less the layouts"
