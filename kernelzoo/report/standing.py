"""The page's first picture: which implementation is the fastest, by how much, and on which shapes."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from kernelzoo import packages
from kernelzoo.measure.condition import DISTURBED
from kernelzoo.report import score
from kernelzoo.report.looks import OWN
from kernelzoo.report.notes import DAGGER, TILDE
from kernelzoo.report.result_tables import marks_text
from kernelzoo.report.results import ComparableRows, Problem, Results, Selection, geometric_mean

FEW = 5
"""The minimum number of common shapes. If there are fewer, languages with few shapes are ignored."""

LEVEL = 1.01
"""Scores within this factor are said to be level, whatever their intervals."""

PEER = score.OTHERS

DISTURBED_NOTE = f"{TILDE} other work disturbed it"


@dataclass(frozen=True)
class Bar:
    """The mean score of one implementation, or of the best peer on each shape."""

    name: str
    """``backend/variant``, or :data:`PEER`."""
    score: float
    low: float
    high: float
    """The upper end of the 95 % interval. ``low`` is the lower end. Both are 0 if the file has no samples."""
    count: int
    """The number of shapes that it was measured on."""
    ratio: float | None
    """The speed relative to the baseline, on the shapes that both take."""
    marks: str


@dataclass(frozen=True)
class Standing:
    """A ranking on ``problems``: the fastest bar first, and bars of implementations with fewer problems last."""

    problems: Sequence[Problem]
    bars: Sequence[Bar]
    lacking: Sequence[str]
    """The kernelzoo languages that have no result on some of the problems."""


def first_shown_names(selection: Selection) -> list[str]:
    """Return the names that the page shows first: the baseline, each ``auto``, and all of a backend without ``auto``.

    An ``auto`` of the baseline's backend is omitted if both have as many shapes. If one name is left, return all names.
    """
    base, _, _ = selection.baseline.partition("/")
    firsts = [name for name in selection.names if name == selection.baseline or name.endswith("/auto")]
    chosen = {name.partition("/")[0] for name in firsts}
    names = [name for name in selection.names if name in firsts or name.partition("/")[0] not in chosen]
    if len(selection.of(selection.baseline)) == len(selection.of(f"{base}/auto")) > 0:
        names.remove(f"{base}/auto")
    return names if len(names) > 1 else selection.names


Score = tuple[float, Sequence[tuple[float, int]]]
"""A row's logarithmic score, with variances and their degrees of freedom (none if there are too few samples). The score
is the share of the limit, or if no limit is known, the speed relative to the baseline."""

Scores = Mapping[tuple[Problem, str], Score]


def scores(selection: Selection) -> Scores:
    """Return the score of each row, by problem and name."""
    limited = any(row.of_limit is not None for row in selection.rows)
    found = {}
    for row in selection.rows:
        ratio = selection.ratio(row)
        value = row.of_limit if limited else 1 / ratio if ratio else None
        if value:
            base = None if limited else selection.rows_by_cell[row.problem, selection.baseline]
            timed = [row.times, *([base.times] if base is not None and base is not row else [])]
            found[row.problem, row.name] = log_score(value, timed)
    return found


def log_score(value: float, samples: Sequence[Sequence[float]]) -> Score:
    """Return the logarithmic score of ``value``. ``samples``: those of each time from which the value was computed."""
    return math.log(value), [_log_median_variance(times) for times in samples] if min(map(len, samples)) > 1 else []


def rank_implementations(selection: Selection, row_scores: Scores, problems: Collection[Problem]) -> Standing:
    """Rank all implementations on the problems that every kernelzoo language supports. Scores are geometric means."""
    by_language = _problems_by_language(selection, row_scores, set(problems))
    shown = _common_problems(by_language.values()) or {problem for problem, _ in row_scores if problem in problems}
    lacking = sorted(language for language, taken in by_language.items() if shown - taken)
    rows_of = {name: selection.of(name) for name in selection.names}
    base = selection.baseline.partition("/")[0]
    peers = list(dict(score.find_fastest_rows(selection)).get(PEER, {}).values())
    if {row.name for row in peers} - {selection.baseline, f"{base}/auto"}:
        rows_of[PEER] = peers
    bars = []
    for name, rows in rows_of.items():
        taken = [row for row in rows if row.problem in shown and (row.problem, row.name) in row_scores]
        if taken:
            mean, low, high = mean_and_interval([row_scores[row.problem, row.name] for row in taken])
            ratio = geometric_mean(1 / found for row in taken if (found := selection.ratio(row)) is not None)
            disturbed = sum(TILDE in row.marks for row in taken)
            marks = marks_text(taken, no_tilde=True) + (f" {disturbed} {TILDE}" if disturbed else "")
            bars.append(Bar(name, mean, low, high, len(taken), ratio, marks.strip()))
    bars.sort(key=lambda bar: (bar.count != len(shown), -bar.score))
    return Standing(sorted(shown, key=lambda problem: (problem.reduced_length, problem)), bars, lacking)


def describe_fastest(ranking: Standing, selection: Selection) -> str:
    """Return a sentence: the fastest implementation, those too close to tell apart, and speeds relative to others."""
    shown, count = {*first_shown_names(selection), PEER}, len(ranking.problems)
    bars = [bar for bar in ranking.bars if bar.name in shown and bar.count == count and DAGGER not in bar.marks]
    single = {bar.score for bar in bars if not _has_kernelzoo_backend(bar.name) and bar.name != PEER}
    bars = [bar for bar in bars if bar.name != PEER or bar.score not in single]  # not one peer twice
    if not bars:
        return "No implementation took all of these shapes."
    first, *others = bars
    level = [bar for bar in others if bar.high >= first.low > 0 or first.score <= LEVEL * bar.score]
    names = " and ".join(_bar_label(bar) for bar in (first, *level))
    rest = [bar for bar in others if bar not in level]
    own = [bar for bar in rest if _has_kernelzoo_backend(bar.name)]
    peers = [bar for bar in rest if bar not in own and not bar.name.startswith(selection.baseline.split("/")[0] + "/")]
    beside = [bar for bar in rest if bar in (*own[:1], *peers[:1])]
    said = [f"{first.score / bar.score:.2f} × {_bar_label(bar)}" for bar in beside]
    if first.ratio is not None and selection.baseline not in (bar.name for bar in (first, *level)):
        said.append(f"{first.ratio:.2f} × {selection.baseline}")
    close = "too close to tell apart" if all(bar.high >= first.low > 0 for bar in level) else "within 1 %"
    names += f", {close}" * bool(level)
    speeds = ", ".join(said).replace("×", "× the speed of", 1)
    return f"Fastest: {names}{', with ' * bool(said)}{speeds}."


def describe_shapes(ranking: Standing, requested: int) -> str:
    """Return the ranking's dtypes and shapes as text. ``requested``: the number of shapes asked for."""
    problems = ranking.problems
    dtypes = " and ".join(sorted({problem.dtype for problem in problems}))
    count = f"{len(problems)} shape{'s' * (len(problems) != 1)}"
    if len(problems) < requested:
        but = f" but {', '.join(ranking.lacking)}" * bool(ranking.lacking)
        count = f"the {len(problems)} of {requested} shapes with a result of every language{but}"
    ends = list(dict.fromkeys(map(str, problems if len(problems) < 3 else (problems[0], problems[-1]))))
    return f"{dtypes}, {count}: {' to '.join(ends)}"


def mean_and_interval(rows: Sequence[Score]) -> tuple[float, float, float]:
    """Return the scores' geometric mean and the ends of its 95 % interval: 0, 0 with too few samples."""
    mean = math.exp(math.fsum(log for log, _ in rows) / len(rows))
    if not all(of_row for _, of_row in rows):
        return mean, 0.0, 0.0
    errors = [error for _, of_row in rows for error in of_row]
    total = math.fsum(variance for variance, _ in errors)
    if not total:
        return mean, mean, mean
    freedom = total**2 / math.fsum(variance**2 / degrees for variance, degrees in errors)
    half = math.exp(_student_quantile(freedom) * math.sqrt(total) / len(rows))
    return mean, mean / half, mean * half


def _log_median_variance(times: Sequence[float]) -> tuple[float, int]:
    """Return the variance of the median's logarithm, pi / 2 times the mean's variance, and its degrees of freedom."""
    logs = list(map(math.log, times))
    mean = math.fsum(logs) / len(logs)
    return 1.5708 * math.fsum((log - mean) ** 2 for log in logs) / (len(logs) - 1) / len(logs), len(logs) - 1


def _student_quantile(freedom: float, z: float = 1.959964) -> float:
    """Return Student's quantile for 95 % from the normal quantile ``z`` (Abramowitz and Stegun 26.7.5)."""
    terms = (z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96, (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + sum(term / freedom**power for power, term in enumerate(terms, 1))


def _problems_by_language(
    selection: Selection, row_scores: Scores, requested: set[Problem]
) -> Mapping[str, set[Problem]]:
    found: dict[str, set[Problem]] = {}
    names = set(first_shown_names(selection))
    for problem, name in row_scores:
        if problem in requested and name in names and _has_kernelzoo_backend(name):
            found.setdefault(name.partition("/")[0], set()).add(problem)
    return found


def _common_problems(by_language: Iterable[set[Problem]]) -> set[Problem]:
    """Return the problems that every language has. If these are few, ignore the language with the fewest problems."""
    taken = sorted(by_language, key=len, reverse=True)
    while taken:
        common = set.intersection(*taken)
        if len(common) >= min(FEW, len(taken[0])):
            return common
        taken.pop()
    return set()


def _has_kernelzoo_backend(name: str) -> bool:
    return name.partition("/")[0] in OWN


def _bar_label(bar: Bar) -> str:
    return f"{'the ' * (bar.name == PEER)}{bar.name}{f' ({bar.marks})' * bool(bar.marks)}"


def speeds(group: ComparableRows, op: str) -> dict[str, float]:
    """Return mean speeds relative to the baseline, the fastest first. Names without the same problems are left out."""
    selection = group.select(op)
    taken = {name: {row.problem for row in selection.of(name)} for name in selection.names}
    means = {name: selection.mean_ratio(name) for name in taken if taken[name] == taken.get(selection.baseline)}
    return dict(sorted(((name, 1 / mean) for name, mean in means.items() if mean), key=lambda item: -item[1]))


def speed_lines(results: Results) -> list[str]:
    """Return the speeds on the first device as text: a line for each operation."""
    group = results.groups[0]
    ops = dict.fromkeys(row.op for row in group.rows)
    told = {
        op: ", ".join(f"{speed_label(name, group, op)} {x:.2f}" for name, x in speeds(group, op).items()) for op in ops
    }
    lines = [f"{op}, times as fast as torch eager: {words}" for op, words in told.items() if words]
    return [*lines, *([DISTURBED_NOTE] if any(TILDE in line for line in lines) else [])]


def speed_label(name: str, group: ComparableRows, op: str) -> str:
    """Return the label of an implementation's speed, with a tilde if other work disturbed it."""
    backend, _, variant = name.partition("/")
    title = packages.LANGUAGES.get(backend, backend)
    disturbed = any(DISTURBED in row.flags for row in group.select(op).of(name))
    return (title if variant == "auto" else f"{title} {variant}") + (f" {TILDE}" if disturbed else "")
