"""The profile of a warm launch. The profiler runs ``python -m kernelzoo.cli.profiling TOOL ID PROBLEM FILE...``."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from kernelzoo import children, definitions, registry
from kernelzoo.cli import options, output
from kernelzoo.errors import InspectionError
from kernelzoo.files import printable
from kernelzoo.measure import Problem, worker, worker_process
from kernelzoo.measure.problems import problem_from_json

_NSYS = "nsys profile -c cudaProfilerApi --capture-range-end stop -t cuda -s none --stats true"
_TOOLS = {"ncu": "ncu --profile-from-start off", "nsys": _NSYS, "proton": ""}
"""The start of each tool's command line. It is empty for Proton, which runs inside the measured process."""
_FAILED = "can't be profiled: "


def profile_launch(tool: str, id: str, problem: Problem, modules: Sequence[str]) -> str:
    """Profile a launch and return the output. Raises OptionError for an unknown tool, InspectionError if it fails."""
    if tool not in _TOOLS:
        raise options.OptionError(f"--profile takes {', '.join(_TOOLS)}, not {tool!r}")
    before = _TOOLS[tool].split()
    if before and shutil.which(tool) is None:
        raise InspectionError(
            f"{tool} is not on the PATH; it comes with the CUDA toolkit, often in /usr/local/cuda/bin"
        )
    command = [*before, *worker_process.command("kernelzoo.cli.profiling"), tool, id, json.dumps(asdict(problem))]
    pipe, both, here = subprocess.PIPE, subprocess.STDOUT, children.child_env(package_first=True)
    done = subprocess.run([*command, *modules], env=here, stdout=pipe, stderr=both, text=True, errors="replace")
    if re.search("ERR_NVGPUCTRPERM|INSUFFICIENT_PRIVILEGES", done.stdout):
        remedy = "run as root, or see https://developer.nvidia.com/ERR_NVGPUCTRPERM"
        raise InspectionError(f"{tool} may not read this GPU's counters: {remedy}")
    failed = re.search(f"^{re.escape(id)} {_FAILED}.*", done.stdout, re.MULTILINE)
    if failed or done.returncode:
        raise InspectionError(
            failed[0] if failed else f"{tool} ended with {done.returncode}: {output.shorten_reason(done.stdout)}"
        )
    return done.stdout


def _launch(tool: str, id: str, problem_json: str, *modules: str) -> None:
    """Launch an implementation until it is warm, then once more under the tool."""
    import torch

    for module in modules:
        definitions.load_file_locating_errors(module)
    generator = torch.Generator(worker.open_device("cuda")).manual_seed(0)
    proton: Any = None
    if tool == "proton":
        from triton import profiler

        proton = profiler
    problem, cuda, name = problem_from_json(json.loads(problem_json)), torch.cuda, id.replace("/", "-")
    inputs = problem.inputs(generator)
    outs = problem.operation.allocate(problem.arguments(inputs))
    launch = problem.launch(registry.implementation(id), inputs, outs)
    for _ in range(3):  # the first compiles
        launch()
    cuda.synchronize()
    proton.start(name) if proton else cuda.cudart().cudaProfilerStart()  # type: ignore[no-untyped-call]
    launch()
    cuda.synchronize()
    proton.finalize() if proton else cuda.cudart().cudaProfilerStop()  # type: ignore[no-untyped-call]
    if proton:
        print(f"written: {name}.hatchet; proton-viewer -m time/us {name}.hatchet shows it")


if __name__ == "__main__":
    try:
        _launch(*sys.argv[1:])
    except Exception as error:  # a kernel may raise anything
        remedy = "; kernelzoo doctor says what is missing" * isinstance(error, worker.OpenError | ImportError)
        sys.exit(f"{sys.argv[2]} {_FAILED}{printable(str(error) or repr(error))}{remedy}")
