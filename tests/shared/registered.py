"""Forgetting backends and operations that a test registered."""

from kernelzoo import operations, registry
from kernelzoo.calls import backend


def forget(*names: str) -> None:
    """Forget all that is registered under these names, and what was loaded of them; a package is loaded anew."""
    for table in (registry._registered, registry._choosers):
        for key in [key for key in table if key[0] in names]:
            del table[key]
    for name in names:
        registry._loaded.pop(name, None)
        backend._backends.pop(name, None)
        vars(backend._loaded).pop(name, None)
    backend._best.clear()


def forget_operation(*names: str) -> None:
    """Forget operations that were declared under these names."""
    for name in names:
        operations.declared.pop(name, None)
        backend.functions.pop(name, None)
        if name in vars(backend.Backend):
            delattr(backend.Backend, name)
