"""What mkdocs.yml asks of the site beside the documents: the README as its first page, the notebook as a page, the
explorers that ``nox -s gallery`` made, and a page for each source file that a document links to, so that every link
leads somewhere within the site."""

from __future__ import annotations

import json
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
LINK = re.compile(r'(\]\(|^\[[^\]]+\]: |(?:src|srcset)=")([^)\s"#]+)', re.MULTILINE)
LANGUAGES = {".py": "python", ".cu": "cpp", ".cuh": "cpp", ".json": "json", ".toml": "toml"}
GALLERY = ROOT / "out" / "gallery"
NO_GALLERY = "# Explorer\n\n`nox -s gallery docs` puts the results here, to look through.\n"
LARGEST = 100_000
"""Characters of a source that a page shows."""


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are no files of docs/."""
    pages = {"index.md": ("README.md", (ROOT / "README.md").read_text(encoding="utf-8"))}
    pages["first_kernel.md"] = ("examples/first_kernel.ipynb", notebook(ROOT / "examples" / "first_kernel.ipynb"))
    linked: set[str] = set()
    for file in list(files.documentation_pages()):
        text = Path(file.abs_src_path).read_text(encoding="utf-8")
        pages[file.src_uri] = (f"docs/{file.src_uri}", text)
    for uri, (source, text) in pages.items():
        made, found = moved(text, uri, source)
        linked |= found
        if (older := files.get_file_from_path(uri)) is not None:
            files.remove(older)
        files.append(File.generated(config, uri, content=made))
    views = GALLERY / "README.md"
    content = views.read_text(encoding="utf-8") if views.is_file() else NO_GALLERY
    files.append(File.generated(config, "explorer.md", content=content))
    for path in sorted(GALLERY.glob("*.html")):
        files.append(File.generated(config, f"explorer/{path.name}", content=path.read_text(encoding="utf-8")))
    left, done = sorted(linked), set[str]()
    while left:
        path = left.pop()
        if path in done:
            continue
        done.add(path)
        text = source_page(path)
        if path.endswith(".md"):
            text, found = moved(text, page_of(path), path)
            left += sorted(found)
        files.append(File.generated(config, page_of(path), content=text))
    return files


def moved(text: str, uri: str, source: str) -> tuple[str, set[str]]:
    """The document with its links as they are from its place in the site, and the sources that it links to."""
    linked: set[str] = set()

    def link(found: re.Match[str]) -> str:
        target = found[2]
        if re.match(r"[a-z]+:", target):
            return found[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        to = page_of(path)
        if to.startswith("source/"):
            linked.add(path)
        if found[1].startswith("src"):  # HTML, in a page that is a folder: only the first page has any
            return found[1] + to
        return found[1] + posixpath.relpath(to, posixpath.dirname(uri) or ".")

    return LINK.sub(link, text), linked


def page_of(path: str) -> str:
    """Where a file of the project is in the site."""
    special = {"README.md": "index.md", "examples/first_kernel.ipynb": "first_kernel.md"}
    return special.get(path) or (path.removeprefix("docs/") if path.startswith("docs/") else f"source/{path}.md")


def source_page(path: str) -> str:
    file = ROOT / path
    if not file.is_file():
        return f"# {path}\n\nA folder of the repository.\n"
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".md":
        return text
    cut = text[:LARGEST] + ("\n..." if len(text) > LARGEST else "")
    return f"# {path}\n\n````{LANGUAGES.get(file.suffix, 'text')}\n{cut}\n````\n"


def notebook(path: Path) -> str:
    """A notebook's cells, and the text and pictures that they left."""
    parts = []
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
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
