"""The folder ``kernelzoo`` in the user's cache, whose files may be deleted at any time."""

from __future__ import annotations

import os
from pathlib import Path


def folder(name: str) -> Path:
    """Return the path of a subfolder of kernelzoo's cache; it may not exist. Raises RuntimeError without a home."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kernelzoo" / name
