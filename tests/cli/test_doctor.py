"""``kernelzoo doctor``: the rules on made-up machines, and one look at this one."""

import os
from pathlib import Path
from typing import Any

import pytest
import warm
from running_here import OURS

from kernelzoo import registry, tables
from kernelzoo.cli import doctor, probe
from kernelzoo.cli.availability import describe_launch_tables
from kernelzoo.cli.diagnostics import Machine, suspicions
from kernelzoo.cli.doctor import packages

QUIET = {"OMP_WAIT_POLICY": "PASSIVE"}
GPU = {"name": "a GPU", "memory_bytes": 80 * 2**30, "free_bytes": 79.5 * 2**30}
TORCH = {"version": "2.11.0+cu130", "cuda": "13.0", "devices": [GPU]}
NVML = {"driver": "580", "devices": [{"persistence": 1, "processes": []}]}
GOOD = {"torch": TORCH, "driver": {"cuda": "13.0"}, "nvml": NVML, "backend:cpu": {"devices": ["cpu"]}}
PACKAGES = {"numpy": "2.4.6", "numba": "0.68.1", "torch": "2.11.0", "triton": "3.6.0", "nvidia-cuda-nvrtc": "13.0.88"}


def machine(**changes: Any) -> Machine:
    """A machine that nothing is wrong with, but for the changes."""
    good: dict[str, Any] = {
        "packages": PACKAGES, "torch_pins": "3.6.0", "environment": QUIET, "cores": 8, "load": 0.2,
        "governor": "performance", "looks": GOOD,
    }  # fmt: skip
    return Machine(**{**good, **changes})


def test_a_good_machine_and_an_empty_one_are_not_suspicious() -> None:
    for one in (machine(), Machine(), machine(looks={name: {"error": "broken"} for name in GOOD})):
        assert suspicions(one) == []


def seen(**answers: Any) -> dict[str, Any]:
    """The change of a machine that has these answers."""
    return {"looks": {**GOOD, **answers}}


NO_GPU, USED, HIDDEN = (
    {**TORCH, "devices": []},
    {**GPU, "free_bytes": 70 * 2**30},
    {**QUIET, "CUDA_VISIBLE_DEVICES": ""},
)
TWO = {"cupy-cuda12x": "14.2", "cupy-cuda13x": "14.2"}


@pytest.mark.parametrize(
    ("changes", "what", "remedy"),
    [
        ({"packages": {**PACKAGES, "numpy": "2.5.0rc1"}}, "NumPy 2.5.0rc1 is too new for numba", "numpy<2.5"),
        ({"packages": {**PACKAGES, "triton": "3.7.1"}}, "triton 3.7.1 is installed", "pip install triton==3.6.0"),
        ({"packages": TWO}, "cupy-cuda12x and cupy-cuda13x overwrite", "pip uninstall"),
        ({"packages": {"nvidia-nvvm": "13.4.1"}}, "takes CUDA 13.0, and newer compilers", "cuda-toolkit==13.0.*"),
        (seen(torch={**NO_GPU, "cuda": None, "version": "2.13.0+cpu"}), "built without CUDA", "CUDA build"),
        (seen(torch=NO_GPU) | {"environment": HIDDEN}, "CUDA_VISIBLE_DEVICES='' shows 0", "unset"),
        (seen(torch=NO_GPU), "of which torch sees 0", "update the driver"),
        (seen(nvml={"devices": [{"processes": [41, 42]}]}), "GPU 0 is used by other processes: 41, 42", "be trusted"),
        (seen(torch={**TORCH, "devices": [USED]}), "10.0 GiB of GPU 0's memory are taken", "nvidia-smi"),
        ({"load": 5.0}, "a load of 5.0 on 8 cores", "noisy"),
        ({"environment": {**QUIET, "TRITON_INTERPRET": "1"}}, "TRITON_INTERPRET=1", "unset"),
        ({"environment": {**QUIET, "CUDA_LAUNCH_BLOCKING": "1"}}, "every launch waits", "unset"),
        ({"environment": {**QUIET, "OMP_NUM_THREADS": "2"}}, "those of 2 threads", "unset"),
        (seen(torch=NO_GPU, nvml={}) | {"environment": {}}, "idle threads spin", "OMP_WAIT_POLICY=PASSIVE"),
        (seen(nvml={"error": "NVMLError_NotFound"}), "NVML can't be asked (NVMLError_NotFound)", "nvidia-ml-py"),
        ({"governor": "powersave"}, "governed by 'powersave'", "cpupower"),
        (seen(nvml={"devices": [{"persistence": 0}]}), "not in persistence mode", "nvidia-smi -pm 1"),
    ],
    ids=lambda part: part[:24] if isinstance(part, str) else "",
)
def test_suspicions(changes, what, remedy) -> None:
    (found,) = suspicions(machine(**changes))
    assert what in found.what and remedy in found.remedy


def before(folder: Path) -> str:
    """PYTHONPATH with a folder in front, whose modules stand in for the installed ones."""
    return os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH"))))


def test_this_machine(answer) -> None:
    status, told = answer("doctor")
    assert told["packages"]["torch"] and told["looks"]["torch"]["version"]
    assert set(told["looks"]) == {*probe.LOOKS, *(f"backend:{name}" for name in OURS)}
    assert "torch" in told["runnable"]
    assert status == (0 if len(told["runnable"]) > 1 else 1)


def test_of_two_versions_the_one_that_is_imported_is_told(monkeypatch, tmp_path) -> None:
    (tmp_path / "numpy-1.2.3.dist-info").mkdir()
    (tmp_path / "numpy-1.2.3.dist-info" / "METADATA").write_text("Name: numpy\nVersion: 1.2.3\n", encoding="utf-8")
    assert packages()["numpy"] != "1.2.3"
    monkeypatch.syspath_prepend(str(tmp_path))
    assert packages()["numpy"] == "1.2.3"


def test_looks_survive_what_is_broken(monkeypatch, tmp_path) -> None:
    """Packages that raise, crash, hang or are not there, in place of the real ones."""
    (tmp_path / "torch.py").write_text("raise SystemError('numpy.dtype size changed')")
    (tmp_path / "triton.py").write_text("import ctypes; ctypes.string_at(0)")
    (tmp_path / "pynvml.py").write_text("import time; time.sleep(600)")
    monkeypatch.setenv("PYTHONPATH", before(tmp_path))
    monkeypatch.setattr(probe, "_PATIENCE", 10)
    found = probe.run_probes(["torch", "ptxas", "nvml", "backend:torch"])
    assert found["torch"] == {"error": "SystemError: numpy.dtype size changed"}
    assert found["ptxas"]["error"].startswith("crashed (SIGSEGV)")
    assert found["nvml"] == {"error": "hung: no answer in 10 s"}
    assert found["backend:torch"]["reason"] == "importing it raised SystemError: numpy.dtype size changed"


def test_lines_fit_the_terminal(monkeypatch, capsys) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    installed = {f"a-package-{number}": "13.0.88" for number in range(12)}
    looks = {name: {"error": "not here"} for name in (*doctor._LABELS, "torch")}
    doctor._print(Machine(packages=installed, looks=looks), [])
    said = capsys.readouterr().out
    assert all(f"{name} {version}" in said for name, version in installed.items())
    assert all(len(line) <= 80 or " " not in line for line in said.splitlines()), said


def test_nothing_but_torch_is_status_1(kernelzoo, tmp_path, monkeypatch) -> None:
    (tmp_path / "numba.py").write_text("raise ImportError('numba is broken on purpose')")
    warm.found_at(str(tmp_path))  # which has not imported the real one
    monkeypatch.setattr(registry, "backends", lambda: ("cpu", "torch"))
    done = kernelzoo("doctor", PYTHONPATH=before(tmp_path))
    assert done.returncode == 1, done.stdout
    assert "numba is broken on purpose" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


def test_the_launch_tables_in_force_are_told(tmp_path, monkeypatch) -> None:
    card = tables.Gpu("NVIDIA Toy 1", "9.9", 7)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv(tables.ENVIRONMENT, raising=False)
    monkeypatch.setattr(tables, "card", lambda index: card)
    monkeypatch.setattr(tables, "_declared", {})
    tables.forget_loaded()
    for op in ("softmax", "min"):

        @tables.launch_table("toy", op)
        class Knobs:
            tile: int = tables.knob(4, among=(2, 4, 8), unit="rows", why="of a tile")

    assert describe_launch_tables("toy") == "shipped"
    assert describe_launch_tables("other") == ""
    file = tables.store(card, "toy", "min", tables.digest(Knobs), {"tile": 8}, {}, [])
    tables.forget_loaded()
    assert describe_launch_tables("toy").startswith("softmax shipped, min tuned ")
    file.write_bytes(b"no table")
    tables.forget_loaded()
    told = describe_launch_tables("toy")
    assert told.startswith("shipped; the launch table in ") and told.count("is not used") == 1
    tables.forget_loaded()


def test_a_backend_that_crashes_costs_its_own_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One process is asked for all; those that it did not come to are asked again."""
    (tmp_path / "numba.py").write_text("import os\nos.abort()\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    found = probe.run_probes(["backend:torch", "backend:cpu", "backend:triton"])
    assert list(found) == ["backend:torch", "backend:cpu", "backend:triton"]
    assert found["backend:cpu"]["error"].startswith("crashed (SIGABRT)")
    assert found["backend:torch"]["devices"] and "crashed" not in found["backend:triton"].get("error", "")
