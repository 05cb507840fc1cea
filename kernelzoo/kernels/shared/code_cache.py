"""Machine code on disk, which is as good as a program: it is kept in folders that nobody else can write to, and taken
from no others. Ours are files that appear whole or not at all, with a digest; a language's own are of its own making.
"""

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


def text_of(package: Path) -> str:
    """A digest of all Python files below a folder, which make its kernels."""
    digest = hashlib.sha256()
    for file in sorted(package.rglob("*.py")):
        digest.update(str(file.relative_to(package)).encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


def read(folder: Path, name: str) -> bytes | None:
    """What was kept under that name, or None where it is not there whole or is not to be trusted."""
    try:
        with _opened(folder) as within:
            handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=within)
        with os.fdopen(handle, "rb") as file:
            about = os.fstat(handle)
            held = file.read() if stat.S_ISREG(about.st_mode) and not _distrust(about) else b""
    except FileNotFoundError:
        return None
    except OSError as error:
        _warn(folder, str(error.strerror or error))
        return None
    content = held[_DIGEST:]
    return content if hashlib.sha256(content).digest() == held[:_DIGEST] else None


def write(folder: Path, name: str, content: bytes) -> None:
    """Keep the content under that name, if that can be. Another process sees all of it or nothing."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _opened(folder) as within:
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


def for_language(variable: str, default: Path) -> Path | None:
    """Let a language that keeps machine code in the folder of an environment variable, or in the default, do so only
    where nobody else can write; otherwise in a folder that is thrown away with this process, which is returned.

    Of a group nothing is said: where each user has one alone, as on most systems, its members may write by default.
    """
    folder = Path(os.environ.get(variable) or default)
    try:
        if not (folder.exists() or folder.is_symlink()):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)  # another process may have been here first
        with _opened(folder.resolve(), stat.S_IWOTH):
            if not os.access(folder, os.W_OK | os.X_OK):
                raise PermissionError("it can't be written to")
    except (OSError, RuntimeError) as error:  # the latter is a chain of links without an end
        return thrown_away(variable, folder, str(getattr(error, "strerror", None) or error))
    return None


def thrown_away(variable: str, folder: Path, reason: str) -> Path:
    """A folder for this process alone, in place of one that can't be used for a reason."""
    _warn(folder, f"{reason}; mend it, or set {variable} to another")
    instead = children.scratch()
    os.environ[variable] = str(instead)
    return instead


_GROUP_OR_ANYONE = stat.S_IWGRP | stat.S_IWOTH


@contextmanager
def _opened(folder: Path, writers: int = _GROUP_OR_ANYONE) -> Iterator[int]:
    """A descriptor of the folder, which no link leads away from; OSError if it is not ours, or if these may write."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        if reason := _distrust(os.fstat(handle), writers):
            raise PermissionError(reason)
        yield handle
    finally:
        os.close(handle)


def _distrust(about: os.stat_result, writers: int = _GROUP_OR_ANYONE) -> str:
    """Why others may have written there, or "". Whoever can write the programs themselves, root, is no other."""
    if about.st_uid not in (os.geteuid(), 0):
        return f"it belongs to user {about.st_uid}"
    return f"others may write to it (mode {stat.S_IMODE(about.st_mode):03o})" if about.st_mode & writers else ""


def _warn(folder: Path, reason: str) -> None:
    """Once for each folder."""
    if folder not in _warned:
        _warned.add(folder)
        warnings.warn(
            f"no machine code is kept in {folder}, and each process compiles for itself: {reason}",
            CacheWarning,
            stacklevel=3,
        )


_warned: set[Path] = set()
