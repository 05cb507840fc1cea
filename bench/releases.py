"""When the packages that results name were released, asked of PyPI: ``python bench/releases.py`` after new results.

Writes kernelzoo/report/releases.json. From it the page of results says how old each version was when it was measured.
"""

import gzip
import json
import re
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
FILE = Path(__file__).parents[1] / "kernelzoo" / "report" / "releases.json"
INDEX = "https://pypi.org/simple/{}/"
JSON = "application/vnd.pypi.simple.v1+json"


def named(found: Any) -> Iterator[tuple[str, str]]:
    """Each package and version below a document's keys ``versions``."""
    if isinstance(found, dict):
        if isinstance(versions := found.get("versions"), dict):
            yield from versions.items()
        for value in found.values():
            yield from named(value)
    elif isinstance(found, list):
        for value in found:
            yield from named(value)


def released(package: str, version: str) -> str | None:
    """The day of a version's first file, or None where the index does not know it."""
    request = urllib.request.Request(INDEX.format(package), headers={"Accept": JSON})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            files = json.load(answer)["files"]
    except OSError:  # it is on no index, as a driver is
        return None
    name = re.compile(rf"{package.replace('-', '[-_.]')}-{re.escape(version)}(-|\.tar|\.zip)", re.IGNORECASE)
    days = [file["upload-time"][:10] for file in files if name.match(file["filename"])]
    return min(days, default=None)


def main() -> None:
    pairs = set[tuple[str, str]]()
    for path in sorted(RESULTS.glob("*.json*")):
        text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        pairs.update((name, version.partition("+")[0]) for name, version in named(json.loads(text)))
    found: dict[str, dict[str, str]] = {}
    for name, version in sorted(pairs):
        if name != "kernelzoo" and (day := released(name, version)):
            found.setdefault(name, {})[version] = day
    FILE.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(f"{sum(map(len, found.values()))} of {len(pairs)} versions are on the index")


if __name__ == "__main__":
    main()
