"""The memory of a race: sets of inputs and outputs that the judge and the runners share.

On a GPU it is shared by CUDA IPC, on the host as an anonymous file. Guard bytes between tensors reveal stray writes.
"""

from __future__ import annotations

import fcntl
import math
import mmap
import os
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch

from kernelzoo.measure.problems import Problem
from kernelzoo.operations.declared import ROW

Tensors = tuple[torch.Tensor, ...]
Set = tuple[Tensors, Tensors]
"""Inputs and outputs of one launch."""

GUARD = 512
"""The fewest guard bytes behind a tensor. It is also the alignment of tensors."""

_LINKS = 8
"""The most launches that are chained in pairs; see ``chain_launch_count``."""


@dataclass(frozen=True)
class TensorLayout:
    """One input or output in all sets: the tensor of set ``i`` begins at ``first + i * step`` bytes."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    first: int
    step: int

    @property
    def elements(self) -> int:
        return math.prod(self.shape)


class TensorSets:
    """The sets of one problem, in one block of memory that processes can share.

    ``memory``: the :attr:`handle` of another process's block. That process must live as long as the block is used.
    """

    def __init__(
        self, problem: Problem, count: int, device: torch.device, *, shared: bool = False, memory: Any = None
    ) -> None:
        self.problem, self.count, self.device = problem, count, device
        meta = problem.meta
        operation, first = problem.operation, 0
        shapes = [*(x.shape for x in meta.inputs), *operation.out_shapes(meta)]
        dtypes = [*(x.dtype for x in meta.inputs), *operation.out_dtypes(meta)]
        fields: list[TensorLayout] = []
        for shape, dtype in zip(shapes, dtypes, strict=True):
            step = -(-math.prod(shape) * dtype.itemsize // GUARD) * GUARD + GUARD
            fields.append(TensorLayout(tuple(shape), dtype, first, step))
            first += count * step
        self.inputs, self.outs = fields[: len(meta.inputs)], fields[len(meta.inputs) :]
        self.bytes = first
        self._file: int | None = None
        self.block = self._open_block(memory) if memory is not None else self._allocate_block(shared)

    def __getitem__(self, number: int) -> Set:
        """Return the tensors of one set, as views of the block."""
        inputs, outs = (tuple(self.tensor(field, number) for field in fields) for fields in (self.inputs, self.outs))
        return inputs, outs

    def tensor(self, layout: TensorLayout, number: int) -> torch.Tensor:
        start = layout.first + number * layout.step
        part = self.block[start : start + layout.elements * layout.dtype.itemsize]
        return part.view(layout.dtype).view(layout.shape)

    def all_sets(self, layout: TensorLayout) -> torch.Tensor:
        """Return one input or output in all sets, as a matrix of sets x elements."""
        size = layout.dtype.itemsize
        whole = self.block[layout.first : layout.first + self.count * layout.step].view(layout.dtype)
        return whole.as_strided((self.count, layout.elements), (layout.step // size, 1), whole.storage_offset())

    @property
    def chain_launch_count(self) -> int:
        """The number of launches that form pairs, in which the second reads the first one's output; 0 if none can."""
        (x, *_), (out, *_) = self.inputs, self.outs
        declared = next(iter(self.problem.operation.inputs.values()))
        free = declared.low is None and declared.high is None and x.dtype.is_floating_point
        fits = out.dtype == x.dtype and 0 < out.elements <= x.elements
        return min(_LINKS, self.count // 2 * 2) if free and fits and not self.problem.operation.relates_inputs else 0

    def chained_output(self, number: int) -> torch.Tensor:
        """Return the first output of a chained launch. An even ``number``'s output is the next set's first input."""
        if number % 2:  # the second of a pair: in longer chains, values would become too similar
            return self.tensor(self.outs[0], number)
        return self.tensor(self.inputs[0], number + 1).view(-1)[: self.outs[0].elements].view(self.outs[0].shape)

    def select_row(self, set_number: int, element_index: Sequence[int]) -> tuple[Problem, Tensors, Tensors]:
        """Return one row of a set, as a problem and views of tensors. ``element_index``: an element of that row."""
        inputs, outs = self[set_number]
        dim = self.problem.dim % len(element_index)
        kept = [slice(at, at + 1) for d, at in enumerate(element_index) if d != dim]
        parts = []
        for names, x in zip(self.problem.operation.axes, (*inputs, *outs), strict=True):
            x = x.movedim(dim, -1) if names == ROW else x
            parts.append(x[*kept] if names in (ROW, ("outer", "inner")) else x)
        some, count = replace(self.problem, shape=tuple(parts[0].shape), dim=-1), len(inputs)
        return some, tuple(parts[:count]), tuple(parts[count:])

    def guard_bytes(self, layout: TensorLayout) -> torch.Tensor:
        """Return the guard bytes behind one input or output in all sets, as a matrix of sets x bytes."""
        size = layout.elements * layout.dtype.itemsize
        return self.block.as_strided(
            (self.count, layout.step - size), (layout.step, 1), self.block.storage_offset() + layout.first + size
        )

    @property
    def handle(self) -> dict[str, Any]:
        """The JSON that another process needs to open the same memory."""
        if self._file is not None:
            return {"file": f"/proc/{os.getpid()}/fd/{self._file}", "count": self.count}
        return {"tensor": bytes(ForkingPickler.dumps(self.block)).hex(), "count": self.count}

    def close(self) -> None:
        """Free the memory, once nothing uses it."""
        self.block = self.block[:0].clone()
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _allocate_block(self, shared: bool) -> torch.Tensor:
        if self.device.type != "cpu" or not shared:
            return torch.empty(max(1, self.bytes), dtype=torch.uint8, device=self.device)
        self._file = os.memfd_create("kernelzoo", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(self._file, max(1, self.bytes))
        fcntl.fcntl(self._file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
        return _map_file(self._file)

    def _open_block(self, memory: Mapping[str, Any]) -> torch.Tensor:
        if "file" in memory:
            with open(memory["file"], "r+b") as file:
                return _map_file(file.fileno())
        block: torch.Tensor = pickle.loads(bytes.fromhex(memory["tensor"]))
        return block


def _map_file(file: int) -> torch.Tensor:
    """Return the bytes of an open file, as shared memory."""
    return torch.frombuffer(mmap.mmap(file, 0, flags=mmap.MAP_SHARED | mmap.MAP_POPULATE), dtype=torch.uint8)
