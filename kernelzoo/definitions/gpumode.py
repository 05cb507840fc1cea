"""Problems of gpu-mode: a folder with ``task.yml`` and ``reference.py``, and a file with ``custom_kernel``."""

from __future__ import annotations

import ast
import json
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from kernelzoo import children
from kernelzoo.definitions.files import DefinitionError, Json, identifier, top_level_names
from kernelzoo.definitions.loading import EXPECTS, declare_self_drawing_operation
from kernelzoo.definitions.reference import ONE_OF_SEVERAL
from kernelzoo.definitions.solutions import add_solution, bind_returning
from kernelzoo.definitions.tolerance import uses_tolerance_of_problem_set
from kernelzoo.errors import ContractError
from kernelzoo.lazy import torch
from kernelzoo.operations import Arguments, Operation
from kernelzoo.packages import load_module

_CODE = "def run(*tensors):\n    return _kernelzoo_run(tensors)\n"

_DEVICE = "_kernelzoo_device"

_folders: list[ProblemFolder] = []
"""The loaded problems, in the order of loading."""


class ProblemFolder:
    """A problem's folder and the functions of its code, in which the call's device replaces ``"cuda"``."""

    def __init__(self, path: Path) -> None:
        self.path, self.task = path, _read_task(path / "task.yml")
        self.operations: dict[str, ProblemInstance] = {}
        self.stage = children.make_scratch_folder()
        """A temporary folder with the files that the task names."""
        for file in self.task["files"]:
            if not file["source"].startswith("@") and (path / file["source"]).is_file():
                shutil.copyfile(path / file["source"], self.stage / Path(file["name"]).name)
        code = ast.parse((path / "reference.py").read_text(encoding="utf-8"))
        self.by_property = not _uses_name(code, "check_implementation", "ref_kernel")
        self.space: dict[str, Any] = {"__name__": "reference", _DEVICE: _usual_device()}
        with self.importable_files():
            exec(
                compile(ast.fix_missing_locations(_DeviceReplacer().visit(code)), str(path / "reference.py"), "exec"),
                self.space,
            )
        for name in ("generate_input", "ref_kernel", "check_implementation"):
            if name not in self.space:
                raise DefinitionError(f"{path / 'reference.py'} has no {name}")

    @contextmanager
    def importable_files(self) -> Iterator[None]:
        """A context in which imports find the files that the problem names, such as ``utils`` and ``task``."""
        names = [file.stem for file in self.stage.glob("*.py")]
        kept = {name: sys.modules.pop(name) for name in names if name in sys.modules}
        sys.path.insert(0, str(self.stage))
        try:
            yield
        finally:
            sys.path.remove(str(self.stage))
            for name in names:
                sys.modules.pop(name, None)
            sys.modules.update(kept)


class ProblemInstance:
    """One test or benchmark of a problem, whose sizes are fixed."""

    def __init__(self, folder: ProblemFolder, settings: dict[str, Any]) -> None:
        self.folder, self.settings = folder, settings
        with _fill_new_memory():
            self.data = self.draw_data(torch.device(_usual_device()), int(settings.get("seed", 0)))
        tensors = list(nested_tensors(self.data))
        self.buffers = [number for number, x in enumerate(tensors) if _is_unset(x)]
        self.shapes = [(tuple(x.shape), x.dtype) for x in tensors]
        self.inputs = [x for number, x in enumerate(tensors) if number not in self.buffers]
        found = self.run(self.inputs)
        unset = dict(self.shapes[number] for number in self.buffers)
        several = found if isinstance(found, list | tuple) else [found]
        if strange := [type(x).__name__ for x in several if not isinstance(x, torch.Tensor)]:
            raise TypeError(f"ref_kernel returned {strange[0]}, must return tensors")
        self.results = [x.to(unset.get(tuple(x.shape), x.dtype)) for x in several]
        """The reference's results, in the dtypes of the result buffers. A reference may return wider dtypes."""

    def draw_data(self, device: torch.device, seed: int) -> Any:
        """Draw new data by the problem's ``generate_input``."""
        self.folder.space[_DEVICE] = str(device)
        settings = {**self.settings, **({"seed": seed} if "seed" in self.settings else {})}
        return self.folder.space["generate_input"](**settings)

    def draw(self, sizes: Any, device: torch.device) -> dict[str, Any]:
        """Draw new inputs, with a seed from the global generator, and return them by name."""
        tensors = list(nested_tensors(self.draw_data(device, int(torch.randint(2**30, (1,))))))
        return {f"x{place}": x for place, x in enumerate(x for n, x in enumerate(tensors) if n not in self.buffers)}

    def fill_data(self, tensors: Sequence[torch.Tensor], outs: Sequence[torch.Tensor] = ()) -> Any:
        """Return the problem's data with these inputs. Result buffers are replaced by ``outs``, or by new memory."""
        left, spare, every = list(tensors), list(outs), []
        wide = any(x.dtype == torch.float64 for x in tensors)
        for number, (shape, dtype) in enumerate(self.shapes):
            if number not in self.buffers:
                every.append(left.pop(0))
                continue
            fitting = next((out for out in spare if tuple(out.shape) == shape and out.dtype == dtype), None)
            kind = torch.float64 if wide and dtype.is_floating_point else dtype
            every.append(torch.empty(shape, dtype=kind, device=tensors[0].device) if fitting is None else fitting)
            spare = [out for out in spare if out is not fitting]
        return replace_nested_tensors(self.data, iter(every))

    def run(self, tensors: Sequence[torch.Tensor]) -> Any:
        """Return the reference's results."""
        self.folder.space[_DEVICE] = tensors[0].device.type
        return self.folder.space["ref_kernel"](self.fill_data(tensors))

    def wrap_submission(self, submission: Callable[[Any], Any]) -> Callable[..., Any]:
        """Return ``make_call`` for :func:`bind_returning`. It binds the submission to the problem's nested data."""
        return lambda arguments, outs: partial(submission, self.fill_data(arguments, outs))

    def own_check(self, args: Arguments) -> ProblemCheck:
        """Return the problem's own check for a call."""
        return ProblemCheck(self, tuple(x.clone() for x in args.inputs))


class ProblemCheck:
    """The problem's own check by ``check_implementation``, for these inputs."""

    def __init__(self, entry: ProblemInstance, inputs: tuple[torch.Tensor, ...]) -> None:
        self._entry, self._inputs = entry, inputs

    def check(self, outs: Sequence[torch.Tensor]) -> None:
        """Raise ContractError, with the check's own message, for results that it rejects."""
        entry, copies = self._entry, [out.clone() for out in outs]
        data = entry.fill_data([x.clone() for x in self._inputs])
        entry.folder.space[_DEVICE] = self._inputs[0].device.type
        said = entry.folder.space["check_implementation"](data, copies[0] if len(copies) == 1 else tuple(copies))
        several = (not said, said) if isinstance(said, str) else (said, "")
        right, words = said if isinstance(said, list | tuple) else several
        if not right:
            raise ContractError(f"{entry.folder.path.name}, by its own check: {words}", "wrong value")

    check_within_bounds = check


def is_task_folder(path: str | Path) -> bool:
    """Whether a path is a problem's folder."""
    return Path(path).is_dir() and all(Path(path, name).is_file() for name in ("task.yml", "reference.py"))


def load_task_folder(path: str | Path) -> tuple[Operation, ...]:
    """Read a problem of gpu-mode, and declare an operation for each of its tests. **This runs its code.**

    If there is a GPU, benchmarks become operations too. ``generate_input`` draws the inputs from a seed. A tensor that
    it leaves unset is a buffer for a result of that dtype. ``ref_kernel`` is the reference. Results are judged as for a
    definition. If ``check_implementation`` does not use ``ref_kernel``, it alone judges instead.

    Raises DefinitionError for a problem that fails.
    """
    try:
        folder = ProblemFolder(Path(path).resolve())
        tests = [*folder.task["tests"], *(folder.task["benchmarks"] if torch.cuda.is_available() else [])]
        made = {_operation_name(folder.path.name, settings): ProblemInstance(folder, settings) for settings in tests}
    except DefinitionError:
        raise
    except Exception as error:
        raise DefinitionError(f"{path}: the problem fails: {type(error).__name__}: {error}") from error
    _folders.append(folder)
    found = []
    for name, entry in made.items():
        space: dict[str, Any] = {"_kernelzoo_run": entry.run, "_kernelzoo_draw": entry.draw}
        if folder.by_property or uses_tolerance_of_problem_set():
            space[EXPECTS] = entry.own_check
        if folder.by_property:
            space[ONE_OF_SEVERAL] = True
        description = f"{folder.path.name} of gpu-mode, {entry.settings}."
        found.append(declare_self_drawing_operation(name, description, entry.inputs, entry.results, _CODE, path, space))
        folder.operations[found[-1].name] = entry
    return tuple(found)


def defines_kernel(path: str | Path) -> bool:
    """Whether a file defines or assigns ``custom_kernel``. None of the file's code runs."""
    return "custom_kernel" in top_level_names(path)


def load_custom_kernel(path: str | Path) -> None:
    """Read a submission to the problem that was loaded last, and register it for each of its operations.

    **This runs its code.** Raises DefinitionError without a problem, or for a submission that can't be built.
    """
    if not _folders:
        raise DefinitionError(f"{path} is a submission; load its problem first, with --reference FOLDER")
    folder = _folders[-1]
    try:
        with folder.importable_files():
            function = load_module(str(path)).custom_kernel
    except Exception as error:
        raise DefinitionError(f"{path} can't be built: {type(error).__name__}: {error}") from error
    doc = f"{Path(path).name}, a submission to {folder.path.name}."
    for op, entry in folder.operations.items():
        add_solution("submission", op, Path(path).stem, bind_returning(op, entry.wrap_submission(function)), doc)


def nested_tensors(data: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors in nested tuples, lists and dicts, in order."""
    if isinstance(data, torch.Tensor):
        yield data
    elif isinstance(data, list | tuple | dict):
        for one in data.values() if isinstance(data, dict) else data:
            yield from nested_tensors(one)


def replace_nested_tensors(data: Any, tensors: Iterator[torch.Tensor]) -> Any:
    """Return the same nested data with these tensors in place of its own."""
    if isinstance(data, torch.Tensor):
        return next(tensors)
    if isinstance(data, dict):
        return {key: replace_nested_tensors(one, tensors) for key, one in data.items()}
    if isinstance(data, list | tuple):
        made = [replace_nested_tensors(one, tensors) for one in data]
        return type(data)(*made) if hasattr(data, "_fields") else type(data)(made)
    return data


class _DeviceReplacer(ast.NodeTransformer):
    """Replaces the text ``"cuda"`` by the name of the device."""

    def visit_Constant(self, node: ast.Constant) -> ast.expr:  # ast's own
        return ast.copy_location(ast.Name(_DEVICE, ast.Load()), node) if node.value == "cuda" else node


def _read_task(path: Path) -> Json:
    """Return a task's files, tests and benchmarks: lists of mappings. The file must have one mapping per line."""
    found: dict[str, list[Any]] = {"files": [], "tests": [], "benchmarks": []}
    part = ""
    for line in path.read_text(encoding="utf-8").splitlines():
        if line[:1].isalpha():
            part = line.partition(":")[0].strip()
        text = line.strip()
        if part in found and text.startswith("- {"):
            text = text.removeprefix("- ").partition(" #")[0].strip()
            for parse in (json.loads, ast.literal_eval):
                with suppress(ValueError, SyntaxError):
                    found[part].append(parse(text))
                    break
            else:
                raise DefinitionError(f"{path}: can't read {text!r}; write each of its {part} as JSON")
        elif part in found and text.startswith("- "):
            raise DefinitionError(f"{path}: can't read {text!r}; write each of its {part} on one line, as JSON")
    if not found["tests"] or not found["files"]:
        raise DefinitionError(f"{path} lists no files or no tests in lines that begin with '- {{'")
    return found


def _uses_name(code: ast.Module, function: str, name: str) -> bool:
    """Whether a function's definition, or the expression assigned to it, uses a name."""
    for node in code.body:
        named = isinstance(node, ast.FunctionDef) and node.name == function
        named |= isinstance(node, ast.Assign) and any(getattr(one, "id", "") == function for one in node.targets)
        if named:
            return any(isinstance(each, ast.Name) and each.id == name for each in ast.walk(node))
    return False


def _operation_name(folder: str, settings: dict[str, Any]) -> str:
    said = "_".join(f"{key}_{value}" for key, value in settings.items() if key != "seed")
    return identifier(f"{folder}_{said}" if said else folder)


def _usual_device() -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"


@contextmanager
def _fill_new_memory() -> Iterator[None]:
    """A context in which torch fills new memory with NaN or the largest integer, to recognise unset tensors."""
    before, only = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before, warn_only=only)


def _is_unset(x: torch.Tensor) -> bool:
    if not x.numel() or x.dtype == torch.bool:
        return False
    if x.is_floating_point():
        return bool((x.float() != x.float()).all())
    return bool((x == torch.iinfo(x.dtype).max).all())
