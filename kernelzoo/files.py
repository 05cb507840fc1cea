"""Files of results: read within bounds and against a schema, written whole, and claimed by one process at a time.

A file that is read may come from anyone: reading it executes nothing, and takes memory and time that are bounded.
"""

from __future__ import annotations

import contextlib
import fcntl
import gzip
import json
import math
import os
import re
import stat
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kernelzoo.errors import KernelZooError

LARGEST = 256 * 2**20
"""Bytes of JSON that are read: fifty times the largest sweep of every implementation."""

DEEPEST = 32
"""Objects and lists within each other; results have six."""


class FileError(KernelZooError, ValueError):
    """A file can't be read as JSON, or can't be written to."""


def read_json(path: Path) -> Any:
    """The document in a file of JSON, gzip-compressed if its name, or that of what it links to, ends in .gz.

    Raises FileError if it is no regular file, or no JSON with finite numbers, or larger or deeper than any results.
    """
    try:
        with open(
            path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)
        ) as file:  # waits for none
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise FileError(f"can't read {path}: it is no regular file")
            packed = ".gz" in (path.suffix, true(path).suffix)
            raw = (gzip.GzipFile(fileobj=file) if packed else file).read(LARGEST + 1)  # so much of a bomb, no more
    except gzip.BadGzipFile as error:
        raise FileError(f"{path} is named .gz and is not: {error}") from error
    except (EOFError, zlib.error) as error:
        raise FileError(f"{path} is cut short or damaged: {error}") from error
    except OSError as error:
        raise FileError(f"can't read {path}: {error.strerror or error}") from error
    if len(raw) > LARGEST:
        raise FileError(f"{path} holds more than {LARGEST // 2**20} MiB, which no results do")
    try:
        document = json.loads(raw.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise FileError(f"{path} is not JSON: {error}") from error
    if wrong := _out_of_bounds(document):
        raise FileError(f"{path}: {wrong}")
    return document


def _out_of_bounds(document: Any) -> str:
    """What no results hold, though Python's JSON lets it pass: NaN, infinities, and depths that exhaust the stack."""
    left: list[tuple[Any, tuple[str | int, ...]]] = [(document, ())]
    while left:
        value, place = left.pop()
        if isinstance(value, float):
            if not math.isfinite(value):
                return f"{named(place)} must be a finite number, got {value}"
        elif isinstance(value, dict | list):
            if len(place) >= DEEPEST:
                return f"{named(place[:3])} ... is nested deeper than {DEEPEST}, which no results are"
            inner = value.items() if isinstance(value, dict) else enumerate(value)
            left += [(part, (*place, key)) for key, part in inner if isinstance(part, float | dict | list)]
    return ""


def named(place: tuple[str | int, ...]) -> str:
    """A place in a document in words, such as ``benchmarks[3] stats 'median'``."""
    words = ""
    for index, key in enumerate(place):
        if isinstance(key, int):
            words += f"[{key}]"
        else:
            last = index == len(place) - 1 and index > 0
            words += f" {key[:80]!r}" if last else f" {key[:80]}"
    return words.strip() or "the document"


def true(path: Path) -> Path:
    """The path without links, which every name of a file leads to: what is locked and replaced."""
    return Path(os.path.realpath(path))


def printable(text: str) -> str:
    """The text on one line, without control characters: it may go to a terminal."""
    if text.isprintable() and "  " not in text:
        return text.strip()
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def check_folder(path: Path) -> None:
    """Raise FileError unless the folder is there that a file, or a folder, is to be written into: none is made."""
    if not (folder := path.absolute().parent).is_dir():
        if folder.exists():
            raise FileError(f"{str(folder)!r} is no folder for {path.name!r}; name another one with -o")
        raise FileError(f"no folder {str(folder)!r} for {path.name!r}; make it, or name another one with -o")


def write_whole(path: Path, content: bytes, *, mode: int | None = None) -> None:
    """Write, sync, rename, sync: whoever reads the file sees the old content or the new, never a part, and what is
    written stays so if the machine stops. Without ``mode``, it has that of the old file, or of any new one.

    A link stays, and the file that it leads to is written. Raises OSError that names the file, the old one being left
    as it was.
    """
    given, path = path, true(path)
    try:
        if path.exists() and not path.is_file():
            raise OSError(None, "it is no regular file, which is all that is ever replaced")
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=_PARTIAL)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(name, _mode(path) if mode is None else mode)
            os.replace(name, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name)
            raise
        _sync_folder(path.parent)
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(given)) from error


_PARTIAL = ".partial"


def _mode(path: Path) -> int:
    """That of the file to be replaced, or what the umask leaves of a new one's."""
    with contextlib.suppress(OSError):
        return stat.S_IMODE(path.stat().st_mode)
    umask = os.umask(0)
    os.umask(umask)
    return 0o666 & ~umask


def _sync_folder(folder: Path) -> None:
    """So that the rename outlives a power cut; some file systems can't, and have it as it is."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextlib.contextmanager
def claimed(path: Path) -> Iterator[None]:
    """Keep other processes from claiming the same file meanwhile, and remove what a killed one left half written.

    The claim is a lock on a file beside it, ``.NAME.lock``, which is removed at the end. If the process is killed, the
    file stays, and the lock ends all the same. Raises FileError if another process holds the lock; OSError if there can
    be no such file.
    """
    given, path = path, true(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = path.with_name(f".{path.name}.lock")
    try:
        handle = _locked(lock)
    except BlockingIOError:
        raise FileError(
            f"another process is writing to {given}; wait until it has ended, or name another file with -o"
        ) from None
    try:
        left = re.compile(rf"\.{re.escape(path.name)}\.[^.]+{re.escape(_PARTIAL)}")
        for file in path.parent.iterdir():
            if left.fullmatch(file.name):
                file.unlink(missing_ok=True)
        yield
    finally:
        with contextlib.suppress(OSError):
            lock.unlink()  # while it is still locked: see _locked
        os.close(handle)


def _locked(path: Path) -> int:
    """A handle that locks the file of this name. Raises BlockingIOError if another one does."""
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(handle), os.stat(path)):
                    return handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)  # the last holder removed the file after it was opened here: another may lock a new one
