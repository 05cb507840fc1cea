"""A stand-in for the module torch that imports it at first use. Listing operations needs no torch."""

from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch as torch
else:

    class _Torch:
        """Looks names up in the module ``torch``. Modules, types, dtypes and layouts never change, and are cached."""

        def __getattr__(self, name: str) -> Any:
            import torch

            found = getattr(torch, name)
            if isinstance(found, ModuleType | type | torch.dtype | torch.layout):
                setattr(self, name, found)
            return found

    torch = _Torch()
