"""The A/A experiment, races of implementations with themselves: ``python -m kernelzoo.report.aa FILE.json``.

``bench/aa.py`` writes the file. Its block is printed, or with ``--insert FILE.md`` put into a document between ``<!--
results:aa -->`` and ``<!-- /results -->``.
"""

from __future__ import annotations

import statistics
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelzoo.files import FileError, printable, read_json
from kernelzoo.measure.statistics import Interval, Verdict, verdict
from kernelzoo.report import markers
from kernelzoo.report.results import ResultsError
from kernelzoo.report.table import Cell, Table, escape, significant

WANTED = 0.95
"""Share of an implementation's races with itself that must say SAME."""

NOTE = (
    "Each race binds, checks and captures an implementation twice. `spread` is the range of the races' medians, and "
    "`sd` their standard deviation, both in percent of the overall median."
)

HELD = (
    " `slower than the race before` counts slowdowns by `--against FILE --allowed {allowed:.0%}`, and `too noisy` "
    "races that it would not compare."
)


@dataclass(frozen=True)
class Twin:
    """One implementation in repeated races with itself, or why it did not race."""

    id: str
    refused: str
    """Why it can't run there, which is no fault."""
    failed: str
    """Why it has no result: it was wrong or raised an error."""
    medians: tuple[float, ...]
    """Seconds, one per race."""
    ratios: tuple[Interval, ...]
    """Time under the second name over that under the first, one per race."""
    said: tuple[Verdict, ...]
    """The verdicts of the races. For an older file without verdicts, those of its intervals."""
    against: tuple[str, ...] = ()
    """What ``--against`` says of each race after the first, compared with the one before: ok, slower, unclear or
    noisy."""

    @property
    def verdicts(self) -> Counter[Verdict]:
        return Counter(self.said)

    @property
    def passed(self) -> bool:
        """Whether enough races say SAME. True if it can't run there."""
        return not self.failed and self.verdicts[Verdict.SAME] >= WANTED * len(self.ratios)


@dataclass(frozen=True)
class Experiment:
    """One run of ``bench/aa.py``."""

    caption: str
    twins: tuple[Twin, ...]
    allowed: float = 0.05

    def table(self) -> Table:
        """A line for each implementation that raced."""
        headers = ["implementation", "races", "same", "faster or slower", "unclear", "median, µs", "spread", "sd"]
        raced = [twin for twin in self.twins if twin.ratios]
        held = any(twin.against for twin in raced)
        lines = [
            _line(twin) + [Cell(str(twin.against.count(w))) for w in ("slower", "noisy") if held] for twin in raced
        ]
        return Table(headers + ["slower than the race before", "too noisy"] * held, lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Print the blocks of files, or put them into a document; returns the exit status."""
    about = "Report an A/A experiment of bench/aa.py."
    return markers.main("kernelzoo.report.aa", about, lambda paths: {"aa": "\n\n".join(map(aa_block, paths))}, argv)


def aa_block(path: Path) -> str:
    """The block ``aa`` of a document, from one run of the experiment. Raises ResultsError."""
    experiment = load(path)
    reasons = {twin.id: (twin.refused or twin.failed).partition(";")[0] for twin in experiment.twins if not twin.ratios}
    without = [f"Not raced: {escape(f'{id}: {reason}')}" for id, reason in reasons.items()]
    note = NOTE + HELD.format(allowed=experiment.allowed) * any(twin.against for twin in experiment.twins)
    return "\n\n".join([f"**{escape(experiment.caption)}**", experiment.table().markdown(), *without, note])


def load(path: Path) -> Experiment:
    """Read what ``bench/aa.py`` wrote. Raises ResultsError."""
    try:
        return parse(read_json(path))
    except FileError as error:
        raise ResultsError(f"{error}; write it with python bench/aa.py -o") from error
    except (ValueError, KeyError, TypeError, AttributeError, ArithmeticError) as error:
        wrong = f"{type(error).__name__}: {error}"
        raise ResultsError(f"{path} is no A/A experiment ({wrong}); write it with python bench/aa.py -o") from error


def parse(document: Any) -> Experiment:
    """An experiment from JSON. Raises KeyError, TypeError, AttributeError or ValueError for anything else."""
    problem, versions = document["problem"], document["versions"]
    shape = ", ".join(map(str, problem["shape"]))
    with_versions = ", ".join(f"{name} {version}" for name, version in versions.items())
    caption = (
        f"{document['device']}, {document['clock']} clock: {problem['op']} of ({shape}) {problem['dtype']}, "
        f"{document['rounds']} rounds in a race; {with_versions}; measured {document['datetime']}"
    )
    return Experiment(
        printable(caption), tuple(map(_twin, document["implementations"])), float(document.get("allowed", 0.05))
    )


def _twin(entry: Any) -> Twin:
    medians = tuple(float(median) for median in entry["medians"])
    ratios = tuple(Interval(float(low), float(mid), float(high)) for low, mid, high in entry["ratios"])
    id, refused, failed = (printable(str(entry[key])) for key in ("id", "refused", "failed"))
    said = tuple(map(Verdict, entry["verdicts"])) if "verdicts" in entry else tuple(map(verdict, ratios))
    twin = Twin(id, refused, failed, medians, ratios, said, tuple(map(str, entry.get("against", ()))))
    why = twin.refused or twin.failed
    if not len(medians) == len(ratios) == len(said) or bool(ratios) == bool(why):
        raise ValueError(f"{twin.id} has {len(medians)} medians, {len(ratios)} ratios, and is without: {why!r}")
    return twin


def _line(twin: Twin) -> list[Cell]:
    middle, said = statistics.median(twin.medians), twin.verdicts
    deviation = statistics.stdev(twin.medians) if len(twin.medians) > 1 else 0.0
    return [
        Cell(twin.id),
        Cell(str(len(twin.ratios))),
        Cell(str(said[Verdict.SAME])),
        Cell(str(said[Verdict.FASTER] + said[Verdict.SLOWER])),
        Cell(str(said[Verdict.UNCLEAR])),
        Cell(significant(middle * 1e6)),
        Cell(f"{(max(twin.medians) - min(twin.medians)) / middle:.2%}"),
        Cell(f"{deviation / middle:.2%}"),
    ]


if __name__ == "__main__":
    sys.exit(main())
