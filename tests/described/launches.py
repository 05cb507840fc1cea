"""The kernels that each problem launches, as digests of machine code: ``record -o FILE``, ``compare OLD NEW``."""

import argparse
import gzip
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest import mock

import kernelzoo
from kernelzoo import tables
from kernelzoo.errors import KernelZooError
from kernelzoo.inspect import Request
from kernelzoo.inspecting import kernels
from kernelzoo.kernels.shared import cubin
from kernelzoo.measure.problems import SETS

BACKENDS = ("triton", "gluon", "cupy", "numba")
ARCHITECTURES = ("sm_80", "sm_90", "sm_100", "sm_120")
# The sets as bench/records.py measures them: every variant on the full one, and on two problems of other dtypes.
DTYPES: tuple[tuple[tuple[int, ...], int], ...] = (((65536, 1000), -1), ((777, 50257), -1), ((16, 262144), -1))


def problems(op: str, variant: str, dtypes: Sequence[str]) -> Iterator[tuple[str, tuple[int, ...], int]]:
    """Dtype, shape and axis of what an implementation is bound to."""
    chosen = ("full", "axes") if variant != "auto" else ("map", "full", "axes")
    seen = set()
    for dtype in dtypes:
        plain = dtype in ("float32", "bfloat16")
        for shape, dim in [p for name in chosen for p in SETS[name](dtype)] if plain else DTYPES:
            if (dtype, shape, dim) not in seen:
                seen.add((dtype, shape, dim))
                yield dtype, shape, dim


def digests(binary: bytes) -> tuple[dict[str, str], None]:
    """In place of a disassembly: a digest of each function's machine code."""
    return {
        name.removeprefix(".text."): hashlib.sha256(binary[s.offset : s.offset + s.size]).hexdigest()[:16]
        for name, s in cubin._sections(binary).items()
        if name.startswith(".text.")
    }, None


def examine(backend: str, arch: str) -> dict[str, Any]:
    """Every problem of a backend on an architecture: what it launches, or the error that refuses it."""
    found: dict[str, Any] = {}
    with mock.patch.object(cubin, "disassembly", digests):
        for i in kernelzoo.implementations(backend):
            for dtype, shape, dim in problems(i.op, i.variant, i.operation.dtypes):
                request = Request(backend, i.op, i.variant, shape, dtype, dim, arch)
                key = f"{i.id} {dtype} {'x'.join(map(str, shape))} {dim}"
                try:
                    found[key] = [
                        [k.sass, k.registers, k.grid, k.block, k.cluster, k.shared_bytes, k.cooperative, k.launches]
                        if k.registers is not None
                        else k.name
                        for k in kernels(request)
                    ]
                except KernelZooError as error:
                    found[key] = type(error).__name__
    return found


def examined(backend: str, arch: str) -> dict[str, Any]:
    """The same in a process of its own, without a device, with empty caches."""
    with tempfile.TemporaryDirectory() as empty:
        environment = {
            **os.environ,
            "CUDA_VISIBLE_DEVICES": "",
            "TRITON_INTERPRET": "0",
            "NUMBA_ENABLE_CUDASIM": "0",
            tables.ENVIRONMENT: "shipped",
            "TRITON_CACHE_DIR": empty,
            "XDG_CACHE_HOME": empty,
            "PYTHONPATH": str(Path(kernelzoo.__file__).parents[1]),
        }
        command = [sys.executable, __file__, "run", backend, arch]
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    print(backend, arch, "done", file=sys.stderr, flush=True)
    return dict(json.loads(done.stdout))


def record(output: Path, backends: Sequence[str], architectures: Sequence[str], jobs: int) -> None:
    """Write what is launched, by backend and architecture; what is in the file already is kept."""
    found = json.loads(gzip.decompress(output.read_bytes())) if output.exists() else {}
    wanted = [(b, a) for a in architectures for b in backends if f"{b} {a}" not in found]
    with ThreadPoolExecutor(jobs) as pool:
        for (b, a), rows in zip(wanted, pool.map(lambda pair: examined(*pair), wanted), strict=True):
            found[f"{b} {a}"] = rows
            output.write_bytes(gzip.compress(json.dumps(found).encode(), mtime=0))


def compare(before: Path, after: Path) -> int:
    """List the problems of the first file whose launches are not those of the second; 1 if there are any."""
    old, new = (json.loads(gzip.decompress(path.read_bytes())) for path in (before, after))
    different = 0
    for section, rows in old.items():
        there = new.get(section, {})
        wrong = [key for key, launches in rows.items() if there.get(key) != launches]
        print(f"{section}: {len(rows)} problems, {len(rows) - len(wrong)} the same, {len(wrong)} not")
        for key in wrong:
            print(f"    {key}\n        {rows[key]}\n        {there.get(key, 'missing')}")
        different += len(wrong)
    return int(different > 0)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python tests/described/launches.py", description=__doc__.partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    recording = commands.add_parser("record")
    recording.add_argument("-o", "--output", type=Path, required=True)
    recording.add_argument("--backends", default=",".join(BACKENDS))
    recording.add_argument("--architectures", default=",".join(ARCHITECTURES))
    recording.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    comparing = commands.add_parser("compare")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    running = commands.add_parser("run")
    running.add_argument("backend")
    running.add_argument("arch")
    options = parser.parse_args()
    if options.command == "compare":
        return compare(options.before, options.after)
    if options.command == "record":
        record(options.output, options.backends.split(","), options.architectures.split(","), options.jobs)
        return 0
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a compiler prints is no answer
    json.dump(examine(options.backend, options.arch), replies)
    replies.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
