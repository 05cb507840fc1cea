"""Launch tables: the numbers that choose tiles, grids and algorithms for a card.

A backend declares a table for each operation: a frozen dataclass whose fields are *knobs*. Shipped values were measured
on an H200. ``kernelzoo tune`` measures other values on this card, and stores better ones in the user's cache folder.
New processes use them on such a card.

A knob may change the time, never the result: with any allowed value the plan must be right and within the device's
limits. A number that must not vary (a warp, a 16-byte vector, the threads of a block) is a constant.

Binds ask ``of(Table, device)`` for the table in use. Tables compare by identity, with one object for each set of
values, so that look-ups are fast.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, cast

from kernelzoo.device import hold_value
from kernelzoo.errors import KernelZooError, UnknownNameError
from kernelzoo.files import write_atomically
from kernelzoo.user_cache import folder

ENVIRONMENT = "KERNELZOO_TABLES"
"""The environment variable that makes every bind use the shipped tables if it is ``shipped``."""

FORMAT = "kernelzoo-table/1"

T = TypeVar("T")
Json = dict[str, Any]


class TableError(KernelZooError, ValueError):
    """A launch table is not declared, or its knob does not allow the value."""


class TableWarning(UserWarning):
    """A user's stored launch table can't be used, so the shipped one is used."""


# ---------------------------------------------------------------------------------------------------------------------
# Declaring


@dataclass(frozen=True)
class Knob:
    """One number of a launch table."""

    name: str
    shipped: int
    among: tuple[int, ...]
    """The allowed values, ascending."""
    unit: str
    why: str
    """The decision that it controls, in one line."""


def knob(shipped: int, *, among: Sequence[int], unit: str, why: str) -> Any:
    """Return a field of a launch table: its shipped value, allowed values, unit, and what it decides."""
    if shipped not in among or list(among) != sorted(set(among)):
        raise TableError(f"the values of a knob ascend and hold the shipped one; got {shipped} and {tuple(among)}")
    return field(default=shipped, metadata={"knob": (tuple(among), unit, why)})


def form_knobs(variant_knobs: type[T]) -> type[T]:
    """Declare the decorated class as one variant's knobs. The operation's table inherits it (see ``launch_table``)."""
    return dataclass(frozen=True, eq=False)(variant_knobs)


def launch_table(backend: str, op: str) -> Callable[[type[T]], type[T]]:
    """Declare the decorated class, whose fields are knobs, as the launch table of a backend's operation.

    It inherits the knobs that variants declare by ``form_knobs``. Raises TableError if two variants share a name.
    """

    def declare(table: type[T]) -> type[T]:
        made = dataclass(frozen=True, eq=False)(table)
        parts = [part for part in made.__mro__[1:] if dataclasses.is_dataclass(part)]
        for part in parts:
            for other in parts:
                shared = vars(part).get("__annotations__", {}).keys() & vars(other).get("__annotations__", {}).keys()
                if part is not other and shared:
                    raise TableError(f"knobs {', '.join(shared)} are in both {part.__module__} and {other.__module__}")
            _whole[part] = made
        _declared[backend, op] = made
        return made

    return declare


def declared_table(backend: str, op: str) -> type[Any] | None:
    """Return a backend's table for an operation, once its module is loaded; None if it has none."""
    return _declared.get((backend, op))


def knobs(table: type[Any]) -> tuple[Knob, ...]:
    """Return the knobs of a table, in its order."""
    return tuple(Knob(f.name, cast("int", f.default), *f.metadata["knob"]) for f in dataclasses.fields(table))


def digest(table: type[Any]) -> str:
    """Return a hash of a table's declaration. A stored table of another declaration must not be used."""
    return _digest([[k.name, k.shipped, k.among] for k in knobs(table)])


def table_with_values(table: type[T], values: Mapping[str, int]) -> T:
    """Return the table with these values, and shipped values for other knobs. Each set of values has one object.

    Raises TableError for an unknown knob, or a value that the knob does not allow.
    """
    allowed = {k.name: k for k in knobs(table)}
    for name, value in values.items():
        if name not in allowed:
            raise TableError(f"no knob {name!r} in {_name(table)}; it has {', '.join(allowed)}")
        if type(value) is not int or value not in allowed[name].among:
            values_of = ", ".join(map(str, allowed[name].among))
            raise TableError(f"{_name(table)}.{name} may be {values_of}; got {value!r}")
    return _deduplicate_table(table(**values))


def _deduplicate_table(table: T) -> T:
    """Return the single object with this table's values."""
    return cast(T, _made.setdefault((type(table), *vars(table).values()), table))


def changed_knobs(table: Any) -> dict[str, int]:
    """Return the knobs of a table whose values are not the shipped ones."""
    return {k.name: value for k in knobs(type(table)) if (value := getattr(table, k.name)) != k.shipped}


_declared: dict[tuple[str, str], type[Any]] = {}
_whole: dict[type[Any], type[Any]] = {}
"""The launch table that inherits each class declared by ``form_knobs``."""
_made: dict[tuple[Any, ...], Any] = {}


def _name(table: type[Any]) -> str:
    return "/".join(next((key for key, declared in _declared.items() if declared is table), (table.__name__,)))


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:12]


# ---------------------------------------------------------------------------------------------------------------------
# Tables in use


chosen: ContextVar[Mapping[type[Any], Any]] = ContextVar("chosen", default={})  # noqa: B039 - nobody writes to it
"""Tables that replace others while this thread binds; see ``using``."""


def using(table: Any) -> AbstractContextManager[Any]:
    """A context in which this thread binds with that table on any device."""
    return hold_value(chosen, {**chosen.get(), type(table): table})


def of(table: type[T], device: int) -> T:
    """Return the table in use on the device of that index. A negative index is a simulated device, which uses the
    shipped table. If ``table`` has one variant's knobs, return the operation's table that inherits from it.

    Raises UnknownNameError for a wrong value of the variable KERNELZOO_TABLES.
    """
    whole = _whole.get(table, table)
    return cast(T, chosen.get().get(whole) or _in_force.get((whole, device)) or _load(whole, device))


def table_label(backend: str, op: str, device: int) -> str | None:
    """Return the name of the table in use: ``shipped``, or ``tuned`` and a digest of its values; None without one."""
    table = declared_table(backend, op)
    if table is None:
        return None
    values = changed_knobs(of(table, device))
    return f"tuned {_digest(values)}" if values else "shipped"


def forget_loaded() -> None:
    """Read stored tables again at the next bind. Existing launches stay unchanged."""
    _in_force.clear()
    _warned.clear()


_in_force: dict[tuple[type[Any], int], Any] = {}
_warned: set[Path] = set()


# ---------------------------------------------------------------------------------------------------------------------
# Stored tables


@dataclass(frozen=True)
class Gpu:
    """A model of GPU. A launch table is measured for one model, and used on each card of that model."""

    name: str
    capability: str
    """``9.0``, or AMD's name of the architecture."""
    multiprocessors: int

    def __str__(self) -> str:
        return f"{self.name} ({self.capability}, {self.multiprocessors} multiprocessors)"


def card(device: int) -> Gpu | None:
    """Return the card of that index, as torch describes it; None if there is none."""
    import torch

    try:
        found: Any = torch.cuda.get_device_properties(device)
    except (RuntimeError, AssertionError):  # no driver, torch without CUDA, or no such index
        return None
    architecture = getattr(found, "gcnArchName", "") if torch.version.hip else f"{found.major}.{found.minor}"
    return Gpu(found.name, architecture.partition(":")[0], found.multi_processor_count)


def path(card: Gpu, backend: str) -> Path:
    """Return the file of a card's tables for a backend, which may not exist. Raises RuntimeError without a home."""
    name = re.sub(r"[^a-z0-9.]+", "-", f"{card.name} {card.capability} {card.multiprocessors}".lower()).strip("-")
    return folder("tables") / f"{name}-{backend}.json"


def make_folder(where: Path) -> None:
    """Make the folder of stored tables if necessary, for its owner alone. Raises OSError."""
    where.mkdir(mode=0o700, parents=True, exist_ok=True)


def store(
    card: Gpu, backend: str, op: str, declared: str, values: Mapping[str, int], setup: Json, evidence: Sequence[Json]
) -> Path:
    """Store a table for a card, in the file with those of other operations. Return the file's path.

    declared: the ``digest`` of the table. values: knobs that differ from shipped. setup: what they were measured with.
    evidence: the measurements. Readers see the old or the new content, and concurrent writers keep each other's tables.
    Raises OSError where the folder can't be written, RuntimeError for a user without a home.
    """
    file = path(card, backend)
    make_folder(file.parent)
    section = {"declared": declared, "values": dict(values), "about": setup, "evidence": list(evidence)}
    with _writer_lock(file):
        sections = {}
        with contextlib.suppress(OSError, ValueError, TypeError, KeyError, TableError):  # damaged content is dropped
            sections = _parse_tables(file.read_bytes(), card, backend)
        _write(file, card, backend, {**sections, op: section})
    return file


def _write(file: Path, card: Gpu, backend: str, sections: Json) -> None:
    document = {"format": FORMAT, "backend": backend, "card": dataclasses.asdict(card), "tables": sections}
    write_atomically(file, json.dumps(document, indent=1).encode(), permissions=0o600)


def reset(card: Gpu, backend: str, ops: Sequence[str] = ()) -> Path | None:
    """Delete a card's tables for a backend, or those of some operations. Return the path, or None without a file.

    Raises OSError where the folder can't be written, RuntimeError for a user without a home.
    """
    file = path(card, backend)
    if not file.exists():
        return None
    with _writer_lock(file):
        left: Json = {}
        if ops:
            with contextlib.suppress(OSError, ValueError, TypeError, KeyError, TableError):
                sections = _parse_tables(file.read_bytes(), card, backend)
                left = {op: section for op, section in sections.items() if op not in ops}
                if len(left) == len(sections):
                    return None
        if left:
            _write(file, card, backend, left)
        else:
            file.unlink(missing_ok=True)
    return file


def _load(table: type[T], device: int) -> T:
    """Return the stored table for a device, or the shipped one, and use it from now on."""
    setting = os.environ.get(ENVIRONMENT, "")
    if setting not in ("", "shipped"):
        raise UnknownNameError(f"value of {ENVIRONMENT}", setting, ("shipped",))
    shipped = _deduplicate_table(table())
    here = None if setting or device < 0 else card(device)
    _in_force[table, device] = found = shipped if here is None else _read_stored_table(table, here, shipped)
    return found


def _read_stored_table(table: type[T], here: Gpu, shipped: T) -> T:
    """Return the stored table for a card, or the shipped one if there is no usable one."""
    ((backend, op),) = [key for key, value in _declared.items() if value is table]
    try:
        file = path(here, backend)
        sections = _parse_tables(file.read_bytes(), here, backend)
        if op not in sections:
            return shipped
        section = sections[op]
        if section["declared"] != digest(table):
            raise TableError(f"its {op} table is of another version of kernelzoo")
        return table_with_values(table, dict(section["values"]))
    except TableError as error:
        reason = str(error)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        reason = f"it is damaged ({type(error).__name__}: {error})"
    except (FileNotFoundError, RuntimeError):
        return shipped
    except OSError as error:
        reason = error.strerror or str(error)
    if file not in _warned:
        _warned.add(file)
        words = f"the launch table in {file} is not used: {reason}; remove it, or measure anew with: kernelzoo tune"
        warnings.warn(words, TableWarning, stacklevel=2)
    return shipped


def _parse_tables(content: bytes, card: Gpu, backend: str) -> Json:
    """Return the tables in a file, by operation. Raises TableError, or any error from malformed content."""
    document = json.loads(content)
    if document["format"] != FORMAT:
        raise TableError(f"its format is {document['format']!r}, and {FORMAT!r} is read here")
    if document["backend"] != backend or document["card"] != dataclasses.asdict(card):
        raise TableError(f"it is for {document['backend']} on {document['card']}, and this is {backend} on {card}")
    return dict(document["tables"])


def _writer_lock(file: Path) -> AbstractContextManager[object]:
    """A lock for one writer of the file, among processes and threads."""
    from filelock import FileLock  # a bind does not need it

    return FileLock(file.with_suffix(".lock"))
