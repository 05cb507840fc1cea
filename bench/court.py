"""Gathers public solutions of row-wise problems from clones of their sets: ``python bench/court.py CLONES TO``.

CLONES holds clones of bras6379/sol-execbench-solver, gpu-mode/reference-kernels and flashinfer-ai/flashinfer-bench, in
folders of these names, the last at commit 4def975f, which has solutions. TO gets a folder for each problem: its
definition, its workloads, and each solution that its own set accepted. Of the first set these are the best, and with
``--all`` those on its frontier. The norms of the last are there without a verdict. Then judge all on a GPU:

    kernelzoo compare --definitions TO --solutions TO --gpus all -o verdicts.json
    python bench/other_sets.py verdicts.json --record verdicts.md
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROW_WISE = re.compile(r"norm|rope|rotary|cos_sin|softmax_with|gelu_activation|mask_preparation|logit")
"""Names of problems that are mostly work on rows."""
OTHERWISE = re.compile(r"conv|attention_with|grouped_query|projection|mlp")
"""Of these, the ones that are mostly matrix products."""
SOLVER = "https://github.com/bras6379/sol-execbench-solver"
FOLDERS = ("pmpp_v2/vectorsum_py", "pmpp_v2/prefixsum_py", "pmpp_v2/vectoradd_py")
"""Problems of gpu-mode with solutions beside them that it holds for correct."""


def accepted(run: Path, every: bool) -> Iterator[tuple[dict[str, Any], float | None]]:
    """The solutions of a run that passed, and the speedup that their set states."""
    frontier = json.loads((run / "frontier.json").read_text())
    best = json.loads((run / "best_solution.json").read_text())
    yielded = list[Any]()
    for member in frontier["members"]:
        held = run / str(member["candidate"])
        if not member["all_passed"] or not held.exists():
            continue
        candidate = json.loads(held.read_text())
        solution = candidate.get("submit") or {}
        if (every or member["cand_id"] == frontier["best_cand"]) and "sources" in solution:
            yield solution, _speedup(candidate["per_workload"])
            yielded.append(solution["sources"])
    if best["sources"] not in yielded:
        yield best, None


def _speedup(workloads: list[dict[str, Any]]) -> float | None:
    """The geometric mean of what a candidate took less than the reference."""
    ratio, count = 1.0, 0
    for one in workloads:
        if one.get("latency_ms") and one.get("baseline_latency_ms"):
            ratio, count = ratio * one["baseline_latency_ms"] / one["latency_ms"], count + 1
    return ratio ** (1 / count) if count else None


def of_gpu_mode(sets: Path, to: Path) -> int:
    """Copy problems with their solutions; how many solutions."""
    for name in FOLDERS:
        problem, here = sets / name, to / name
        shutil.copytree(problem, here, ignore=shutil.ignore_patterns("solutions", "submission.py"))
        shutil.copy(problem.parent / "utils.py", here.parent / "utils.py")
        shutil.copytree(problem / "solutions" / "correct", here / "solutions")
    return len([*to.glob("*/*/solutions/*.py")])


def of_flashinfer(clone: Path, to: Path) -> int:
    """Copy the norms that have solutions; how many solutions."""
    made = dict[str, Path]()
    for path in sorted((clone / "bench" / "test" / "results").glob("*/*/solutions/*/rmsnorm/*/*.json")):
        made[path.name] = path  # some stand in two runs
    for path in made.values():
        name = path.parent.name
        here = to / f"flashinfer_{name}"
        if not here.exists():
            here.mkdir(parents=True)
            shutil.copy(
                clone / "flashinfer_trace" / "definitions" / "rmsnorm" / f"{name}.json", here / "definition.json"
            )
            shutil.copy(clone / "flashinfer_trace" / "workloads" / "rmsnorm" / f"{name}.jsonl", here / "workload.jsonl")
        shutil.copy(path, here / path.name)
    return len(made)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clones", type=Path, metavar="CLONES")
    parser.add_argument("to", type=Path, metavar="TO", help="a folder that is not there yet")
    parser.add_argument("--all", action="store_true", help="the whole frontier, not only the best")
    options = parser.parse_args()
    made, stated = 0, list[dict[str, Any]]()
    for run in sorted((options.clones / "sol-execbench-solver" / "runs").iterdir()):
        if not (run / "frontier.json").exists() or not (run / "best_solution.json").exists():
            continue
        problem = run.parents[1] / "problems" / run.name
        name = json.loads((problem / "definition.json").read_text())["name"]
        if not ROW_WISE.search(name) or OTHERWISE.search(name):
            continue
        to = options.to / name
        to.mkdir(parents=True)
        for file in ("definition.json", "workload.jsonl"):
            shutil.copy(problem / file, to / file)
        for number, (solution, speedup) in enumerate(accepted(run, options.all)):
            link = f"{SOLVER}/tree/main/runs/{run.name}"
            (to / f"solution_{number}.json").write_text(json.dumps(solution | {"url": link}))
            if speedup:
                trace = {"definition": solution["definition"], "solution": solution["name"]}
                stated.append(trace | {"evaluation": {"performance": {"speedup_factor": speedup}}})
            made += 1
    made += of_gpu_mode(options.clones / "reference-kernels" / "problems", options.to)
    made += of_flashinfer(options.clones / "flashinfer-bench", options.to)
    (options.to / "traces.jsonl").write_text("".join(json.dumps(trace) + "\n" for trace in stated))
    print(f"{made} solutions in {options.to}")


if __name__ == "__main__":
    main()
