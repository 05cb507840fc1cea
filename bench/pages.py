"""The pages made of what bench/results/ holds: README and docs. ``python bench/records.py pages`` makes them.

Of a record there is that of one GPU: what was measured last, an older one of another GPU being deleted.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "bench" / "results"
GPUS = ("h100", "h200")
"""Whose records there are, in the names of files."""


def of(name: str) -> str:
    """The record with that name, with its GPU's before it."""
    found = (gpu for gpu in GPUS if any(RESULTS.glob(f"{gpu}-{name}.json*")))
    return f"{next(found, GPUS[-1])}-{name}"


def _gpu(name: str) -> str:
    """The GPU of the record with that name."""
    return of(name).partition("-")[0]


def titled(words: str, name: str) -> str:
    """A page's title, which says on which GPU that record was made."""
    return f"{words} on an {_gpu(name).upper()}"


def _measured(name: str) -> bool:
    return any(RESULTS.glob(f"*-{name}.json*"))


MAP = (of("map-softmax"), of("map-min"))
PEOPLE = (of("people-softmax"), of("people-min"))
FINDINGS = (
    *(path.stem for place in ("host", *GPUS) for path in sorted(RESULTS.glob(f"{place}-fuzz-*.json"))),
    *("host-accuracy", of("accuracy"), of("accuracy-triton"), of("load"), of("devices"), of("memory")),
    *(of("sizes-softmax"), of("sizes-min"), "architectures", "portability", of("repeat")),
)

TEN = (*MAP, *(of(name) for name in ("hidden", "vocabulary") if _measured(name)))
"""Softmax and min on the map, the other operations where they are used."""
LINES = tuple(of(name) for name in ("lines-rows", "lines-columns", "lines-vocabulary", "hidden", "vocabulary"))
"""Every form by its name; where an operation has but one, what ``auto`` took."""
LANGUAGES = (
    *(of("map-softmax"), of("map-min"), of("submit")),
    *(path.name.partition(".")[0] for gpu in GPUS for path in sorted(RESULTS.glob(f"{gpu}-first-call-*.json"))),
)
PROFILES = (of("profile"), *(path.stem for gpu in GPUS for path in sorted(RESULTS.glob(f"{gpu}-profile-*.json"))))
"""Of the map, and of other axes and random problems."""
CARDS = tuple(
    path.name.partition(".")[0]
    for gpu in GPUS
    for kind in ("forms", "map")
    for path in sorted(RESULTS.glob(f"{gpu}-{kind}-[ms]*.json.gz"))
)
"""Softmax and min over the map, of every GPU that has them."""
RANKS = tuple(sorted(path.name.partition(".")[0] for path in RESULTS.glob("*x*-distributed.json.gz")))
"""Those of several GPUs, of as many kinds and numbers as there are."""


@dataclass(frozen=True)
class Page:
    """A document with generated blocks, or a report of its own, and the results that it is made of."""

    path: str
    results: tuple[str, ...]
    """Files of bench/results/, less the suffix."""
    title: str = ""
    """Of a report; without, blocks are put into a document."""
    figures: bool = False
    program: str = ""
    """The program beside this one that makes it, if it is not like the others."""

    def make(self, check: bool) -> bool:
        """Write it, or only look whether it would change. True if it would, or if it can't be made."""
        from kernelzoo import cli
        from kernelzoo.files import write_atomically

        path = ROOT / self.path
        files = [str(_file(name)) for name in self.results]
        if self.program:
            program = _program(self.program)
            if hasattr(program, "page"):
                return bool(program.page(path, files, check))
            text = program.made([Path(file) for file in files])
            if check:
                return not path.exists() or path.read_text(encoding="utf-8") != text
            write_atomically(path, text.encode())
            return False
        if not self.title:
            return cli.main(["report", *files, "--insert", str(path), *["--check"] * check]) != 0
        arguments = [*files, "--title", self.title, *["--no-figures"] * (not self.figures)]
        if not check:
            return cli.main(["report", *arguments, "-o", str(path)]) != 0
        with tempfile.TemporaryDirectory() as folder:
            if cli.main(["report", *files, "--title", self.title, "--no-figures", "-o", folder]) != 0:
                return True
            made = (Path(folder) / "report.md").read_text(encoding="utf-8")
        return made != _without_figures((path / "report.md").read_text(encoding="utf-8"))


def _file(name: str) -> Path:
    """The file of a record."""
    packed = RESULTS / f"{name}.json.gz"
    return packed if packed.exists() else packed.with_suffix("")


def _program(name: str) -> Any:
    """A module beside this one, wherever Python looks for modules."""
    spec = importlib.util.spec_from_file_location(f"{name}_of_kernelzoo", Path(__file__).with_name(f"{name}.py"))
    assert spec is not None and spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)  # dataclasses look for theirs
    spec.loader.exec_module(module)
    return module


def _without_figures(report: str) -> str:
    return "\n\n".join(part for part in report.split("\n\n") if not part.startswith("!["))


SWEEP = "The sweep: 4096 rows, 256 to 12672 columns"
PAGES = (
    Page("README.md", (*PEOPLE, *LINES), program="readme"),
    Page("docs/performance.md", MAP),
    Page("docs/measuring.md", (of("aa"),)),
    Page(
        f"docs/records/{_gpu('map-softmax')}-map",
        MAP,
        "The map: 44 shapes, as many odd lengths as even ones",
        figures=True,
    ),
    *(
        Page(f"docs/records/{of(name)}", (of(name),), titled(words, name))
        for name, words in (
            ("gradients", "Gradients of softmax and min"),
            ("axes", "Other axes than the last"),
            ("energy", "The energy of a launch"),
            ("dtypes", "float16 and float64"),
            ("hidden", "Norms, sums and quantisation over hidden sizes"),
            ("vocabulary", "Losses, sums and argmin over vocabularies"),
            ("people-softmax", "Softmax on shapes that people run"),
            ("people-min", "The minimum on shapes that people run"),
            ("submit", "The host's time to submit a call"),
            ("random", "Problems drawn at random"),
            ("calls", "Whole calls, other axes than the last"),
        )
        if _measured(name)
    ),
    Page("docs/records/h200-sweep", ("h200-sweep-a", "h200-sweep-b"), SWEEP, figures=True),
    Page("docs/records/h200-sweep/auto", ("h200-sweep",), SWEEP, figures=True),
    *(Page(f"docs/records/{of(name)}.md", (of(name),)) for name in ("hints", "training")),
    Page("docs/records/languages.md", LANGUAGES, program="languages"),
    *([Page("docs/records/cards.md", CARDS)] if all(name in "".join(CARDS) for name in GPUS) else []),
    Page("docs/records/ten-bars.svg", TEN, program="ten_bars"),
    *(Page(f"docs/records/score-and-lines.{kind}", LINES, program="score_and_lines") for kind in ("svg", "md")),
    *([Page("docs/records/ranks.md", RANKS, program="ranks_model")] if RANKS else []),
    *([Page("docs/records/ranks.svg", RANKS, program="ranks_picture")] if RANKS else []),
)

ON_SITE = {f"{of('profile')}.md": PROFILES, "checks.md": FINDINGS}
"""Documents of docs/records with long tables, which the site's pages alone have, by the records that these show."""


def pages(check: bool) -> int:
    """Make every page, or only see whether one would change; 0 if all is well."""
    bad = []
    for page in PAGES:
        with contextlib.redirect_stdout(io.StringIO()):
            if page.make(check):
                bad.append(page.path)
    for path in bad:
        print(f"{path} {'is not what bench/results/ says' if check else 'could not be made'}", file=sys.stderr)
    return int(bool(bad))
