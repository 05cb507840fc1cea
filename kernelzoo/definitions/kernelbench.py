"""Problems of KernelBench: a Python file with ``Model``, and one with ``ModelNew`` in its place."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from kernelzoo import registry
from kernelzoo.definitions.drawing import seeded_generators
from kernelzoo.definitions.files import DefinitionError, identifier, top_level_names
from kernelzoo.definitions.loading import declare_self_drawing_operation, loaded
from kernelzoo.definitions.reference import PREPARE
from kernelzoo.definitions.solutions import add_solution, bind_returning
from kernelzoo.lazy import torch
from kernelzoo.operations import Operation
from kernelzoo.packages import load_module

_CODE = f"""

def run(*tensors):
    import torch
    device = next(x.device for x in tensors)
    wide = any(x.dtype == torch.float64 for x in tensors)
    {PREPARE}(device)
    with torch.no_grad():
        return _kernelzoo_models[str(device), wide](*_kernelzoo_arguments(tensors))
"""
"""The reference's code for a problem. If an input is float64, so are the weights, which are drawn before widening."""

_problems: dict[str, Problem] = {}
"""The problems that are loaded, by the name of the operation."""


class Problem:
    """A problem's functions, and the arguments of its model that are no tensors."""

    def __init__(self, space: dict[str, Any]) -> None:
        self.space = space
        self.models: dict[tuple[str, bool], Any] = {}
        with torch.device("meta"), torch.no_grad():
            self.made = self.arguments(torch.device("meta"))
            model = space["Model"](*space["get_init_inputs"]())
            dropping = [each for each in model.modules() if "Dropout" in type(each).__name__ and each.training]
            self.random = [type(each).__name__ for each in dropping if getattr(each, "p", 0) > 0]
            self.results = model(*self.made)

    def arguments(self, device: torch.device) -> list[Any]:
        """Return new arguments for a call of the model, on a device."""
        with torch.device(device):
            return list(self.space["get_inputs"]())

    def fill_arguments(self, tensors: Sequence[torch.Tensor]) -> list[Any]:
        """Return the arguments of the model, with these tensors in place of its own."""
        left = list(tensors)
        return [left.pop(0) if isinstance(x, torch.Tensor) else x for x in self.made]

    def prepare(self, device: torch.device) -> None:
        """Make the model on a device, and its copy in float64, unless they exist."""
        import copy

        if (str(device), False) not in self.models:
            model = make_model(self.space["Model"], self.space["get_init_inputs"]).to(device)
            self.models[str(device), False] = model
            self.models[str(device), True] = copy.deepcopy(model).double()

    def keeps_state(self) -> bool:
        """Whether a second call on the same arguments gives other results."""
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        arguments = self.arguments(device)
        model = make_model(self.space["Model"], self.space["get_init_inputs"]).to(device)
        with torch.no_grad():
            found = [model(*(x.clone() if isinstance(x, torch.Tensor) else x for x in arguments)) for _ in range(2)]
        first, second = (one if isinstance(one, list | tuple) else (one,) for one in found)
        return not all(map(partial(torch.allclose, rtol=1e-3, atol=1e-3, equal_nan=True), first, second))

    def draw(self, sizes: Any, device: torch.device) -> dict[str, Any]:
        """Draw new arguments, and return the tensors among them by name."""
        tensors = [x for x in self.arguments(device) if isinstance(x, torch.Tensor)]
        return {f"x{number}": x for number, x in enumerate(tensors)}


def make_model(model: Callable[..., Any], init: Callable[[], Sequence[Any]]) -> Any:
    """Make a model on the host. Its weights are drawn from KernelBench's own seed."""
    with seeded_generators(42, torch.device("cpu")):
        return model(*init())


def _assigned_by_calls(source: str) -> list[str]:
    """Return the attributes of ``self`` that a method other than ``__init__`` assigns to. None of the code runs."""
    functions = [each for each in ast.walk(ast.parse(source)) if isinstance(each, ast.FunctionDef)]
    inner = (each for one in functions if one.name != "__init__" for each in ast.walk(one))
    stored = (each for each in inner if isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Store))
    return list(dict.fromkeys(ast.unparse(each) for each in stored if getattr(each.value, "id", "") == "self"))


def is_problem(path: str | Path) -> bool:
    """Whether a file is a problem of KernelBench, perhaps an incomplete one. None of the code runs."""
    names = top_level_names(path)
    return "Model" in names and len({"get_inputs", "get_init_inputs"} & names) > ("ModelNew" in names)


def is_submission(path: str | Path) -> bool:
    """Whether a file is a submission to a problem of KernelBench. None of the code runs."""
    return "ModelNew" in top_level_names(path)


def load_problem(path: str | Path) -> Operation:
    """Read a problem of KernelBench, and declare its operation. **This runs its code.**

    Its inputs are the tensors that ``get_inputs`` returns, with new values in each call. The model's ``__init__`` draws
    the weights, from the same seed as a submission's. Results are judged as :func:`kernelzoo.load_definition` says.

    Raises DefinitionError for a problem that fails, or one that draws random numbers.
    """
    source, name = Path(path).read_text(encoding="utf-8"), identifier(Path(path).stem)
    space: dict[str, Any] = {"__name__": "reference"}
    try:
        exec(compile(source, str(path), "exec"), space)
        if lacking := [name for name in ("get_inputs", "get_init_inputs") if name not in space]:
            raise DefinitionError(f"{path} is a problem that lacks {lacking[0]}")
        problem = Problem(space)
    except DefinitionError:
        raise
    except Exception as error:
        raise DefinitionError(f"{path}: the problem fails: {type(error).__name__}: {error}") from error
    if problem.random:
        raise DefinitionError(f"{path}: the model draws random numbers ({', '.join(problem.random)})")
    if (assigned := _assigned_by_calls(source)) and problem.keeps_state():
        raise DefinitionError(f"{path}: the model keeps state ({', '.join(assigned)}), so that its results differ")
    results = problem.results if isinstance(problem.results, list | tuple) else (problem.results,)
    tensors = [x for x in problem.made if isinstance(x, torch.Tensor)]
    if not all(isinstance(x, torch.Tensor) for x in results):
        raise DefinitionError(f"{path}: the model returns something that is no tensor")
    given = {
        "_kernelzoo_models": problem.models,
        "_kernelzoo_arguments": problem.fill_arguments,
        "_kernelzoo_draw": problem.draw,
        PREPARE: problem.prepare,
    }
    _problems[name] = problem
    description = f"{name}, as {Path(path).name} of KernelBench has it."
    return declare_self_drawing_operation(name, description, tensors, results, _CODE, path, given)


def load_submission(path: str | Path) -> registry.Implementation:
    """Read a submission to the problem that was loaded last, and register it as ``submission/PROBLEM/FILE``.

    **This runs its code.** Raises DefinitionError without a problem, or for a submission that can't be built.
    """
    if not _problems:
        raise DefinitionError(f"{path} is a submission; load its problem first, with --reference")
    op, problem = list(_problems.items())[-1]
    try:
        found = load_module(str(path)).ModelNew
        models = {"cpu": make_model(found, problem.space["get_init_inputs"])}
    except Exception as error:
        raise DefinitionError(f"{path} can't be built: {type(error).__name__}: {error}") from error

    def function(*tensors: torch.Tensor) -> Any:
        device = str(tensors[0].device)
        if device not in models:
            models[device] = models["cpu"].to(tensors[0].device)
        with torch.no_grad():
            return models[device](*problem.fill_arguments(tensors))

    bind = bind_returning(op, lambda arguments, outs: partial(function, *arguments))
    doc = f"{Path(path).name}, a submission to {loaded[op].data['name']}."
    return add_solution("submission", op, Path(path).stem, bind, doc)
