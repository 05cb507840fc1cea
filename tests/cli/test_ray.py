"""``bench --engine ray``: a sweep over a cluster, here one of two pretended GPUs, whose workers are killed."""

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import kernelzoo as package
from kernelzoo.measure import over_ray

JOB = "RAY_JOB_CONFIG_JSON_ENV_VAR"
BENCH = ("bench", "--op", "min", "--dtype", "float32", "--cache", "hot", "--rounds", "6", "--engine", "ray")
SEED = random.SystemRandom().randrange(1000)

HEAD = """
import ray, sys
told = ray.init(num_cpus=2, num_gpus=2, include_dashboard=False, _temp_dir=sys.argv[1])
print("at", told.address_info["gcs_address"], flush=True)
sys.stdin.read()
"""

HOOK = """
import os, sys
from kernelzoo.measure import record, worker_process

def pretend():
    worker_process.command = lambda program: [sys.executable, "-S", {stub!r}]
    if "ANOTHER" in os.environ:
        record.digest_sources = lambda modules: {{"sha256": "another", "modules": {{}}}}
"""


@pytest.fixture(scope="module")
def cluster(stub_text: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The environment of a command for a cluster of two GPUs that only Ray believes in, where races are brief."""
    pytest.importorskip("ray", reason="ray is not installed; pip install 'kernelzoo[ray]'")
    home = tmp_path_factory.mktemp("r")
    stub = home / "stub.py"
    stub.write_text(stub_text.replace("        if request", "        time.sleep(0.3)\n        if request", 1))
    (home / "pretending.py").write_text(HOOK.format(stub=str(stub)))
    (home / "token").write_text("0" * 64)
    places = os.pathsep.join([str(home), str(Path(package.__file__).parents[1])])
    env = {"RAY_AUTH_TOKEN_PATH": str(home / "token"), "RAY_AUTH_MODE": "token", "RAY_USAGE_STATS_ENABLED": "0"}
    there = {"worker_process_setup_hook": "pretending.pretend", "env_vars": {"PYTHONPATH": places}}
    job = json.dumps({"runtime_env": there})
    with tempfile.TemporaryDirectory(prefix="kz-", ignore_cleanup_errors=True) as folder:  # short: of sockets' names
        command, pipe = [sys.executable, "-c", HEAD, folder], subprocess.PIPE
        with subprocess.Popen(command, env=os.environ | env, stdin=pipe, stdout=pipe, text=True) as head:
            assert head.stdin is not None and head.stdout is not None
            address = next(line.split()[1] for line in head.stdout if line.startswith("at "))
            yield env | {"RAY_ADDRESS": address, JOB: job}
            head.stdin.close()
            head.wait(60)


class Killer(threading.Thread):
    """Kills workers at random moments, once there are results."""

    def __init__(self, path: Path, times: int) -> None:
        super().__init__(daemon=True)
        self._path, self.left, self._random = path, times, random.Random(SEED)

    def run(self) -> None:
        deadline = time.monotonic() + 60
        while self.left and time.monotonic() < deadline:
            time.sleep(self._random.uniform(0.1, 0.7))
            if self._path.exists() and (workers := self._workers()):
                os.kill(self._random.choice(workers), signal.SIGKILL)
                self.left -= 1

    @staticmethod
    def _workers() -> list[int]:
        """Ray names a process by the actor in it."""
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                if (entry / "cmdline").read_bytes().startswith(b"ray::_RemoteGuard"):
                    found.append(int(entry.name))
            except OSError:  # it has ended meanwhile
                continue
        return found


def test_workers_that_are_killed_lose_nothing_and_double_nothing(cluster, process, tmp_path) -> None:
    path, rows = tmp_path / "r.json", range(10, 26)
    killer = Killer(path, over_ray.TRIES - 1)  # as many as one race may lose, if it were to lose them all
    killer.start()
    done = process(*BENCH, "--shape", ",".join(f"{n}x4" for n in rows), "-o", path, "--json", **cluster)
    assert done.returncode == 0 and killer.left == 0, (SEED, done.stdout, done.stderr)
    assert json.loads(done.stdout)["results"] == 2 * len(rows)
    document = json.loads(path.read_text())
    infos = [entry["extra_info"] for entry in document["benchmarks"]]
    wanted = sorted((n, id) for n in rows for id in ("torch/min/auto", "torch/min/eager"))
    assert sorted((info["shape"][0], info["id"]) for info in infos) == wanted and document["kernelzoo"]["failed"] == []
    assert {info["gpu"]["uuid"] for info in infos} == {"0", "1"} and all(info["gpu"]["host"] for info in infos)
    by_problem = {(info["shape"][0], info["gpu"]["uuid"], info["race"]) for info in infos}
    assert len(by_problem) == len(rows)
    workers = document["kernelzoo"]["workers"]
    assert len(workers) == 2 and all(worker["check"]["ratio"] == 1 for worker in workers)
    assert all(worker["machine"]["python_version"] and worker["versions"]["torch"] == "2" for worker in workers)


def test_a_host_with_another_kernelzoo_is_refused_and_not_retried(cluster, process, tmp_path) -> None:
    job = json.loads(cluster[JOB])
    job["runtime_env"]["env_vars"]["ANOTHER"] = "1"
    done = process(*BENCH, "--shape", "2x4", "-o", "r.json", **cluster | {JOB: json.dumps(job)})
    assert done.returncode == 2 and not (tmp_path / "r.json").exists()
    assert "has another kernelzoo, or other files of --module" in done.stderr and "Traceback" not in done.stderr


def test_without_ray_the_command_says_what_to_install(answer, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    status, told = answer(*BENCH, "--shape", "2x4")
    assert status == 2 and "pip install 'kernelzoo[ray]'" in told["error"]
