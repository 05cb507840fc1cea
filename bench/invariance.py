"""What batch invariance costs: ``python bench/invariance.py FILE...``, of results that have both kinds of calls.

Such a file comes from ``kernelzoo bench --variant auto,auto+batch_invariant``. A line for each language, operation and
dtype: the geometric mean of the times' ratios, the least and the most, and on how many problems.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path

from kernelzoo.registry import BATCH_INVARIANT
from kernelzoo.report.reading import load
from kernelzoo.report.results import geometric_mean


def main(files: list[Path]) -> None:
    rows = [row for group in load(files).groups for row in group.rows]
    plain = {(row.card, row.id, row.problem): row.microseconds for row in rows}
    ratios: dict[tuple[str, str], list[float]] = defaultdict(list)
    for row in rows:
        before = plain.get((row.card, row.id.removesuffix(BATCH_INVARIANT), row.problem))
        if row.id.endswith(BATCH_INVARIANT) and before:
            ratios[row.id, row.problem.dtype].append(row.microseconds / before)
    for (id, dtype), found in sorted(ratios.items()):
        mean = geometric_mean(found) or 0.0
        print(f"{id} {dtype}: {mean:.3f} ({min(found):.3f} to {max(found):.3f}) of {len(found)} problems")


if __name__ == "__main__":
    main([Path(name) for name in sys.argv[1:]])
