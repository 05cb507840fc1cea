"""``kernelzoo inspect --profile``, with programs that stand for the tools, and the host for a GPU."""

import sys

import pytest

TOOL = f"#!{sys.executable}\nimport os, sys\nprint('given', *sys.argv[1:], flush=True)\n"
RUNS = "os.execv(sys.executable, sys.argv[sys.argv.index(sys.executable):])"
MODULE = """
import sys, types, torch, kernelzoo
from kernelzoo.measure import worker
kernelzoo.register("mine", "min", "told")(lambda x, out: lambda: print("launched"))
worker.open_device = lambda device: torch.device("cpu")
torch.cuda.synchronize = lambda: print("waited")
begin, end = lambda *name: print("begun", *name), lambda: print("ended")
torch.cuda.cudart = lambda: types.SimpleNamespace(cudaProfilerStart=begin, cudaProfilerStop=end)
sys.modules["triton.profiler"] = types.SimpleNamespace(start=begin, finalize=end)
"""
GIVEN = {"ncu": "given --profile-from-start off ", "nsys": "given profile -c cudaProfilerApi ", "proton": "launched"}
WRONG = {
    "sys.exit('==ERROR== ERR_NVGPUCTRPERM - no')": "ncu may not read this GPU's counters",
    "sys.exit('no such option')": "ncu ended with 1: given",
    RUNS: "torch/min/eager can't be profiled: device 'cuda' can't be used",
}


@pytest.mark.parametrize("tool", [pytest.param(name, marks=[pytest.mark.nightly][: name != "ncu"]) for name in GIVEN])
def test_one_warm_launch_is_captured(kernelzoo, tmp_path, tool) -> None:
    (tmp_path / "mine.py").write_text(MODULE)
    command, here = ("inspect", "--profile", tool), {"PATH": str(tmp_path), "CUDA_VISIBLE_DEVICES": ""}
    if tool != "proton":
        done = kernelzoo(*command, "torch/min/eager", **here)
        assert done.returncode == 2 and done.stderr.startswith(f"error: {tool} is not on the PATH; ")
    for then, why in WRONG.items() if tool == "ncu" else [(RUNS, "")]:
        (tmp_path / tool).write_text(TOOL + then)
        (tmp_path / tool).chmod(0o700)
        if tool == "ncu":
            done = kernelzoo(*command, "torch/min/eager", **here)
            assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
            assert done.stderr.startswith(f"error: {why}")
    done = kernelzoo(*command, "mine/min/told", "--module", "mine.py", "--shape", "8x8", **here)
    assert done.returncode == 0 and done.stdout.startswith(GIVEN[tool])
    begun = "begun mine-min-told" if tool == "proton" else "begun"
    events = [line for line in done.stdout.splitlines() if not line.startswith(("given", "written"))]
    assert events == [*["launched"] * 3, "waited", begun, "launched", "waited", "ended"]
