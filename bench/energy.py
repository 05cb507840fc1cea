"""Whether two runs tell the same energy of a launch: ``python bench/energy.py FIRST.json.gz AGAIN.json.gz``.

Both are of ``kernelzoo bench --energy`` on one device. Each row of the second is divided by its row of the first, the
energy and, beside it, the time: what the times share is no fault of the counter. Exit status 1 if the energies of some
row are further apart than ``--allowed``; 2 if there is nothing to compare.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

from kernelzoo.report import Row, load, notes
from kernelzoo.report.table import Cell, Table

Pair = tuple[Row, Row, float]
"""A row, the same again, and the second one's energy over the first one's."""


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Whether two runs agree on the energy of a launch; see the source.")
    parser.add_argument("first", type=Path, metavar="FIRST.json.gz")
    parser.add_argument("again", type=Path, metavar="AGAIN.json.gz")
    parser.add_argument(
        "--allowed", type=float, default=0.1, help="share that rows may differ by (default: %(default)s)"
    )
    options = parser.parse_args(argv)
    pairs = paired(rows(options.first), rows(options.again))
    if not pairs:
        print("no row of both runs has an energy by the same device and cache", file=sys.stderr)
        return 2
    names = sorted({row.id for row, _, _ in pairs})
    table = Table(
        ["implementation", "rows", "energy, median", "least", "largest", "time, median", "furthest apart on"],
        [_line(name, [pair for pair in pairs if pair[0].id == name]) for name in names] + [_line("all", pairs)],
    )
    print("again / first\n")
    print(table.text())
    print(f"\n{notes.energy_resolution(one.energy for pair in pairs for one in pair[:2])}")
    apart = sum(_apart(ratio) > options.allowed for _, _, ratio in pairs)
    print(f"{len(pairs)} rows, {apart} further apart than {options.allowed:.0%}")
    return int(apart > 0)


def rows(path: Path) -> list[Row]:
    """Those with an energy."""
    return [row for group in load([path]).groups for row in group.rows if row.energy is not None]


def paired(first: Sequence[Row], again: Sequence[Row]) -> list[Pair]:
    """Each row that both have."""
    known = {(row.id, row.problem, row.device, row.cache): row for row in first}
    pairs = []
    for row in again:
        base = known.get((row.id, row.problem, row.device, row.cache))
        if base is not None and base.energy is not None and row.energy is not None:
            pairs.append((base, row, row.energy.launch_mj / base.energy.launch_mj))
    return pairs


def _apart(ratio: float) -> float:
    return max(ratio, 1 / ratio) - 1


def _line(name: str, pairs: Sequence[Pair]) -> list[Cell]:
    ratios = [ratio for _, _, ratio in pairs]
    furthest = max(pairs, key=lambda pair: _apart(pair[2]))[0]
    figures = [statistics.median(ratios), min(ratios), max(ratios)]
    figures.append(statistics.median(row.seconds / base.seconds for base, row, _ in pairs))
    where = f"{furthest.problem.dtype} {furthest.problem}"
    return [Cell(name), Cell(str(len(pairs))), *(Cell(f"{figure:.3f}") for figure in figures), Cell(where)]


if __name__ == "__main__":
    sys.exit(main())
