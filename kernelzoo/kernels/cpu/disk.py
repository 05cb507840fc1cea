"""Machine code kept on disk, so that a kernel is compiled once and not once per process.

Numba's own cache numbers its files by an index that processes rewrite without a lock: two that compile at once can give
one number to two signatures, and a third then loads the code of the wrong one. Here a file's name says what it is for,
its content says so again with a digest of the rest, and it appears whole or not at all; what is damaged is compiled
anew. Where no folder can be written, or others could write to it, every process compiles for itself.
"""

import hashlib
import inspect
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Any

import numba
from numba.core import caching, serialize

from kernelzoo.kernels.shared import code_cache


def compiled(**options: Any) -> Callable[[Callable[..., None]], Any]:
    """``numba.njit`` with these options, the machine code kept within Numba's folder for this source file."""

    def decorate(function: Callable[..., None]) -> Any:
        dispatcher = numba.njit(**options)(function)
        with suppress(RuntimeError):  # no folder for it
            dispatcher._cache = _Cache(function)
        return dispatcher

    return decorate


_keeps: ContextVar[bool] = ContextVar("keeps", default=True)


@contextmanager
def nothing_kept() -> Iterator[None]:
    """Within the context, this thread compiles anew, and keeps nothing."""
    token = _keeps.set(False)
    try:
        yield
    finally:
        _keeps.reset(token)


_text_of = cache(code_cache.text_of)


class _Cache(caching.FunctionCache):
    """Numba's cache of a function's signatures, each in a file of its own that no other signature shares."""

    def __init__(self, function: Callable[..., None]) -> None:
        super().__init__(function)
        own, file = Path(__file__).parent, Path(inspect.getfile(function))
        folder, stamp = Path(self.cache_path, "kernelzoo"), self._impl.locator.get_source_stamp()
        if file.is_relative_to(own):  # known by what it says, and not by when and where it was installed
            stamp = None
            if numba.config.CACHE_DIR:
                folder = Path(numba.config.CACHE_DIR, "kernelzoo", file.parent.relative_to(own))
        self._cache_file = _Files(folder, self._impl.filename_base, (stamp, _text_of(own)))

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        return super().load_overload(sig, target_context) if _keeps.get() else None

    def save_overload(self, sig: Any, data: Any) -> None:
        if not _keeps.get():
            return
        with suppress(OSError):  # of Numba's own folder, around ours: read-only, full, or another user's
            super().save_overload(sig, data)


class _Files:
    """What was compiled from one state of the source, by key; the interface of Numba's ``IndexDataCacheFile``."""

    def __init__(self, folder: Path, base: str, stamp: Any) -> None:
        self.folder, self.base = folder, base
        self.made_from = repr((numba.__version__, stamp)).encode()

    def save(self, key: Any, data: Any) -> None:
        """Keep a signature's code, if that can be."""
        code_cache.write(self.folder, self._name(key), self._content(key, serialize.dumps(data)))

    def load(self, key: Any) -> Any:
        """A signature's code, or None if it isn't there whole, from this source and by this Numba."""
        content = code_cache.read(self.folder, self._name(key))
        if content is None:
            return None
        expected = self._content(key, b"")
        # Numba's own form of machine code is a pickle, which is a program: one that this user's own process wrote.
        return pickle.loads(content[len(expected) :]) if content.startswith(expected) else None

    def flush(self) -> None:
        """Forget all signatures."""
        for path in self.folder.glob(f"{self.base}.*.nbc"):
            path.unlink(missing_ok=True)

    def _content(self, key: Any, code: bytes) -> bytes:
        return self.made_from + repr(key).encode() + b"\0" + code

    def _name(self, key: Any) -> str:
        return f"{self.base}.{hashlib.sha256(repr(key).encode()).hexdigest()[:16]}.nbc"
