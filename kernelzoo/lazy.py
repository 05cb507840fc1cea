"""Torch, imported when it is first used: names and numbers of operations are told without it."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch as torch
else:

    class _Torch:
        """The module ``torch``, asked anew each time, so that it may change."""

        def __getattr__(self, name: str) -> Any:
            import torch

            return getattr(torch, name)

    torch = _Torch()
