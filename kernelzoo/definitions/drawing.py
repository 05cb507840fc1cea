"""Draws a definition's inputs: by its own function, from a stated range, or by the usual meaning of a name."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from kernelzoo.definitions.axes import Axes, axes_equal_to_last_entry_of_inputs
from kernelzoo.definitions.files import DefinitionError, Json, safe_name
from kernelzoo.lazy import torch
from kernelzoo.operations import INTEGERS, Input
from kernelzoo.operations.sampling import draw_declared

RANDOM = {"int8": (-128, 128), "uint8": (0, 256)}
"""The range of an integer input that a workload marks as random, by dtype, as both problem sets state it."""
_RANDOM = (-1024, 1024)

MEANT = (
    (r"(kv_)?last_page_len", "lengths", ("page_size",)),
    (r"seq_lens|kv_len_arr", "lengths", ("max_seq_len", "max_num_pages * page_size", "num_pages * page_size")),
    (r"(kv|page)_indices|page_tables?|block_tables?", "indices", ("num_pages", "num_blocks")),
    (r"sparse_indices", "indices", ("num_pages * page_size", "num_pages")),
    (r"(input|token)_ids", "indices", ("vocab_size",)),
    (r"weight_indices", "indices", ("num_experts",)),
    (r"position(_id)?s", "indices", ("max_seq_len", "max_position_embeddings", "max_positions")),
    (r"topk_ids", "distinct", ("num_experts",)),
    (r"\w*state\w*_indices", "distinct", ("pool_size", "state_cache_size", "num_states")),
)
"""For each pattern of input names: the kind of the values, and axes that may bound them. Lengths go from 1 to the
bound. Indices are below the bound, and if "distinct", differ along the last axis."""

_BOUNDARIES = (
    (r"kv_indptr", ("num_kv_indices", "total_kv", "num_pages")),
    (r"qo_indptr", ("total_q", "batch_size")),
    (r"\w*indptr|cu_seq\w*", ("total_seq_len", "total_tokens")),
)
"""For names of inputs with offsets from 0: the axes that may be the last offset, unless a constraint names one."""

Draw = Callable[[tuple[int, ...], str, Mapping[str, Any], "torch.Generator"], "torch.Tensor"]


@dataclass(frozen=True)
class DrawingMethod:
    """The way in which the inputs of a definition are drawn."""

    inputs: dict[str, Input]
    draws: Callable[..., Any] | None = None
    """A function that draws all inputs together, if they depend on each other."""
    scalars: Callable[..., dict[str, Any]] | None = None
    """A function of sizes that returns the scalars that belong to the drawn inputs."""
    least: dict[str, int] = field(default_factory=dict)
    """The least sizes of axes for which the inputs can be drawn."""


def input_distributions(axes: Axes, space: Mapping[str, Any], workloads: Sequence[Json]) -> DrawingMethod:
    """Return the random distribution of each input. Raises DefinitionError if an integer input has no range."""
    data = axes.data
    tensors = {key: tensor for key, tensor in data["inputs"].items() if tensor["shape"] is not None}
    text = {key: axes.shape_text(key, tensor["shape"]) for key, tensor in tensors.items()}
    custom = data.get("custom_inputs_entrypoint")
    if custom:
        inputs = dict[str, Input]()
        for key, tensor in tensors.items():  # integers have a range, so that no check changes them
            inputs[safe_name(key)] = Input(text[key], tensor["dtype"], low=0 if tensor["dtype"] in INTEGERS else None)
        made = _CustomDraws(axes, space[custom])
        scalars = made.scalars if len(tensors) < len(data["inputs"]) else None
        return DrawingMethod(inputs, made.draws, scalars)
    inputs, own, last_entry_axes = {}, dict[str, Draw](), axes_equal_to_last_entry_of_inputs(data)
    for key, tensor in tensors.items():
        low, high = tensor.get("low"), tensor.get("high")
        if tensor["dtype"] in INTEGERS and tensor["dtype"] != "bool" and low is None and high is None:
            found = _values_meant_by_name(key, tensor, axes, last_entry_axes) or _random_range(key, tensor, workloads)
            if found is None:
                raise DefinitionError(
                    f"{axes.where}: nothing says which integers {key!r} may hold; "
                    "state them by keys 'low' and 'high' beside its dtype"
                )
            if callable(found):
                own[safe_name(key)] = found
                found = (0, None)
            low, high = found
        inputs[safe_name(key)] = Input(text[key], tensor["dtype"], low=_as_bound(axes, low), high=_as_bound(axes, high))
    least = {text[key]: 2 for key in tensors if _last_offset_expression(key, data, last_entry_axes)}
    return DrawingMethod(inputs, _make_draw_of_all_inputs(inputs, own) if own else None, least=least)


def _as_bound(axes: Axes, said: Any) -> Any:
    if not isinstance(said, str):
        return said
    try:
        size = axes.axis_text(said)
    except ValueError as error:
        raise DefinitionError(f"{axes.where}: a range has {error}") from None
    return int(size) if size.isdigit() else size


def _values_meant_by_name(key: str, tensor: Json, axes: Axes, last_entry_axes: Mapping[str, str]) -> Any:
    """Return the range, or a function that draws, for an input whose name has a usual meaning; else None."""
    data = axes.data
    if end := _last_offset_expression(key, data, last_entry_axes):
        first = next(found for one in data["inputs"] if (found := _last_offset_expression(one, data, last_entry_axes)))
        return _draw_offsets(axes.axis_text(end), axes.axis_text(first))
    for pattern, kind, candidates in MEANT:
        if re.fullmatch(pattern, key) and (size := _first_known_size(candidates, data)):
            if kind == "distinct":
                return _draw_distinct_indices(axes.axis_text(size))
            return (1, f"{size} + 1") if kind == "lengths" else (0, size)
    packed = tensor["dtype"] == "uint8" or (tensor["dtype"] == "int8" and re.search(r"fp8|packed|cache", key))
    return RANDOM[tensor["dtype"]] if packed else None  # bytes of a packed type, each of which is legal


def _last_offset_expression(key: str, data: Json, last_entry_axes: Mapping[str, str]) -> str:
    """Return the axis or expression that an input's last offset equals; "" if the input has no offsets."""
    for pattern, candidates in _BOUNDARIES:
        if re.fullmatch(pattern, key) and data["inputs"][key]["dtype"] in INTEGERS:
            return last_entry_axes.get(key) or _first_known_size(candidates, data)
    return ""


def _first_known_size(candidates: Sequence[str], data: Json) -> str:
    return next((one for one in candidates if all(name in data["axes"] for name in re.findall(r"\w+", one))), "")


def _random_range(key: str, tensor: Json, workloads: Sequence[Json]) -> tuple[int, int] | None:
    """Return the range of an input that a workload marks as random; None for other inputs."""
    said = {one["inputs"].get(key, {}).get("type") for one in workloads}
    return RANDOM.get(tensor["dtype"], _RANDOM) if "random" in said else None


def _make_draw_of_all_inputs(inputs: dict[str, Input], draw_by_key: Mapping[str, Draw]) -> Callable[..., Any]:
    def draws(sizes: Mapping[str, Any], generator: torch.Generator) -> Any:
        found = []
        for key, declared in inputs.items():
            shape = tuple(int(axis) if axis.isdigit() else sizes[axis] for axis in declared.names)
            dtype = str(declared.dtype)
            draw = draw_by_key.get(key, partial(draw_declared, declared))
            found.append(draw(shape, dtype, sizes, generator))
        return tuple(found)

    return draws


def _draw_offsets(last_offset: str, first_last_offset: str) -> Draw:
    """Return a function that draws ascending offsets, the bounds of packed sequences, from 0 to ``last_offset``.
    ``first_last_offset``: that of the first input with offsets. With a larger ``last_offset``, none is shorter."""

    def draw(shape: tuple[int, ...], dtype: str, sizes: Mapping[str, Any], generator: torch.Generator) -> torch.Tensor:
        last, least = (int(size) if size.isdigit() else int(sizes[size]) for size in (last_offset, first_last_offset))
        seed = sum(map(ord, dtype)) + last % 7 if last < least else 0
        cuts = torch.rand(max(0, shape[0] - 2), generator=torch.Generator().manual_seed(least + seed)).sort().values
        own = torch.rand(cuts.shape, generator=torch.Generator().manual_seed(least + 1)).sort().values
        inner = (cuts * min(least, last)).floor() + (own * max(0, last - least)).floor()
        found = torch.cat([torch.zeros(1), inner, torch.tensor([float(last)])])[: shape[0]]
        return found.to(getattr(torch, dtype)).to(generator.device)

    return draw


def _draw_distinct_indices(size: str) -> Draw:
    """Return a function that draws indices, distinct along the last axis if there are enough."""

    def draw(shape: tuple[int, ...], dtype: str, sizes: Mapping[str, Any], generator: torch.Generator) -> torch.Tensor:
        count = int(size) if size.isdigit() else int(sizes[size])
        rows, length = (shape[0], shape[-1]) if len(shape) > 1 else (1, shape[0])
        order = torch.rand((rows, max(count, 1)), generator=generator, device=generator.device).argsort(-1)
        order = order.repeat(1, -(-length // max(count, 1)))[:, :length]
        return order.reshape(shape).to(getattr(torch, dtype))

    return draw


class _CustomDraws:
    """Inputs drawn by the definition's own function, which takes (sizes by name, device)."""

    def __init__(self, axes: Axes, function: Callable[..., Any]) -> None:
        self._axes, self._function = axes, function
        self._scalars: dict[tuple[tuple[str, int], ...], dict[str, Any]] = {}

    def draws(self, sizes: Mapping[str, Any], generator: torch.Generator) -> Any:
        made = self._call_function(
            sizes, generator.device, int(torch.randint(2**31, (1,), generator=generator, device=generator.device))
        )
        found, inputs = [], self._axes.data["inputs"]
        for key, tensor in inputs.items():
            if tensor["shape"] is None:
                continue
            if not isinstance(made.get(key), torch.Tensor):
                raise ValueError(f"its function for inputs made no tensor {key!r}")
            found.append(made[key].detach().to(generator.device, getattr(torch, tensor["dtype"])).contiguous())
        return tuple(found)

    def scalars(self, sizes: Mapping[str, Any]) -> dict[str, Any]:
        """Return the scalars for these sizes, cached. The function runs on ``meta``, else on a GPU in use."""
        values = tuple(sorted(self._axes.definition_sizes(dict(sizes)).items()))
        if values not in self._scalars:
            try:
                self._scalars[values] = self._compute_scalars(sizes, "meta")
            except Exception:  # it looks at values
                in_use = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
                self._scalars[values] = self._compute_scalars(sizes, "cuda" if in_use else "cpu")
        return self._scalars[values]

    def _compute_scalars(self, sizes: Mapping[str, Any], device: str) -> dict[str, Any]:
        made = self._call_function(sizes, torch.device(device), 0)
        keys = [key for key, one in self._axes.data["inputs"].items() if one["shape"] is None and key in made]
        return {safe_name(k): made[k].item() if isinstance(made[k], torch.Tensor) else made[k] for k in keys}

    def _call_function(self, sizes: Mapping[str, Any], device: torch.device, seed: int) -> dict[str, Any]:
        with seeded_generators(seed, device):
            found: dict[str, Any] = self._function(self._axes.definition_sizes(dict(sizes)), device)
        return found


@contextmanager
def seeded_generators(seed: int, device: torch.device) -> Iterator[None]:
    """A context in which the global generators start from a seed. They are restored afterwards."""
    kept = random.getstate()
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(seed)
        random.seed(seed)
        try:
            with torch.no_grad():
                yield
        finally:
            random.setstate(kept)
