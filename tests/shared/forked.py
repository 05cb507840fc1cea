"""Runs of pytest (JSON on standard input), each in a child of one process that has imported torch."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path


def pytests(runs: Sequence[tuple[Path, Sequence[str]]]) -> list[tuple[int, str]]:
    """The exit status and the output of pytest with these arguments in these folders."""
    # Under pytest-xdist, which these variables tell of, pytest-benchmark would measure nothing.
    alone = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_XDIST")}
    done = subprocess.run(
        [sys.executable, __file__],
        input=json.dumps([(str(folder), list(arguments)) for folder, arguments in runs]),
        env=alone,
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    return [(status, output) for status, output in json.loads(done.stdout)]


def _run(folder: str, arguments: list[str]) -> tuple[int, str]:
    import pytest

    with tempfile.TemporaryFile() as said:
        child = os.fork()
        if not child:
            for stream in (1, 2):
                os.dup2(said.fileno(), stream)
            os.chdir(folder)
            status = pytest.main(["-p", "no:hypothesispytest", *arguments])  # which takes most of a second to import
            sys.stdout.flush()
            os._exit(status)
        _, status = os.waitpid(child, 0)
        said.seek(0)
        return os.waitstatus_to_exitcode(status), said.read().decode()


if __name__ == "__main__":
    import torch  # noqa: F401 - what all of them need

    print(json.dumps([_run(*run) for run in json.load(sys.stdin)]))
