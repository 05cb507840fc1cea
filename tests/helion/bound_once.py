"""``install()`` has Helion look at a kernel once for all its configurations, which makes the same faster."""

import importlib.util
import os
from types import SimpleNamespace
from typing import Any

import torch

_bound: dict[tuple[Any, ...], tuple[Any, tuple[Any, ...]]] = {}


def install() -> None:
    """Where Helion is installed. Harmless if done twice."""
    if importlib.util.find_spec("helion") is None:
        return
    import helion

    from kernelzoo.kernels.helion import compiler

    compiler.helion = SimpleNamespace(kernel=_kernel, Config=helion.Config)


def _kernel(fn: Any, *, config: Any, **settings: Any) -> SimpleNamespace:
    import helion

    def bind(args: tuple[Any, ...]) -> Any:
        environment = sorted(item for item in os.environ.items() if item[0].startswith("HELION_"))
        key = fn, repr(sorted(settings.items())), tuple(environment), *map(_kind, args)
        if key not in _bound:  # with the arguments, of which Helion itself keeps weak references
            _bound[key] = helion.kernel(fn, config=config, **settings).bind(args), args
        return _bound[key][0]

    return SimpleNamespace(bind=bind)


def _kind(argument: Any) -> tuple[Any, ...]:
    if isinstance(argument, torch.Tensor):
        return argument.dtype, argument.shape, argument.stride()
    return type(argument), argument
