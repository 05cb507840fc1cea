"""Write what the site is made of: ``python .ci/site.py`` puts all its pages into out/docs/, ``nox -s docs`` builds it.

The README is the first page, the notebook is one, and so are each operation in all languages and each source file that
a document links to: every link leads somewhere within the site. What ``nox -s gallery`` made is copied.
"""

from __future__ import annotations

import json
import posixpath
import re
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from kernelzoo import side_by_side  # noqa: E402  # its sources are read, and torch is not needed
from kernelzoo.operations import CALLED  # noqa: E402

PAGES = ROOT / "out" / "docs"
LINK = re.compile(r'(\]\(|^\[[^\]]+\]: |(?:src|srcset)=")([^)\s"#]+)', re.MULTILINE)
LANGUAGES = {".py": "python", ".cu": "cpp", ".cuh": "cpp", ".json": "json", ".toml": "toml"}
GALLERY = ROOT / "out" / "gallery"
NO_GALLERY = "# Explorer\n\n`nox -s gallery docs` puts the results here, to look through.\n"
LARGEST = 100_000
"""Characters of a source that a page shows."""


def main() -> None:
    shutil.rmtree(PAGES, ignore_errors=True)
    shutil.copytree(ROOT / "docs", PAGES)
    views = GALLERY / "README.md"
    write("explorer.md", views.read_text(encoding="utf-8") if views.is_file() else NO_GALLERY)
    if views.is_file():
        shutil.copytree(GALLERY, PAGES / "explorer", ignore=shutil.ignore_patterns("*.md"))
    documents = (path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md"))
    left, done = ["README.md", "examples/first_kernel.ipynb", *documents], set[str]()
    while left:
        if (path := left.pop()) not in done:
            done.add(path)
            text, linked = page(path)
            write(page_of(path), text)
            left += linked
    operations()


def operations() -> None:
    """A page for each operation with all its plain forms, to which the table of them links."""
    table = PAGES / "records" / "side-by-side.md"
    text = table.read_text(encoding="utf-8")
    for op in CALLED:
        write(f"side-by-side/{op}.md", side_by_side.format_comparison_page(op))
        text = text.replace(f"| `{op}` |", f"| [`{op}`](../side-by-side/{op}.md) |")
    table.write_text(text, encoding="utf-8")


def write(uri: str, text: str) -> None:
    file = PAGES / uri
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


def page(path: str) -> tuple[str, list[str]]:
    """A file of the project as a page, and the sources that it links to."""
    file = ROOT / path
    if not file.is_file():
        return f"# {path}\n\nA folder of the repository.\n", []
    if path.startswith("docs/") and (whole := GALLERY / path.removeprefix("docs/")).is_file():  # with all tables
        file = whole
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".ipynb":
        text = notebook(text)
    elif file.suffix != ".md":
        cut = text[:LARGEST] + ("\n..." if len(text) > LARGEST else "")
        return f"# {path}\n\n````{LANGUAGES.get(file.suffix, 'text')}\n{cut}\n````\n", []
    return moved(text, page_of(path), path)


def moved(text: str, uri: str, source: str) -> tuple[str, list[str]]:
    """The document with its links as they are from its place in the site, and the sources that it links to."""
    linked: list[str] = []

    def link(found: re.Match[str]) -> str:
        target = found[2]
        if re.match(r"[a-z]+:", target):
            return found[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        to = page_of(path)
        if to.startswith("source/"):
            linked.append(path)
        if found[1].startswith("src"):  # HTML, in a page that is a folder: only the first page has any
            return found[1] + to
        return found[1] + posixpath.relpath(to, posixpath.dirname(uri) or ".")

    return LINK.sub(link, text), linked


def page_of(path: str) -> str:
    """Where a file of the project is in the site."""
    special = {"README.md": "index.md", "examples/first_kernel.ipynb": "first_kernel.md"}
    return special.get(path) or (path.removeprefix("docs/") if path.startswith("docs/") else f"source/{path}.md")


def notebook(text: str) -> str:
    """A notebook's cells, and the text and pictures that they left."""
    parts = []
    for cell in json.loads(text)["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            text = "".join(output.get("text", data.get("text/plain", "")))
            if "image/png" in data:
                parts.append(f'<img alt="" src="data:image/png;base64,{"".join(data["image/png"]).strip()}">')
            elif text:
                parts.append(f"```text\n{text.rstrip()}\n```")
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    main()
