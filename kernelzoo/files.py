"""Results files: reading with limits on size and depth, atomic replacement, and locks for one process.

A file may come from anyone. Reading it runs nothing, and takes bounded memory and time.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import math
import os
import re
import secrets
import stat
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kernelzoo.errors import KernelZooError

LARGEST = 256 * 2**20
"""The most bytes of JSON that are read: fifty times the largest sweep of every implementation."""

DEEPEST = 32
"""The deepest nesting of objects and lists that is read; results nest six deep."""

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


class FileError(KernelZooError, ValueError):
    """A file can't be read as JSON, or can't be written."""


def read_json(path: Path) -> Any:
    """Return the document in a JSON file. The file is gzip-compressed if its name or its link target's ends in .gz.

    Raises FileError unless it is a regular file of JSON with finite numbers, within LARGEST and DEEPEST.
    """
    try:
        with open(
            path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)
        ) as file:  # does not wait for a pipe
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise FileError(f"can't read {path}: it is no regular file")
            packed = ".gz" in (path.suffix, resolve_symlinks(path).suffix)
            raw = (gzip.GzipFile(fileobj=file) if packed else file).read(LARGEST + 1)  # bounds a decompression bomb
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
    if wrong := _why_invalid_document(document):
        raise FileError(f"{path}: {wrong}")
    return document


def _why_invalid_document(document: Any) -> str:
    """Return why a document can't be results, or "". Python's JSON allows NaN, infinities and too deep nesting."""
    left: list[tuple[Any, tuple[str | int, ...]]] = [(document, ())]
    while left:
        value, place = left.pop()
        if isinstance(value, float):
            if not math.isfinite(value):
                return f"{format_document_path(place)} must be a finite number, got {value}"
        elif isinstance(value, dict | list):
            if len(place) >= DEEPEST:
                return f"{format_document_path(place[:3])} ... is nested deeper than {DEEPEST}, which no results are"
            inner = value.items() if isinstance(value, dict) else enumerate(value)
            left += [(part, (*place, key)) for key, part in inner if isinstance(part, float | dict | list)]
    return ""


def format_document_path(keys: tuple[str | int, ...]) -> str:
    """Return the path of keys to a value in a JSON document as text, such as ``benchmarks[3] stats 'median'``."""
    words = ""
    for index, key in enumerate(keys):
        if isinstance(key, int):
            words += f"[{key}]"
        else:
            last = index == len(keys) - 1 and index > 0
            words += f" {key[:80]!r}" if last else f" {key[:80]}"
    return words.strip() or "the document"


def resolve_symlinks(path: Path) -> Path:
    """Return the path with links resolved, so that locks and writes agree on a file with several names."""
    return Path(os.path.realpath(path))


def printable(text: str) -> str:
    """Return the text on one line without control characters, safe for a terminal."""
    if text.isprintable() and "  " not in text:
        return text.strip()
    return " ".join("".join(c if c.isprintable() else " " for c in _COLOURS.sub("", text)).split())


def check_parent_folder(path: Path) -> None:
    """Raise FileError unless there is a folder in which to write that path."""
    if not (folder := path.absolute().parent).is_dir():
        if folder.exists():
            raise FileError(f"{str(folder)!r} is no folder for {path.name!r}; name another one with -o")
        raise FileError(f"no folder {str(folder)!r} for {path.name!r}; make it, or name another one with -o")


def write_atomically(path: Path, content: bytes, *, permissions: int | None = None) -> None:
    """Replace a file atomically: write, sync, rename. Readers see the old or the new content, even after a crash.

    Without ``permissions``, a replaced file's are kept, and a new file gets the usual ones. A link is followed. Raises
    OSError that names the file. The file is then unchanged.
    """
    given, path = path, resolve_symlinks(path)
    try:
        if path.exists() and not path.is_file():
            raise OSError(None, "it is no regular file, which is all that is ever replaced")
        path.parent.mkdir(parents=True, exist_ok=True)
        if permissions is None and path.exists():
            permissions = stat.S_IMODE(path.stat().st_mode)
        partial = path.with_name(f".{path.name}.{secrets.token_hex(8)}{_PARTIAL}")
        try:
            with open(partial, "xb") as file:
                if permissions is not None:
                    os.fchmod(file.fileno(), permissions)
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(partial, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(partial)
            raise
        _sync_folder(path.parent)
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(given)) from error


_PARTIAL = ".partial"


def _sync_folder(folder: Path) -> None:
    """Make the rename survive a power cut. Some file systems can't sync a folder."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextlib.contextmanager
def hold_file_lock(path: Path) -> Iterator[None]:
    """A context that locks a file against other processes, and removes partial files of killed processes.

    The lock file ``.NAME.lock`` is in the same folder, and is removed at the end. If the process is killed, that file
    stays, but unlocked. Raises FileError if another process has the lock, OSError if the lock file can't be made.
    """
    from filelock import FileLock, Timeout  # a reader does not need it

    given, path = path, resolve_symlinks(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path.with_name(f".{path.name}.lock"))
    try:
        lock.acquire(timeout=0.1)  # retries if the last holder has just removed the lock file
    except Timeout:
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
            os.unlink(lock.lock_file)  # while it is still locked
        lock.release()
