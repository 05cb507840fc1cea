"""A disk cache of machine code. Cached code is executed, so other users must not be able to write to its folders.
Files of kernelzoo are written atomically, with a digest. Files in a language's own cache have that language's
format."""

import hashlib
import os
import stat
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from kernelzoo import children
from kernelzoo.errors import CacheWarning

_DIGEST = hashlib.sha256().digest_size


def digest_sources(package: Path) -> str:
    """Return a digest of all Python files below a folder. Cached kernels depend on these files."""
    digest = hashlib.sha256()
    for file in sorted(package.rglob("*.py")):
        digest.update(str(file.relative_to(package)).encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


def read_code(folder: Path, name: str) -> bytes | None:
    """Return the content stored under a name; None if it is missing, damaged or writable by other users."""
    try:
        with _open_trusted(folder) as within:
            handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=within)
        with os.fdopen(handle, "rb") as file:
            about = os.fstat(handle)
            stored = file.read() if stat.S_ISREG(about.st_mode) and not _why_others_may_write(about) else b""
    except FileNotFoundError:
        return None
    except OSError as error:
        _warn(folder, str(error.strerror or error))
        return None
    content = stored[_DIGEST:]
    return content if hashlib.sha256(content).digest() == stored[:_DIGEST] else None


def write_code(folder: Path, name: str, content: bytes) -> None:
    """Store content under a name, atomically. If that fails, only warn."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _open_trusted(folder) as within:
            partial = f".{name}.{os.urandom(8).hex()}.tmp"
            handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600, dir_fd=within)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(hashlib.sha256(content).digest() + content)
                os.replace(partial, name, src_dir_fd=within, dst_dir_fd=within)
            except BaseException:
                with suppress(OSError):
                    os.unlink(partial, dir_fd=within)
                raise
    except OSError as error:
        _warn(folder, str(error.strerror or error))


def check_cache_folder(variable: str, default: Path) -> Path | None:
    """Check a language's cache folder: the environment variable's value, else ``default``. If it is unusable, or other
    users may write there, set the variable to a temporary folder and return that. Otherwise return None.

    The folder's group may write, because on most systems each user has a group without other members."""
    folder = Path(os.environ.get(variable) or default)
    try:
        if not (folder.exists() or folder.is_symlink()):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)  # another process may have been here first
        with _open_trusted(folder.resolve(), stat.S_IWOTH):
            if not os.access(folder, os.W_OK | os.X_OK):
                raise PermissionError("it can't be written to")
    except (OSError, RuntimeError) as error:  # RuntimeError: a loop of symbolic links
        return use_scratch(variable, folder, str(getattr(error, "strerror", None) or error))
    return None


def use_scratch(variable: str, folder: Path, reason: str) -> Path:
    """Warn that a cache folder can't be used, set ``variable`` to a temporary folder, and return that folder."""
    _warn(folder, f"{reason}; mend it, or set {variable} to another")
    instead = children.make_scratch_folder()
    os.environ[variable] = str(instead)
    return instead


_GROUP_OR_ANYONE = stat.S_IWGRP | stat.S_IWOTH


@contextmanager
def _open_trusted(folder: Path, writers: int = _GROUP_OR_ANYONE) -> Iterator[int]:
    """A context with a folder's file descriptor. Raises OSError for a link, or if others may write to the folder."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        if reason := _why_others_may_write(os.fstat(handle), writers):
            raise PermissionError(reason)
        yield handle
    finally:
        os.close(handle)


def _why_others_may_write(status: os.stat_result, writers: int = _GROUP_OR_ANYONE) -> str:
    """Return why users besides this one and root could write to a file or folder, or "". ``writers``: bits to check."""
    if status.st_uid not in (os.geteuid(), 0):
        return f"it belongs to user {status.st_uid}"
    return f"others may write to it (mode {stat.S_IMODE(status.st_mode):03o})" if status.st_mode & writers else ""


def _warn(folder: Path, reason: str) -> None:
    """Warn that a cache folder can't be used, once for each folder."""
    if folder not in _warned:
        _warned.add(folder)
        warnings.warn(
            f"no machine code is kept in {folder}, and each process compiles for itself: {reason}",
            CacheWarning,
            stacklevel=3,
        )


_warned: set[Path] = set()
