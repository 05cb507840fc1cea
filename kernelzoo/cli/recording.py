"""The record of a run: its command and device, and a flat row for each result."""

import datetime
import json
import shlex
import sys
import time
from pathlib import Path
from typing import Any

from kernelzoo.cli import options, output
from kernelzoo.files import check_parent_folder, write_atomically
from kernelzoo.measure.worker_process import ProcessDescription


class Recording:
    """The record of a run. The run's duration is counted from the creation of the record."""

    def __init__(self, format: str) -> None:
        self._format = format
        self.started = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        self._clock = time.monotonic()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._clock

    def document(self, about: ProcessDescription, rows: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
        """Return the complete record: device, versions, times, rows, and the further keys ``more``."""
        return {
            "format": self._format,
            "command": shlex.join(["kernelzoo", *sys.argv[1:]]),
            "environment": {"device": about.device_name, "versions": about.versions},
            "started": self.started,
            "seconds": round(self.seconds, 3),
            "rows": rows,
            **more,
        }


def check_output(path: Path | None) -> None:
    """Raise OptionError or FileError if no file can be written to ``path``. An existing file is replaced at the end."""
    if path is not None:
        check_parent_folder(path)
        if path.is_dir():
            raise options.OptionError(f"no file can be written to {str(path)!r}, a folder; name a file in it with -o")


def write(path: Path | None, document: dict[str, Any]) -> None:
    """Write the file completely or not at all. If ``path`` is None, do nothing."""
    if path is not None:
        write_atomically(path, (json.dumps(output.replace_nonfinite(document), indent=1) + "\n").encode())
