"""What runs with the versions installed here: ``python tests/portability.py -o bench/results/portability.json``.

nox's sessions ``portability`` run it in an environment for each combination of versions. Exits with 1 on a failure.
"""

import argparse
import datetime
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import kernelzoo
from kernelzoo import measure
from kernelzoo.errors import BackendUnavailableError
from kernelzoo.files import write_atomically
from kernelzoo.kernels.triton import why_too_old

FORMAT = "kernelzoo-portability/1"
HERE = Path(__file__).parent
CONFORMANCE = str(HERE / "test_conformance.py")
# Of the cases, what is special, what has a name, and some plain shapes of float32.
SOME = "(special or dim0 or unaligned or over or extremes or takes or wrong or strided or float32-3x1)"

PYTEST: dict[str, tuple[tuple[str, ...], dict[str, str]]] = {
    "import": (("test_import.py", "test_registry.py", "operations/test_operations.py", "test_inspect.py"), {}),
    "torch, contract": ((CONFORMANCE, "-k", f"torch and {SOME}", "--kernelzoo-require", "torch"), {}),
    "cpu, contract": ((CONFORMANCE, "-k", f"cpu and {SOME}", "--kernelzoo-require", "cpu"), {}),
    "triton, interpreted": (
        (
            CONFORMANCE,
            "-k",
            "triton and (takes or (float32 and (special or dim0 or 3x1)))",
            "--kernelzoo-require",
            "triton",
        ),
        {"TRITON_INTERPRET": "1"},
    ),
    "triton, code": (("triton/test_aot.py", "triton/test_occupancy.py"), {}),
    "cupy, inspected": (("cupy/test_inspection.py",), {}),
    "numba, inspected": (("numba/test_inspection.py",), {}),
}
"""A part's tests, and the environment that it needs."""

COMPILED = {
    "triton, compiled": ("triton", "sm_90"),
    "cupy, compiled": ("cupy", "sm_90"),
    "numba, compiled": ("numba", "sm_90"),
}
"""A part's backend and architecture of described/matrix.py."""

REFUSED = "triton, refused"
"""In place of all of Triton's parts, where it is older than what the backend takes: that it says so."""

DISTRIBUTIONS = ("torch", "triton", "numba", "numba-cuda", "cupy-cuda13x", "cupy-cuda12x", "numpy")


def versions() -> dict[str, str]:
    """Those that a row is known by; of what is not installed, none."""
    found = {"python": ".".join(map(str, sys.version_info[:3]))}
    for name in DISTRIBUTIONS:
        try:
            found[name.replace("-cuda13x", "").replace("-cuda12x", "")] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def tested(arguments: tuple[str, ...], environment: dict[str, str], log: Path | None) -> dict[str, Any]:
    """Run pytest; how many passed, were skipped, failed."""
    files = [str(HERE / word) if word.endswith(".py") else word for word in arguments]
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.xml")
        start = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", f"--junitxml={report}", *files],
            env={**os.environ, "OMP_WAIT_POLICY": "PASSIVE", **environment},
            cwd=HERE.parent,
            capture_output=True,
            text=True,
        )
        seconds = round(time.perf_counter() - start, 1)
        if log is not None:
            log.write_text(done.stdout + done.stderr, encoding="utf-8")
        suite = ElementTree.parse(report).getroot()[0].attrib if report.exists() else {}
    total, skipped = int(suite.get("tests", 0)), int(suite.get("skipped", 0))
    failed = int(suite.get("failures", 0)) + int(suite.get("errors", 0))
    if not total or done.returncode not in (0, 1):  # pytest itself could not go on
        failed = max(1, failed)
    return {"passed": max(0, total - skipped - failed), "skipped": skipped, "failed": failed, "seconds": seconds}


def refused() -> dict[str, Any]:
    """Whether the Triton installed here is refused in the package's own words."""
    start = time.perf_counter()
    try:
        kernelzoo.get("triton")
    except BackendUnavailableError as error:
        why = error.reason
    else:
        why = ""
    seconds = round(time.perf_counter() - start, 1)
    passed = "is older than" in why
    return {"passed": int(passed), "skipped": 0, "failed": int(not passed), "seconds": seconds, "note": why}


def compiled(backend: str, arch: str, log: Path | None) -> dict[str, Any]:
    """Compile kernels of every implementation of a backend; how many problems were taken, refused, at fault."""
    sys.path.insert(0, str(HERE / "described"))
    import matrix

    start = time.perf_counter()
    try:
        row, wrong, spilled = matrix.examined(matrix.requests(backend, arch, few=True))
    except subprocess.CalledProcessError as error:
        seconds = round(time.perf_counter() - start, 1)
        return {"passed": 0, "skipped": 0, "failed": 1, "seconds": seconds, "what": str(error)}
    if log is not None:
        log.write_text("\n".join(["at fault:", *wrong, "spilling:", *spilled, ""]), encoding="utf-8")
    return {
        "passed": row["taken"], "skipped": row["refused"], "failed": row["faults"], "seconds": row["seconds"],
        "kernels": row["kernels"], "spilling": row["spilling"],
    }  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python tests/portability.py", description="Try what runs without a GPU.")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE.json", help="rows in it are replaced")
    parser.add_argument("--log", type=Path, help="folder for the whole output of each part")
    parser.add_argument("--parts", help=f"by default all: {'; '.join((*PYTEST, *COMPILED))}")
    options = parser.parse_args(argv)
    if options.log is not None:
        options.log.mkdir(parents=True, exist_ok=True)
    rows = json.loads(options.output.read_text(encoding="utf-8"))["rows"] if options.output.exists() else []
    known = versions()
    document = {
        "format": FORMAT,
        "command": " ".join(["python", "tests/portability.py", *sys.argv[1:]]),
        "environment": {"device": measure.device_name("cpu"), "versions": measure.versions("cpu")},
        "started": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }
    failed = False
    parts = options.parts.split("; ") if options.parts else [*PYTEST, *COMPILED]
    if "triton" in known and why_too_old(known["triton"]):
        parts = [*(part for part in parts if not part.startswith("triton")), REFUSED]
    for part in parts:
        log = options.log and options.log / f"{part.replace(', ', '-')}.log"
        if part == REFUSED:
            outcome = refused()
        else:
            outcome = tested(*PYTEST[part], log) if part in PYTEST else compiled(*COMPILED[part], log)
        row = {**known, "session": part, **outcome, "date": f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}"}
        print(json.dumps(row), flush=True)
        failed |= row["failed"] > 0
        rows = [r for r in rows if {**known, "session": part}.items() - r.items()] + [row]
        document |= {"seconds": round(sum(r["seconds"] for r in rows), 1), "rows": rows}
        write_atomically(options.output, (json.dumps(document, indent=1) + "\n").encode())
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
