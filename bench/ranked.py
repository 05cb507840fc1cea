"""What the programs of several ranks share: how they start, cut a tensor, agree, and write what was found.

Such a program, run as any other, starts ``torch.distributed.run`` with itself on as many ranks as there are GPUs; on a
host without one, on two ranks of gloo, where all is tried and nothing is measured.
"""

from __future__ import annotations

import argparse
import ctypes
import datetime
import faulthandler
import gzip
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import torch
import torch.distributed as dist

from kernelzoo import measure
from kernelzoo.files import write_atomically

TIMEOUT = 60.0
"""Seconds that an exchange waits for a rank."""
DIE_WITH_PARENT = 1
"""Linux's ``PR_SET_PDEATHSIG``: no signal that it could handle ends a rank that waits for another on its GPU."""
CUTS = ("evenly", "unevenly", "one empty")


@dataclass(frozen=True)
class Here:
    """This rank."""

    rank: int
    ranks: int
    device: torch.device
    began: float = field(default_factory=time.monotonic)

    @property
    def cuda(self) -> bool:
        return self.device.type == "cuda"

    @property
    def transport(self) -> str:
        return "nccl" if self.cuda else "gloo"

    def late(self, seconds: float) -> bool:
        """Whether so many are over, as the first rank sees it."""
        said = torch.tensor([float(time.monotonic() - self.began > seconds)], device=self.device)
        dist.broadcast(said, 0)
        return bool(said)


def add_ranks(parser: argparse.ArgumentParser) -> None:
    """The option that says how many."""
    parser.add_argument("--ranks", type=int, help="default: a rank to each GPU, or two on the host")


def launched(ranks: int | None, program: Path, arguments: Sequence[str]) -> int | None:
    """Run a program on so many ranks, and return its status; None in a process that is one of them."""
    if "WORLD_SIZE" in os.environ:
        return None
    count = ranks or torch.cuda.device_count() or 2
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(count)]
    command += ["--master-addr", "127.0.0.1", "--master-port", str(port), str(program), *arguments]
    threads = str(max(1, (os.cpu_count() or 1) // count))
    # NVLink multicast can put a host's GPUs out of service where several share it, and nothing here needs it.
    quiet = {"NCCL_NVLS_ENABLE": "0", "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1", "OMP_NUM_THREADS": threads}
    process = subprocess.Popen(command, env=quiet | dict(os.environ))
    try:
        return process.wait()
    except BaseException:  # Ctrl-C, say: its ranks must not stay
        process.terminate()
        process.wait()
        raise


def joined(timeout: float = TIMEOUT) -> Here:
    """Join the group of all ranks: NCCL where each has a GPU, else gloo."""
    faulthandler.register(signal.SIGTERM, chain=True)  # where a rank was that is stopped
    ctypes.CDLL(None).prctl(DIE_WITH_PARENT, signal.SIGKILL)
    rank, ranks = int(os.environ["LOCAL_RANK"]), int(os.environ["WORLD_SIZE"])
    cuda = torch.cuda.device_count() >= ranks
    device = torch.device("cuda", rank) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)
    seconds = datetime.timedelta(seconds=timeout)
    dist.init_process_group("nccl" if cuda else "gloo", device_id=device if cuda else None, timeout=seconds)
    return Here(rank, ranks, device)


def leave() -> NoReturn:
    """End this rank, all that it found being written: threads of a transport abort some that end by themselves."""
    dist.barrier()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def cut(n: int, ranks: int, how: str) -> list[int]:
    """The columns of each rank: alike, or as 1, 3, 5 and so on, the last taking the rest; or the first has none."""
    if how == "evenly":
        return [n // ranks + (rank < n % ranks) for rank in range(ranks)]
    if how == "unevenly":
        sizes = [n * (2 * rank + 1) // ranks**2 for rank in range(ranks - 1)]
        return [*sizes, n - sum(sizes)]
    return [0, *cut(n, ranks - 1, "evenly")]


def whole(own: torch.Tensor, sizes: Sequence[int], dim: int) -> torch.Tensor:
    """All ranks' shards together, on every rank."""
    most = max(sizes)
    shape = [most if d == dim % own.ndim else size for d, size in enumerate(own.shape)]
    padded = own.new_zeros(shape)
    padded.narrow(dim, 0, own.size(dim)).copy_(own)
    flat = padded.view(-1).view(torch.uint8)
    found = [torch.empty_like(flat) for _ in sizes]
    if flat.numel():
        dist.all_gather(found, flat)
    parts = (part.view(own.dtype).view(shape).narrow(dim, 0, n) for part, n in zip(found, sizes, strict=True))
    return torch.cat(list(parts), dim)


def slowest(seconds: float, here: Here) -> float:
    """The largest of all ranks."""
    found = torch.tensor([seconds], dtype=torch.float64, device=here.device)
    dist.all_reduce(found, dist.ReduceOp.MAX)
    return float(found)


def agreed(error: str) -> str:
    """What any rank has to say against something; the first one's."""
    said: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(said, error)
    return next(filter(None, said), "")


def each(value: Any) -> list[Any]:
    """What every rank has to say."""
    said: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(said, value)
    return said


def in_words(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"


def document(kind: str, here: Here, started: str, rows: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    """What a program writes, of a kind, in the form of all records."""
    device = str(here.device)
    name, versions = measure.device_name(device), measure.versions(device)
    if here.cuda:
        versions = versions | {"nccl": ".".join(map(str, torch.cuda.nccl.version()))}  # type: ignore[no-untyped-call]
    return {
        "format": f"kernelzoo-{kind}/1",
        "command": ["python", *map(_anywhere, sys.argv)],
        "environment": {"device": f"{here.ranks} x {name}" if here.cuda else name, "versions": versions},
        "ranks": here.ranks,
        "transport": here.transport,
        "performance": here.cuda,  # processes of one host that share its cores measure nothing
        "started": started,
        "seconds": round(time.monotonic() - here.began, 1),
        **more,
        "rows": rows,
    }


def _anywhere(word: str) -> str:
    """A word of a command without the folders of this machine: programs by their place here, other files by name."""
    path = Path(word)
    if not path.is_absolute():
        return word
    top = Path(__file__).parents[1]
    return str(path.relative_to(top)) if path.is_relative_to(top) else path.name


def now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def write(path: Path, found: dict[str, Any]) -> None:
    """Write a document, compressed if the name says so."""
    content = (json.dumps(found, indent=1) + "\n").encode()
    write_atomically(path, gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)
