"""The problems to measure: an operation on a shape and dtype, and named sets of shapes."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kernelzoo import operations, registry
from kernelzoo.errors import UnknownNameError
from kernelzoo.launch import Launch
from kernelzoo.lazy import torch


@dataclass(frozen=True)
class Problem:
    """One operation on contiguous inputs. ``shape`` and ``dtype`` are the first input's. Rows extend along ``dim``."""

    op: str
    shape: tuple[int, ...]
    dtype: str
    dim: int = -1
    sizes: tuple[tuple[str, int], ...] = ()
    """Sizes of axes that the first input does not have, by name."""
    scalars: tuple[tuple[str, Any], ...] = ()
    """Scalar arguments that differ from their default, by name."""

    @property
    def operation(self) -> operations.Operation:
        return operations.OPERATIONS[self.op]

    @property
    def id(self) -> str:
        known = {} if self.operation.by_rows else self.axes
        said = "".join(f"-{name}={value}" for name, value in self.scalars if name not in known)
        if not self.operation.by_rows:
            sizes = ",".join(f"{axis}={size}" for axis, size in self.axes.items())
            return f"{self.op}-{self.dtype}{'-' * bool(sizes)}{sizes}{said}"
        axis = "" if self.dim == -1 else f"-dim{self.dim}"
        return f"{self.op}-{self.dtype}-{'x'.join(map(str, self.shape))}{axis}{said}"

    @property
    def axes(self) -> dict[str, int]:
        """The size of each named axis, for an operation that is not by rows."""
        named = zip(self.operation.axes[0], self.shape, strict=True)
        free = {*self.operation.free_axes}
        return {axis: size for axis, size in named if axis in free} | dict(self.sizes)

    @property
    def meta(self) -> operations.Arguments:
        """The call's arguments, as tensors on the device ``meta``, without memory."""
        found = self.operation.meta_arguments(self.shape, self.dtype, self.dim, dict(self.sizes))
        return replace(found, scalars=self.operation.scalars_of(dict(self.scalars)))

    @property
    def bytes(self) -> int:
        """The fewest bytes that any implementation must move."""
        return self.operation.bytes_moved(self.meta)

    def inputs(self, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
        """Return new random inputs on the generator's device; see :meth:`kernelzoo.operations.Operation.sample`."""
        drawn = {"sizes": dict(self.sizes), "scalars": dict(self.scalars)}
        return self.operation.sample(self.shape, self.dtype, self.dim, generator=generator, **drawn)

    def launch(
        self, implementation: registry.Implementation, inputs: Sequence[torch.Tensor], outs: Sequence[torch.Tensor]
    ) -> Launch:
        """Bind an implementation to these inputs and outputs, and return the launch."""
        return implementation.launch(*inputs, dim=self.dim, out=tuple(outs), **dict(self.scalars))

    def arguments(self, inputs: Sequence[torch.Tensor]) -> operations.Arguments:
        """Return the arguments of a call on these inputs."""
        return self.operation.arguments(inputs, self.dim, scalars=dict(self.scalars))


def problem_from_json(given: dict[str, Any]) -> Problem:
    """Return the problem that has these fields, as read from JSON."""
    sizes, scalars = (tuple((str(name), value) for name, value in given[key]) for key in ("sizes", "scalars"))
    found = Problem(given["op"], tuple(given["shape"]), given["dtype"], given["dim"], sizes, scalars)
    if "scalars" in found.operation.hooks:  # they are drawn with the inputs, which only this process can do
        return replace(
            found,
            scalars=tuple({**found.operation.scalars_for({**found.axes, **dict(scalars)}), **dict(scalars)}.items()),
        )
    return found


Shape = tuple[int, ...]

_SWEEP = (*((4096, columns) for columns in range(256, 12673, 128)), (1823, 781), (16, 262144))
_QUICK = (*((4096, columns) for columns in (256, 512, 1024, 2048, 4096, 8192)), (1823, 781), (16, 262144))
# Short rows, rows near a power of two, vocabularies (GPT-2, Llama 3, Qwen 2.5, Gemma), and few very long rows.
_FULL = (
    *((1048576, 64), (1000003, 33), (262144, 256), (65536, 1000), (32768, 2048), (16384, 4097), (8192, 8192)),
    *((3001, 5003), (2048, 16384), (4096, 32768), (777, 50257), (1024, 128256), (128, 151936), (512, 256000)),
    *((256, 131072), (61, 99991), (16, 262144), (8, 1048576), (5, 3000017), (1, 16777259)),
)

# The map for scoring backends: the kinds above, some of the sweep, and odd and prime lengths.
_MAP = (
    *_FULL,
    *((4096, columns) for columns in (256, 768, 1024, 2048, 4096, 6144, 12672)),
    (1823, 781),
    # A batch's rows: about as many as SMs, and too short to split.
    *((128, 8192), (264, 12288), (67, 16381), (397, 5003)),
    (64, 4194304),
    *((499979, 61), (100003, 127), (20011, 509), (9973, 1021), (4099, 2053), (1009, 9973)),
    *((251, 40009), (127, 65537), (31, 262147), (13, 524309), (7, 2000003)),
)
# Reductions over other axes than the last: tall and wide matrices over dim 0, and a middle axis.
_AXES = (
    *(((8192, 8192), 0), ((16384, 1000), 0), ((1000003, 33), 0), ((100, 65537), 0)),
    *(((64, 1024, 96), 1), ((16, 4099, 333), 1)),
)

# Hidden sizes of Llama 3.2 1B, Llama 3 8B, 70B, 405B. Rows: one token, two decode batches, a prefill.
_HIDDEN = tuple((rows, hidden) for hidden in (2048, 4096, 8192, 16384) for rows in (1, 16, 256, 8192))
# Vocabularies of Llama 2, GPT-2, Llama 3, Qwen 2.5, Gemma. Rows: one token, two batches, a training step.
_VOCABULARY = tuple((rows, words) for words in (32000, 50257, 128256, 151936, 256000) for rows in (1, 32, 256, 2048))
# Shapes that people run, with the reduced axis. The comments say where they come from.
_PEOPLE = (
    *(((4096, columns), -1) for columns in (1024, 4096, 8192)),  # Triton's tutorial of a fused softmax
    *(((1823, 781), -1), ((16, 262144), -1)),  # the tutorial's test, and rows too long for a block's registers
    *((shape, -1) for shape in (*_HIDDEN, *_VOCABULARY)),
    # Attention scores: GPT-2 small over 1024 tokens, a head of 32 over 4096, and image tokens over 77 of a text.
    *(((98304, 1024), -1), ((32768, 4096), -1), ((65536, 77), -1)),
    *(((8192, experts), -1) for experts in (8, 64, 128)),  # router logits: Mixtral, DeepSeek's MoE, Qwen 3
    *(((8, 19, 512, 1024), 1), ((4, 150, 512, 512), 1)),  # segmentation logits: Cityscapes, ADE20K
    *(((8, 1048576), -1), ((1, 16777216), -1)),  # a complete tensor's quantisation, or a sampler's
    *(((8192, 8192), 0), ((16384, 1000), 0)),  # down a batch: feature statistics, and ImageNet's classes
)


def _on_last_axis(shapes: Iterable[Shape]) -> tuple[tuple[Shape, int], ...]:
    return tuple((shape, -1) for shape in shapes)


SETS: dict[str, Callable[[str], tuple[tuple[Shape, int], ...]]] = {
    # "quick": float32 on all shapes, other dtypes on three. "host" takes three minutes on two cores.
    "quick": lambda dtype: _on_last_axis(_QUICK if dtype == "float32" else ((4096, 1024), (1823, 781), (16, 262144))),
    "host": lambda dtype: _on_last_axis(((4096, 256), (4096, 1024), (1823, 781), (16, 262144))),
    # Bandwidth against columns, the usual figure, and two well-known shapes.
    "sweep": lambda dtype: _on_last_axis(_SWEEP),
    "full": lambda dtype: _on_last_axis(_FULL),
    "map": lambda dtype: _on_last_axis(_MAP),
    "axes": lambda dtype: _AXES,
    "people": lambda dtype: _PEOPLE,
    "hidden": lambda dtype: _on_last_axis(_HIDDEN),
    "vocabulary": lambda dtype: _on_last_axis(_VOCABULARY),
    # Odd and prime lengths leave remainders in vector loads, power-of-two tiles and even splits.
    "odd": lambda dtype: _on_last_axis(shape for shape in _MAP if shape[-1] % 2),
}


# --- Random problems: a sample shows where a kernel is slow between the shapes that authors choose for the map ------

PREFIX = "random:"
MOST = 10_000
"""The most problems of a sample."""

SMALLEST, LARGEST = 2**16, 10**9
"""Bounds on the bytes of input and output together."""

_LONGEST = 24
"""The base-2 logarithm of the largest number of rows, and of the largest row length."""

_STEPS = (1, 1, 2, 16)
"""Drawn at random. For 1, so half of the problems, the last axis is odd; otherwise it is a multiple of 2 or 16."""


def random_sample_size(shape_set: str) -> int:
    """Return the number of problems in a random sample, 200 for ``"random:200"``; 0 for any other shape set."""
    digits = shape_set.removeprefix(PREFIX)
    known = shape_set.startswith(PREFIX) and re.fullmatch(r"[1-9]\d{0,4}", digits, re.ASCII)
    return int(digits) if known and int(digits) <= MOST else 0


def draw_problems(count: int, seed: int, dtypes: Sequence[str]) -> Iterator[tuple[tuple[int, int], str, int]]:
    """Yield ``count`` different shapes with dtype and axis. Sizes are log-uniform. A larger count adds to the same."""
    chance = random.Random(f"kernelzoo {seed}")
    seen = set[tuple[tuple[int, int], str, int]]()
    while len(seen) < count:
        dtype, dim, step = chance.choice(list(dtypes)), chance.choice((-1, 0)), chance.choice(_STEPS)
        rows, length = (round(2 ** chance.uniform(least, _LONGEST)) for least in (0, 1))
        first, last = (rows, length) if dim == -1 else (length, rows)
        last = last | 1 if step == 1 else -(-last // step) * step
        found = (first, last), dtype, dim
        if SMALLEST <= 2 * first * last * _element_bytes(dtype) <= LARGEST and found not in seen:
            seen.add(found)
            yield found


def _element_bytes(dtype: str) -> int:
    bits = re.search(r"\d+$", dtype)
    return int(bits[0]) // 8 if bits else 1


def label(shape_set: str, seed: int) -> str:
    """Return a shape set's name for results. The name of a random sample includes the seed."""
    return f"{shape_set}, seed {seed}" if random_sample_size(shape_set) else shape_set


def problems(
    shape_set: str,
    op_names: tuple[str, ...] = operations.MAPPED,
    dtypes: tuple[str, ...] = ("float32", "bfloat16"),
    seed: int = 0,
) -> tuple[Problem, ...]:
    """Return the problems of a named set, or of ``random:COUNT`` for each operation. Raises UnknownNameError."""
    dtypes, count = tuple(map(operations.expand_dtype_name, dtypes)), random_sample_size(shape_set)
    if shape_set not in SETS and not count:
        raise UnknownNameError("shape set", shape_set, [*SETS, f"{PREFIX}COUNT"])
    for op in op_names:
        if op not in operations.OPERATIONS:
            raise UnknownNameError("operation", op, operations.OPERATIONS)
        for dtype in dtypes:
            if dtype not in operations.OPERATIONS[op].dtypes:
                raise UnknownNameError(f"{op} dtype", dtype, operations.OPERATIONS[op].dtypes)
    if count:
        sample = list(draw_problems(count, seed, dtypes))
        return tuple(Problem(op, shape, dtype, dim) for op in op_names for shape, dtype, dim in sample)
    return tuple(
        Problem(op, shape, dtype, dim) for op in op_names for dtype in dtypes for shape, dim in SETS[shape_set](dtype)
    )
