"""What more ranks would take, from what some took; and the page of the records of ``bench/distributed.py``.

A call on an axis that R ranks share takes

    t(R) = launches * floor + passes * bytes / (R * copy) + exchange(R, rows)

where bytes are those of the whole input, copy is the bytes a second of the slowest GPU, floor what its least kernel in
a CUDA graph takes, and exchange what a pair a row to all ranks takes alone. By the group's collective it is three
launches and three passes (read, read again, write), by symmetric memory one and two. An exchange is measured on some
numbers of ranks and rows, between which it is a straight line. Beyond the most ranks M that were measured it lies
between that of M, if all are written to at once, and (R - 1) / (M - 1) times that, if one is after the other; and that
only as long as all GPUs have the same link, as those of one host have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelzoo.files import printable, read_json
from kernelzoo.report.table import Cell, Table, escape

KINDS = {"group": (3, 3), "symmetric": (1, 2)}
"""Launches and passes of each exchange."""
EXCHANGES = {"group": " all_gather of a pair a row", "symmetric": "one launch by symmetric memory, 128 columns"}
"""What measures each, by the end of its name; of the second a launch is the floor's."""
RANKS = (1, 2, 4, 8, 16, 32, 64)
WORTH = 0.9
"""Twice the ranks are worth it where they take no more than this share of the time."""
COLUMNS = ("limit", "group", "symm", "apart", "hand", "comp.", "DTens", "1 GPU")
"""Ours by the group's collective and by symmetric memory, in one launch and not; torch by hand, and that compiled."""
TITLES = {
    "group": "ours by NCCL",
    "symm": "ours, symmetric memory, one launch",
    "apart": "ours, symmetric memory, not fused",
    "hand": "torch by hand",
    "comp.": "torch by hand, compiled",
    "DTens": "torch's DTensor",
    "1 GPU": "one GPU",
}
WAYS = {
    "triton by symmetric memory": "symm",
    "triton, symmetric, not fused": "apart",
    "torch by hand": "hand",
    "torch by hand, compiled": "comp.",
    "torch's DTensor": "DTens",
    "one GPU": "1 GPU",
}
SHORT = {"evenly": "", "unevenly": " uneven", "one empty": " empty"}


@dataclass(frozen=True)
class Model:
    """Bytes a second, seconds of a launch, and those of an exchange by ranks and then rows."""

    copy: float
    floor: float
    exchanges: Mapping[int, Mapping[int, float]]
    kind: str

    def exchange(self, ranks: int, rows: int) -> tuple[float, float]:
        """Seconds, at best and at worst. A number of ranks between two that were measured is as the larger."""
        if ranks == 1:
            return 0.0, 0.0
        most = max(self.exchanges)
        known = min((found for found in self.exchanges if found >= ranks), default=most)
        seconds = between(self.exchanges[known], rows)
        return seconds, seconds * max(1.0, (ranks - 1) / (known - 1))

    def seconds(self, ranks: int, rows: int, nbytes: int) -> tuple[float, float]:
        """Of a softmax of so many bytes, at best and at worst."""
        launches, passes = KINDS[self.kind] if ranks > 1 else (1, 2)
        local = launches * self.floor + passes * nbytes / (ranks * self.copy)
        low, high = self.exchange(ranks, rows)
        return local + low, local + high

    def pays(self, rows: int, nbytes: int) -> int:
        """The most ranks up to which each doubling is worth it, at worst."""
        worth = 1
        while worth < RANKS[-1] and (
            self.seconds(2 * worth, rows, nbytes)[1] <= WORTH * self.seconds(worth, rows, nbytes)[1]
        ):
            worth *= 2
        return worth


def between(known: Mapping[int, float], rows: int) -> float:
    """A straight line between the neighbours that are known, and on from the last two; before the first, as there."""
    places = sorted(known)
    if rows <= places[0] or len(places) == 1:
        return known[places[0]]
    right = next((i for i, place in enumerate(places) if place >= rows), len(places) - 1)
    a, b = places[right - 1], places[right]
    return known[a] + (known[b] - known[a]) * (rows - a) / (b - a)


def model(documents: Sequence[Mapping[str, Any]], kind: str) -> Model | None:
    """Of records of one kind of GPU; None where its exchange was not measured in a graph."""
    speeds = [speed for document in documents for speed in document["ceilings"] if speed]
    if not speeds:
        return None
    copy, floor = min(speed["copy"] for speed in speeds), max(speed["floor_s"] for speed in speeds)
    found: dict[int, dict[int, float]] = {}
    for row in (row for document in documents for row in document["exchange"]):
        if row["how"] == "graph" and row["way"].endswith(EXCHANGES[kind]):
            seconds = row["us"] * 1e-6 - (floor if kind == "symmetric" else 0.0)
            found.setdefault(row["ranks"], {})[row["rows"]] = max(0.0, seconds)
    return Model(copy, floor, found, kind) if found else None


def lines(document: Mapping[str, Any], how: str) -> dict[str, dict[str, float]]:
    """Microseconds of the best of ours and of the others, by problem and column."""
    found: dict[str, dict[str, float]] = {}
    for row in document["rows"]:
        if row["how"] != how:
            continue
        op, size = row["op"].replace("_backward", "'"), "x".join(map(str, row["shape"]))
        dtype = row["dtype"].replace("bfloat", "b").replace("float", "f")
        line = found.setdefault(f"{op} {size} {dtype}{SHORT[row['cut']]}", {"limit": row["limit_us"]})
        column = WAYS.get(row["way"], "group" if " by " in row["way"] else "")
        if column:
            line[column] = min(line.get(column, row["us"]), row["us"])
    return found


def table(document: Mapping[str, Any]) -> str:
    """In 80 columns, in a graph; on a host of a call."""
    found = lines(document, "graph" if document["performance"] else "eager")
    width = max(map(len, found), default=0)
    out = [" " * width + "".join(f"{name:>6}" for name in COLUMNS)]
    for name, values in found.items():
        cells = (f"{values[column]:.0f}" if column in values else "-" for column in COLUMNS)
        out.append(f"{name:{width}}" + "".join(f"{cell:>6}" for cell in cells))
    return "\n".join(out)


def made(files: Sequence[Path]) -> str:
    """The page, a section for each record, and what more ranks of each kind of GPU would take."""
    documents = sorted(((read_json(file), file.name) for file in files), key=lambda one: one[0]["ranks"])
    parts = ["# Several GPUs", INTRODUCTION]
    for document, name in documents:
        parts += section(document, name)
        swept = files[0].with_name(f"{name.partition('-')[0]}-scaling.json")
        if swept.exists():
            scaled = read_json(swept)
            parts.append(SWEEP.format(gain=scaled["gain"], problems=scaled["sweeps"][-1]["problems"]))
    for gpu in dict.fromkeys(name.partition("x")[0] for _, name in documents):
        parts += predicted(gpu, [document for document, name in documents if name.partition("x")[0] == gpu])
    return "\n\n".join(parts) + "\n"


SWEEP = """\
A sweep of {problems} problems on all of these GPUs goes {gain:.2f} times as fast as on one of them
(`python bench/records.py run scaling`), starts and ends aside."""

INTRODUCTION = """\
Softmax, minimum and their gradients (') over columns that ranks share, a rank to a GPU. Microseconds of a call, of the
slowest rank. *limit*: a launch, and the bytes of the largest shard at the speed that this GPU copies. Each way was
right on the same input before. *uneven*: ranks have 1, 3, 5 and so on parts of the columns. *empty*: one has none.

`python bench/records.py run distributed` measures this; `python bench/records.py pages` writes it."""


def section(document: Mapping[str, Any], name: str) -> list[str]:
    """The measured tables of a record."""
    environment = document["environment"]
    versions = ", ".join(f"{key} {version}" for key, version in environment["versions"].items())
    device = escape(printable(environment["device"]))
    parts = [f"## {device}", escape(printable(f"{versions}; {document['started'][:16]} ({name})"))]
    for how, title in (("graph", "In a CUDA graph:"), ("eager", "Eager, the host's time included:")):
        found = lines(document, how)
        if not found:
            continue
        columns = [column for column in COLUMNS if any(column in values for values in found.values())]
        rows = []
        for problem, values in found.items():
            best = min((us for column, us in values.items() if column not in ("limit", "1 GPU")), default=0.0)
            cells = (values.get(column) for column in columns)
            told = (Cell("-") if us is None else Cell(f"{us:.1f}", us == best) for us in cells)
            rows.append([Cell(problem), *told])
        parts += [title, Table(["", *(TITLES.get(column, column) for column in columns)], rows).markdown()]
    ways = list(dict.fromkeys((row["way"], row["how"]) for row in document["exchange"]))
    counts = sorted({row["rows"] for row in document["exchange"]})
    us = {(row["way"], row["how"], row["rows"]): row["us"] for row in document["exchange"]}
    alone = [
        [Cell(f"{way}, {how}"), *(Cell(f"{us[way, how, n]:.1f}" if (way, how, n) in us else "-") for n in counts)]
        for way, how in ways
    ]
    return [*parts, "An exchange alone, by rows:", Table(["", *map(str, counts)], alone).markdown()]


def predicted(gpu: str, documents: Sequence[Mapping[str, Any]]) -> list[str]:
    """The model beside what was measured, and for more ranks."""
    parts: list[str] = []
    for kind in KINDS:
        found = model(documents, kind)
        if found is None:
            continue
        measured = softmax_times(documents, kind)
        rows = []
        for shape in measured:
            nbytes = shape[0] * shape[1] * 4
            cells = [Cell(f"{'x'.join(map(str, shape))}, {nbytes / 1e6:.0f} MB")]
            for ranks in RANKS:
                low, high = (f"{seconds * 1e6:.0f}" for seconds in found.seconds(ranks, shape[0], nbytes))
                told = low if low == high else f"{low} to {high}"
                us = measured.get(shape, {}).get(ranks)
                cells.append(Cell(told if us is None else f"{told} ({us:.0f})"))
            rows.append([*cells, Cell(str(found.pays(shape[0], nbytes)))])
        by = "the group's collective" if kind == "group" else "symmetric memory"
        title = f"## {gpu.upper()}, more ranks, by {by}"
        parts += [title, MODEL.format(passes=KINDS[kind][1], launches=KINDS[kind][0])]
        parts.append(Table(["float32", *map(str, RANKS), "pays up to"], rows).markdown())
        parts += _from_fewer(documents, kind)
    return parts


def softmax_times(documents: Sequence[Mapping[str, Any]], kind: str) -> dict[tuple[int, ...], dict[int, float]]:
    """Microseconds of the best of ours, by shape and ranks: softmax of float32 in a graph, cut evenly."""
    found: dict[tuple[int, ...], dict[int, float]] = {}
    for row in (row for document in documents for row in document["rows"]):
        if (row["op"], row["cut"], row["dtype"], row["how"]) == ("softmax", "evenly", "float32", "graph"):
            times, way = found.setdefault(tuple(row["shape"]), {}), row["way"]
            if row["ranks"] == 1 or (WAYS.get(way) == "symm" if kind == "symmetric" else way.endswith(" by nccl")):
                times[row["ranks"]] = min(times.get(row["ranks"], row["us"]), row["us"])
    return found


def _from_fewer(documents: Sequence[Mapping[str, Any]], kind: str) -> list[str]:
    """What the fewest ranks say of the most, beside what these took."""
    fewest, most = documents[0]["ranks"], documents[-1]["ranks"]
    found = model(documents[:1], kind)
    if fewest == most or found is None:
        return []
    rows, bare, off = [], [0.0], [0.0]
    for shape, times in softmax_times(documents, kind).items():
        if not {fewest, most} <= set(times):
            continue
        few, many = (found.seconds(ranks, shape[0], shape[0] * shape[1] * 4)[0] * 1e6 for ranks in (fewest, most))
        rest = times[fewest] - few
        bare.append(abs(many / times[most] - 1))
        off.append(abs((many + rest) / times[most] - 1))
        told = (f"{us:.0f}" for us in (many, rest, many + rest, times[most]))
        rows.append([Cell("x".join(map(str, shape))), *map(Cell, told)])
    text = FROM_FEWER.format(fewest=fewest, most=most, bare=f"{max(bare):.0%}", off=f"{max(off):.0%}")
    return [text, Table(["float32", "said", "rest", "both", "measured"], rows).markdown()]


FROM_FEWER = """\
{most} ranks, by what {fewest} tell: *said* by the model, with the exchange of {fewest} ranks; *rest*, what {fewest}
ranks took beyond it. The rest is the start and the end of each pass, the exchange between several blocks of one row
inside a GPU, and one stream's wait for another, which of few rows hardly depend on the number of ranks. What is said
is within {bare} of what was measured, both together within {off}."""


MODEL = """\
t(R) = {launches} · launch + {passes} · bytes / (R · copy) + exchange(R, rows), in microseconds by ranks; in brackets
what was measured. Beyond the ranks that were measured: at best an exchange takes no longer, at worst longer in
proportion to R - 1. All GPUs must have the same link. *Pays up to*: each doubling of ranks so far saves a tenth of the
time, at worst."""
