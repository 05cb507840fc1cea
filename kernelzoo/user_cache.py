"""The folder ``kernelzoo`` in the user's cache, whose files may be deleted at any time."""

from __future__ import annotations

import os
from pathlib import Path


def folder(name: str) -> Path:
    """Return the path of that subfolder, which may not exist. Raises RuntimeError for a user without a home."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kernelzoo" / name
