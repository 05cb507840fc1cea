"""The explorer of our own results: ``python bench/gallery.py -o FOLDER`` writes a page for each report that pages.py
makes, and README.md, which names the address of every view.

Each is made of the files that the report of its name, and the tables of the documents, are made of: none can disagree.
Documents of docs/records whose long tables only the site has are written with them, into records/.
An address holds the operation and dtype, so it shows the same when the results are measured again.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from urllib.parse import urlencode

from kernelzoo.files import write_atomically
from kernelzoo.measure.measurement import OF_CALLS
from kernelzoo.report import findings, load, writing
from kernelzoo.report.page import write_page
from kernelzoo.report.results import Results

BESIDE = {"h200-map": ("h200-submit.json.gz", "h200-profile.json")}
"""By the name of a page: what the documents tell of the same results, and is no part of their report."""

VIEWS = {
    "score": "the fastest",
    "lines": "score and lines of code",
    "limit": "near the limit",
    "energy": "energy and time",
    "compare": "two compared",
    "results": "every result",
}


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="The explorer of our own results; see the source.")
    parser.add_argument("-o", "--output", type=Path, default=Path("out/gallery"), metavar="FOLDER")
    folder = parser.parse_args(argv).output
    folder.mkdir(parents=True, exist_ok=True)
    pages = _pages()
    lines = ["# Explorer", "", "The results of the [records](records/README.md), to look through.", ""]
    for page in pages.PAGES:
        if not page.title:
            continue
        name = page.path.removeprefix("docs/records/").replace("/", "-")
        paths = [pages.RESULTS / f"{result}.json.gz" for result in page.results]
        results = load([*paths, *(pages.RESULTS / file for file in BESIDE.get(name, ()))])
        write_page(results, folder / f"{name}.html", title=page.title)
        lines += [f"## {page.title}", "", f"[All of it](explorer/{name}.html)", ""]
        lines += [f"- {told}: {', '.join(links)}" for told, links in _views(results, f"explorer/{name}.html")]
        lines.append("")
        print(f"{folder / name}.html: {(folder / f'{name}.html').stat().st_size / 1e6:.2f} MB")
    for name, records in pages.ON_SITE.items():
        document = (pages.ROOT / "docs" / "records" / name).read_text(encoding="utf-8")
        blocks = findings.markdown_by_kind([pages.RESULTS / f"{record}.json" for record in records])
        write_atomically(folder / "records" / name, writing.insert(document, blocks, name)[0].encode())
    write_atomically(folder / "README.md", "\n".join(lines).encode())
    return 0


def _views(results: Results, page: str) -> Iterator[tuple[str, list[str]]]:
    """Of each operation and dtype, in words, a link to each of its views."""
    for group, slug in zip(results.groups, results.slugs(), strict=True):
        if group.clock in OF_CALLS:
            continue
        for op in group.operations():
            for dtype in group.dtypes(op):
                said = {"device": slug, "op": op, "dtype": dtype}
                counted = any(row.energy for row in group.select(op, dtype).rows)
                views = {view: text for view, text in VIEWS.items() if counted or view != "energy"}
                links = [f"[{text}]({page}#{urlencode(said | {'view': view})})" for view, text in views.items()]
                yield f"{op}, {dtype}", links


def _pages() -> ModuleType:
    """bench/pages.py, wherever this is run from."""
    spec = importlib.util.spec_from_file_location("pages_of_kernelzoo", Path(__file__).with_name("pages.py"))
    assert spec is not None and spec.loader is not None
    pages = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(pages)
    return pages


if __name__ == "__main__":
    sys.exit(main())
