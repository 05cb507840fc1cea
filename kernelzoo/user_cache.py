"""Where this package keeps files that may be deleted at any time: ``kernelzoo`` in the user's folder for caches."""

from __future__ import annotations

import os
from pathlib import Path


def folder(name: str) -> Path:
    """The part of it that has this name, whether or not it is there.

    Raises RuntimeError for a user who has no home.
    """
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kernelzoo" / name
