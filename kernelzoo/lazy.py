"""Torch, imported when it is first used: names and numbers of operations are told without it."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch as torch
else:

    class _Torch:
        """Looks names up in the module ``torch``: a type or dtype once, since it stays; all others each time."""

        def __getattr__(self, name: str) -> Any:
            import torch

            found = getattr(torch, name)
            if isinstance(found, type | torch.dtype):
                setattr(self, name, found)
            return found

    torch = _Torch()
