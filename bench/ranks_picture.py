"""The picture of docs/distributed.md: a sharded softmax's time against ranks, of few bytes to many, as measured and by
the model of ``ranks_model``.

``python bench/records.py pages`` calls this beside all other pages.
"""

from __future__ import annotations

import importlib.util
import io
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from kernelzoo.files import read_json, write_atomically

TITLES = {"group": "exchange by NCCL", "symmetric": "by symmetric memory, one launch"}


def page(path: Path, files: Sequence[str], check: bool) -> bool:
    """Draw it; or only look whether it is there, since figures are not compared. True if it is not."""
    if check:
        return not path.exists()
    documents = sorted((read_json(Path(file)) for file in files), key=lambda document: document["ranks"])
    write_atomically(path, drawn(documents))
    return False


def drawn(documents: Sequence[dict[str, Any]]) -> bytes:
    """As SVG; the same results give the same file."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    from kernelzoo.report import figure

    ranks_model = _ranks_model()
    counts = ranks_model.RANKS
    with rc_context({**figure.STYLE, "svg.fonttype": "none", "font.family": "sans-serif"}):
        made = Figure(figsize=(9, 4.2), layout="constrained")
        for axes, (kind, title) in zip(made.subplots(1, 2, sharey=True), TITLES.items(), strict=True):
            model = ranks_model.model(documents, kind)
            measured = ranks_model.softmax_times(documents, kind)
            for number, shape in enumerate(sorted(measured, key=lambda shape: shape[0] * shape[1])):
                nbytes = shape[0] * shape[1] * 4
                label = f"{nbytes / 1e6:.0f} MB, {shape[0]} rows"
                (line,) = axes.plot(*_points(measured[shape]), f"{'osD^v'[number]}", label=label)
                low, high = zip(*(model.seconds(ranks, shape[0], nbytes) for ranks in counts), strict=True)
                axes.plot(counts, [seconds * 1e6 for seconds in low], color=line.get_color(), linewidth=1)
                band = ([seconds * 1e6 for seconds in edge] for edge in (low, high))
                axes.fill_between(counts, *band, color=line.get_color(), alpha=0.15, linewidth=0)
            axes.set(title=title, xlabel="ranks", xscale="log", yscale="log")
            axes.set_xticks(counts, [str(ranks) for ranks in counts], minor=False)
            axes.set_xticks([], minor=True)
            axes.set_yticks((10, 100, 1000), ("10", "100", "1000"))
            axes.grid(alpha=0.3)
        made.axes[0].set_ylabel("µs of a softmax, float32")
        made.legend(*made.axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=5, fontsize=8)
        found = io.BytesIO()
        made.savefig(found, format="svg", metadata={"Date": None}, facecolor="white")
    return found.getvalue()


def _points(times: dict[int, float]) -> tuple[list[int], list[float]]:
    return sorted(times), [times[ranks] for ranks in sorted(times)]


def _ranks_model() -> ModuleType:
    """The module beside this one, wherever Python looks for modules."""
    name = "ranks_model_of_kernelzoo"
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name("ranks_model.py"))
    assert spec is not None and spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)  # dataclasses look for theirs
    spec.loader.exec_module(module)
    return module
