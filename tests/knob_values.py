"""``python tests/knob_values.py BACKEND [--few]``: kernels at the extreme values of every knob, without a GPU."""

import argparse
import importlib
import os
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import torch

sys.path.append(str(Path(__file__).parent / "shared"))
sys.path.append(str(Path(__file__).parent / "numba"))
sys.path.append(str(Path(__file__).parent / "triton"))

import knobs
from one_input import allocate, launched, sample

from kernelzoo import operations, registry, tables
from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.launch import LaunchStep, record_binds

# Small enough to be interpreted, and on either side of most knobs' values.
SMALL = (
    *(((9, 61), 1), ((40, 256), 1), ((7, 781), 1), ((5, 1024), 1), ((3, 4100), 1), ((3, 8192), 1), ((2, 16392), 1)),
    *(((2, 33000), 1), ((1, 70001), 1), ((300, 64), 0), ((520, 40), 0), ((2100, 8), 0), ((3, 130, 17), 1)),
)
TINY = tuple(p for p in SMALL if torch.Size(p[0]).numel() <= 4100)
ARCHES = ("sm_80", "sm_90", "sm_120")


def run(backend: str, few: bool) -> tuple[int, list[str]]:
    """Run extremes where they make another plan than shipped: how many, and what was wrong."""
    done, wrong = 0, list[str]()
    problems = TINY if few or backend == "numba" else SMALL
    generator = torch.Generator().manual_seed(0)
    for op in operations.MAPPED:
        operation = operations.OPERATIONS[op]
        for i in registry.implementations(backend, op):
            seen = set()
            for shape, dim in problems:
                for dtype in ("float32", "bfloat16") if not few else ("float32",):
                    x = sample(op, shape, dtype, dim, generator=generator)
                    for values in knobs.extremes(backend, op):
                        table = tables.table_with_values(tables.declared_table(backend, op), values)
                        out = allocate(operation, x, dim)
                        key = repr(_steps(i, x, dim, out, table))
                        if key in seen or (few and len(seen) > 8):
                            continue
                        seen.add(key)
                        try:
                            with tables.using(table):
                                i.launch(x, dim=dim, out=out)()
                            operation.assert_close(out, x, dim)
                        except UnsupportedProblemError:
                            continue
                        except Exception as error:
                            wrong.append(f"{i.id} {shape} {dim} {dtype} {values}: {type(error).__name__}: {error}")
                        done += 1
    return done, wrong


def _steps(i: registry.Implementation, x: torch.Tensor, dim: int, out: torch.Tensor, table: Any) -> list[LaunchStep]:
    with tables.using(table), record_binds() as steps:
        try:
            i.launch(x, dim=dim, out=out)
        except UnsupportedProblemError:
            return []
    return steps


def compile_all(backend: str, few: bool) -> tuple[int, list[str]]:
    """Compile what extremes launch and the shipped table doesn't, as each language does: how many, and what failed."""
    done, wrong = 0, list[str]()
    problems = knobs.PROBLEMS[::4] if few else knobs.PROBLEMS
    for arch in ("sm_90",) if few else ARCHES:
        with knobs.on(backend, arch):
            for op in operations.MAPPED:
                table, seen = tables.declared_table(backend, op), set[str]()
                variants = knobs.forms(backend, op)
                settings = [{}, *knobs.extremes(backend, op)]
                for values in settings[:1] + settings[-2:] if few else settings:
                    made = tables.table_with_values(table, values)
                    for variant in variants:
                        for shape, dim in problems:
                            for dtype in ("float32",) if few else ("float32", "bfloat16", "float64"):
                                try:
                                    steps = knobs.plan(backend, op, variant, shape, dim, dtype, made)
                                    # Triton compiles for properties of arguments too, such as being divided by 16.
                                    known = [(s.constants, s.arguments if backend == "triton" else ()) for s in steps]
                                    key = repr([[s.kernel for s in steps], known])
                                    if not values or key in seen:
                                        seen.add(key)
                                        continue
                                    seen.add(key)
                                    _bind(backend, op, variant, shape, dim, dtype, made)
                                    done += 1
                                except UnsupportedProblemError:
                                    continue
                                except Exception as error:
                                    what = f"{backend}/{op}/{variant} {shape} {dim} {dtype} {arch} {values}"
                                    wrong.append(f"{what}: {type(error).__name__}: {error}")
    return done, wrong


def _bind(backend: str, op: str, variant: str, shape: tuple[int, ...], dim: int, dtype: str, table: Any) -> None:
    operation = operations.OPERATIONS[op]
    x = torch.empty(shape, dtype=getattr(torch, dtype), device="meta")
    with tables.using(table), record_binds(can_compile=True) as steps:
        launched(operation, registry._registered[backend, op, variant], x, dim, allocate(operation, x, dim))()
    for step in steps:
        if isinstance(step, LaunchStep):
            assert step.build is not None
            step.build()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("backend", choices=("triton", "cupy", "numba"))
    parser.add_argument("--few", action="store_true", help="some seconds' worth")
    options = parser.parse_args()
    started = time.monotonic()
    if options.backend == "triton" and os.environ.get("TRITON_INTERPRET") == "1":
        warnings.simplefilter("ignore", RuntimeWarning)  # NumPy remarks on inf - inf, which is meant
        importlib.import_module("interpreter").install()
        registry.language(options.backend)
        done, wrong = run(options.backend, options.few)
    else:
        done, wrong = compile_all(options.backend, options.few)
    for line in wrong:
        print("WRONG", line)
    print(f"{options.backend}: {done} bound at other knobs in {time.monotonic() - started:.0f} s, {len(wrong)} wrong")
    return 1 if wrong or not done else 0


if __name__ == "__main__":
    sys.exit(main())
