"""The documentation stays true: links lead somewhere, names are in the source, excerpts are the source's own lines."""

import re
import textwrap
from pathlib import Path

import pytest
import reading
from scripts import loaded

import kernelzoo
from kernelzoo.report import markers

ROOT = Path(__file__).parents[1]
records = loaded(ROOT / "bench" / "records.py")

PAGES = [
    *sorted(ROOT.glob("docs/*.md")),
    *sorted(ROOT.glob("docs/notebook/*.md")),
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
]
KERNELS = ROOT / "docs" / "kernels.md"
SOURCES = ROOT / "kernelzoo" / "kernels"

LANGUAGES = {"python": ("py",), "cpp": ("cu", "cuh")}
"""The fences of kernels.md, and the files whose lines stand in them."""

_FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)
_INLINE = re.compile(r"\[([^\]\[]*)\]\(([^()\s]+)\)")
_REFERENCE = re.compile(r"\[([^\]\[]*)\]\[([^\]\[]+)\]")
_DEFINITION = re.compile(r"^\[([^\]\[]+)\]: (\S+)$", re.MULTILINE)


def links(page: str) -> list[tuple[str, str]]:
    """(text, target) of a page's links, code blocks aside: [text](target), and [text][label] by its definition.

    A label without a definition is its own target, which then leads nowhere.
    """
    page = _FENCE.sub("", page)
    targets = dict(_DEFINITION.findall(page))
    return _INLINE.findall(page) + [(text, targets.get(label, label)) for text, label in _REFERENCE.findall(page)]


def broken_links(page: str, folder: Path) -> list[str]:
    """Targets that lead nowhere: a missing file, or a heading that a page does not have."""
    broken = []
    for _, target in links(page):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        file = folder / name if name else None
        if file is not None and not file.exists():
            broken.append(target)
            continue
        if anchor and anchor not in anchors(file.read_text(encoding="utf-8") if file is not None else page):
            broken.append(target)
    return broken


def anchors(page: str) -> set[str]:
    """What the headings of a page are called in a link."""
    headings = re.findall(r"^#+ +(.+)$", _FENCE.sub("", page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def missing_names(page: str, folder: Path) -> list[str]:
    """Names in a link whose text is `name` alone, that the file at its end does not hold as a word."""
    missing = []
    for text, target in links(page):
        if not re.fullmatch(r"`.+`", text):
            continue
        name = text.strip("`")
        if not re.search(rf"(?<!\w){re.escape(name)}(?!\w)", (folder / target).read_text(encoding="utf-8")):
            missing.append(f"{name} in {target}")
    return missing


def strange_excerpts(page: str) -> list[str]:
    """Code blocks that are not consecutive lines, as indented, of some file of their language."""
    strange = []
    for margin, language, block in _FENCE.findall(page):
        code = textwrap.dedent(re.sub(rf"^{margin}", "", block, flags=re.MULTILINE)).splitlines()
        if not any(_holds(file, code) for suffix in LANGUAGES[language] for file in SOURCES.rglob(f"*.{suffix}")):
            strange.append(block)
    return strange


def _holds(file: Path, code: list[str]) -> bool:
    # Lines that begin with # in CUDA C (#pragma unroll) stand at the margin, and would only distract in an excerpt.
    lines = [
        line
        for line in file.read_text(encoding="utf-8").splitlines()
        if file.suffix == ".py" or not line.startswith("#")
    ]
    starts = (i for i, line in enumerate(lines) if line.strip() == code[0].strip())
    return any(textwrap.dedent("\n".join(lines[i : i + len(code)])).splitlines() == code for i in starts)


def tables(page: str) -> dict[str, dict[str, set[str]]]:
    """Of the tables of what exists where: operation -> backend -> variants."""
    held: dict[str, dict[str, set[str]]] = {}
    op, backends = "", list[str]()
    for line in page.splitlines():
        if not line.startswith("|"):
            op = ""
            continue
        first, *cells = [cell.strip() for cell in line.strip("|").split("|")]
        if first in ("softmax", "min"):
            op, backends = first, cells[:-1]  # the last says what a variant does
            held[op] = {backend: set() for backend in backends}
        elif op and first.startswith("`"):
            for backend, cell in zip(backends, cells[:-1], strict=True):
                if cell != "–":
                    held[op][backend].add(first.strip("`"))
    return held


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    assert broken_links(page.read_text(encoding="utf-8"), page.parent) == []


def missing_files(page: str) -> list[str]:
    """Paths of files of this repository, wherever a page names them, that are not there."""
    named = re.findall(r"(?<![\w/.<>-])((?:kernelzoo|tests|bench|docs|examples)/[\w/.]+\.(?:py|cuh?|md|json))\b", page)
    return sorted({name for name in named if not (ROOT / name).exists()})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_that_are_named_exist(page: Path) -> None:
    assert missing_files(page.read_text(encoding="utf-8")) == []


def test_linked_names_are_in_the_source() -> None:
    assert missing_names(KERNELS.read_text(encoding="utf-8"), KERNELS.parent) == []


def test_excerpts_are_the_source() -> None:
    assert strange_excerpts(KERNELS.read_text(encoding="utf-8")) == []


def test_tables_say_what_is_registered() -> None:
    held = tables(KERNELS.read_text(encoding="utf-8"))
    backends = ("torch", "triton", "cupy", "numba", "cpu")
    for op in ("softmax", "min"):
        assert held[op] == {name: {i.variant for i in kernelzoo.implementations(name, op)} for name in backends}


def test_tables_are_made_of_the_code() -> None:
    """``python tests/described/reading.py`` writes them."""
    assert markers.insert(KERNELS.read_text(encoding="utf-8"), reading.blocks(), KERNELS.name)[1] == []


def test_a_form_is_read_in_few_lines() -> None:
    """From the public call on."""
    read = {language: reading.common_lines() + reading.own_lines(language) for language in reading.FUSED}
    assert {language: lines for language, lines in read.items() if lines > reading.MOST_LINES} == {}


def test_lines_are_lines_of_code() -> None:
    assert reading.lines("layout.py:cdiv") == 2  # beside a docstring
    assert reading.lines("kernels/cupy/row.cuh:begin") == 5  # beside #if and #endif
    assert reading.lines("kernels/cupy/softmax/pairs.cuh:merge") == 5
    with pytest.raises(StopIteration):
        reading.lines("layout.py:nowhere")


def test_every_variant_has_its_section() -> None:
    page = KERNELS.read_text(encoding="utf-8")
    for op, heading in (("softmax", "Softmax"), ("min", "Minimum")):
        part = page.split(f"\n## {heading}\n")[1].split("\n## ")[0]
        walked = {name for title in re.findall(r"^### (.+)$", part, re.MULTILINE) for name in title.split(", ")}
        registered = {
            i.variant
            for backend in ("torch", "triton", "cupy", "numba", "cpu")
            for i in kernelzoo.implementations(backend, op)
        }
        assert walked == registered - {"auto"}


def test_the_checks_above_can_fail() -> None:
    folder = Path(__file__).parent
    page = "# One heading\n[a](nowhere.md) [b](#another) [c](#one-heading) [d][no-label] [e][here]\n\n[here]: gone.md\n"
    assert broken_links(page, folder) == ["nowhere.md", "#another", "no-label", "gone.md"]
    assert missing_files("kernelzoo/layout.py, `tests/nowhere.py:3`\n") == ["tests/nowhere.py"]
    named = "[`folder`](test_docs.py) [`Nowhere`][here]\n\n[here]: test_import.py\n"
    assert missing_names(named, folder) == ["Nowhere in test_import.py"]
    assert strange_excerpts("```python\ndef not_there(): ...\n```\n") == ["def not_there(): ...\n"]
    assert tables("| min | cpu | it |\n|:--|:--|:--|\n| `a` | – | x |\n| `b` | form | y |\n") == {"min": {"cpu": {"b"}}}


@pytest.mark.parametrize("page", records.PAGES, ids=lambda page: page.path)
def test_figures_come_from_the_committed_results(page) -> None:
    """Generated blocks and pages say what bench/results/ holds, and no more."""
    assert not page.make(check=True)


def test_the_reliability_page_names_tests_that_are_there() -> None:
    named = re.findall(
        r"`(tests/[\w/]+\.py)((?:::\w+)*)`", (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
    )
    assert len(named) > 40
    for file, names in named:
        text = (ROOT / file).read_text(encoding="utf-8")
        assert all(re.search(rf"^\s*(?:def|class) {name}\b", text, re.M) for name in names.split("::") if name), file


def test_figures_of_the_measuring_page_come_from_the_committed_results() -> None:
    from kernelzoo.report.aa import aa_block

    page = ROOT / "docs" / "measuring.md"
    block = aa_block(ROOT / "bench" / "results" / "h200-aa.json")
    assert markers.insert(page.read_text(encoding="utf-8"), {"aa": block}, page.name)[1] == []
