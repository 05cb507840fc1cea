"""A stand-in for the module torch that imports it at first use. Listing operations needs no torch."""

from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch as torch
else:

    class _Torch:
        """Looks names up in the module ``torch``. Modules, types and dtypes are cached, since they never change."""

        def __getattr__(self, name: str) -> Any:
            import torch

            found = getattr(torch, name)
            if isinstance(found, ModuleType | type | torch.dtype):
                setattr(self, name, found)
            return found

    torch = _Torch()
