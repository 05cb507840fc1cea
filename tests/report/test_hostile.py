"""Results of a stranger's: none of their texts becomes markup, a link, a column, a path or a terminal's command."""

import json
import re
import xml.etree.ElementTree
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("jinja2", reason="the page needs jinja2: pip install 'kernelzoo[report]'")
pytest.importorskip("matplotlib", reason="figures need matplotlib: pip install 'kernelzoo[report]'")

from page_reader import Page

from kernelzoo.cli import main
from kernelzoo.report import load
from kernelzoo.report.page import write_page

TEXTS = (
    "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(1)>",
    "\"><svg/onload=alert(1)><a href='javascript:alert(1)'>x</a>",
    "<!-- --></style><iframe src='//evil'></iframe>",
    "&lt;script&gt;&#60;b&#62;\\u003cscript\\u003e",
    "{{ 7*7 }}{% include '/etc/passwd' %}",
    "| a | b |\n| :-- | --: |\n\n# heading\n\n[x](javascript:alert(1)) ![x](//evil) `code` **b** $\\frac{1}{2}$ <b>",
    "\x1b[31m\x1b]0;title\x07\x1b]8;;http://evil\x1b\\\r\x00\x9b31m\u202e\u2066",
    "[red]x[/red] [link=http://evil]y[/link] :smiley:",
    "../../../etc/passwd\0.png",
)
LEADING = ("href", "src", "xlink:href", "action", "data")
CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def made(entry: Any, failure: Any, text: str) -> tuple[list[Any], Any]:
    """Results with a text wherever one may stand, in rows of two kinds of figures."""
    told = {"device": text, "clock_detail": text, "shape_set": text, "versions": {text: text}, "flags": [text]}
    told |= {"condition": [{text: text, "deep": {text: [text]}}], "race": text, "repeated_rounds": 1}
    shapes = [(64, 2**i) for i in range(5, 13)] + [(3, 4, 5)]
    rows = [
        entry(id, shape, data=[10.0] * 9, **told) for id in ("torch/softmax/eager", "a/softmax/b") for shape in shapes
    ]
    rows += [entry(id, (8, 8), **told | {"dtype": "int8"}) for id in ("torch/softmax/eager", "a/softmax/b")]
    rows += [entry("a/softmax/b", (8, 8), **told | {"clock": "submit", "submit_us": None})]
    for row in rows:
        row["name"] = text
    return rows, {"format": 1, "failed": [failure(reason=text, outcome=o) for o in ("refused", "wrong", "failed")]}


@pytest.fixture
def files(entry, failure, write):
    """Two results files: of hostile texts, and of harmless ones as many."""

    def both(text: str) -> tuple[Path, Path]:
        found = []
        for name, words in (("hostile.json", text), ("plain.json", "plain")):
            rows, ours = made(entry, failure, words)
            path = write(rows, name, ours=ours)
            document = json.loads(path.read_text())
            document |= {
                "datetime": words,
                "commit_info": {"id": words * 10, "dirty": True},
                "machine_info": {words: words},
            }
            path.write_text(json.dumps(document))
            found.append(path)
        return found[0], found[1]

    return both


TOGETHER = " ".join(TEXTS[:5]), " ".join(TEXTS[5:]), TEXTS[1]


@pytest.mark.parametrize("text", TOGETHER, ids=range(len(TOGETHER)))
def test_a_page_has_the_elements_that_harmless_results_make(files, tmp_path, text) -> None:
    pages, tags, links = [], [], []
    for path in files(text):
        results = load([path])
        write_page(results, tmp_path / "page.html", against=results, title=text if path.name == "hostile.json" else "t")
        pages.append(Page(tmp_path / "page.html"))
        tags.append([(tag, set(attributes)) for tag, attributes in pages[-1].elements])
        links.append([link or "" for _, had in pages[-1].elements for name, link in had.items() if name in LEADING])
    hostile, plain = pages
    assert tags[0] == tags[1] and len(links[0]) == len(links[1])
    assert all(re.fullmatch("#[a-z0-9-]+", link) for link in links[0])  # a group's is made of its device's name
    assert len(hostile.scripts) == len(plain.scripts) == 7
    assert hostile.scripts[1:] == plain.scripts[1:]  # the code: the libraries' and the page's own
    assert re.fullmatch("[A-Za-z0-9+/=]+", hostile.scripts[0][1])  # compressed


def test_the_check_above_can_fail(files, tmp_path, monkeypatch) -> None:
    from kernelzoo.report import page

    monkeypatch.setattr(page, "Environment", lambda autoescape, **options: page_environment(**options))
    from jinja2 import Environment

    def page_environment(**options: Any) -> Environment:
        return Environment(autoescape=False, **options)

    with pytest.raises(AssertionError):
        test_a_page_has_the_elements_that_harmless_results_make(files, tmp_path, TEXTS[1])


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_a_report_and_the_terminal_hold_no_more_lines_and_no_controls(files, tmp_path, capsys, text) -> None:
    shapes = []
    for path in files(text):
        out = tmp_path / f"{path.stem}-out"
        assert main(["report", str(path), "-o", str(out), "--title", text.replace("\0", ""), "--no-figures"]) == 0
        printed = capsys.readouterr()
        document = (out / "report.md").read_text(encoding="utf-8")
        assert [file.name for file in out.iterdir()] == ["report.md"]
        assert not CONTROLS.search(document) and not CONTROLS.search(printed.out + printed.err)
        assert set(re.findall("<[^>]*>?", document)) <= {"<details>", "<summary>", "</summary>", "</details>"}
        assert not re.search(r"(?<!\\)\]\(", document)
        shapes.append([(line[:1], len(re.findall(r"(?<!\\)\|", line))) for line in document.splitlines()])
    assert shapes[0] == shapes[1]


def test_figures_hold_the_text_as_text(files, tmp_path) -> None:
    hostile, _ = files(" ".join(TEXTS[:7]))
    out = tmp_path / "out"
    assert main(["report", str(hostile), "-o", str(out)]) == 0
    names = sorted(file.name for file in out.iterdir())
    assert len(names) == 5 and all(re.fullmatch(r"report\.md|[\w-]+\.(png|svg)", name) for name in names)
    for path in out.glob("*.svg"):
        tree = xml.etree.ElementTree.parse(path)
        tags = {element.tag.rpartition("}")[2] for element in tree.iter()}
        assert not tags & {"script", "a", "image", "foreignObject", "iframe", "img"}, tags
        assert not any(name.startswith("on") for element in tree.iter() for name in element.attrib)


def test_a_file_s_name_is_a_text_too(files, tmp_path, capsys) -> None:
    hostile, _ = files("plain")
    for name in ("\x1b[31m<b>[red].json", "a\nb.json"):
        path = hostile.rename(tmp_path / name)
        assert main(["report", str(path), "-o", str(tmp_path / "page.html")]) == 0
        text = (tmp_path / "page.html").read_text(encoding="utf-8")
        assert "<b>" not in text and "\x1b" not in text
        path.write_text("nonsense")
        assert main(["report", str(path)]) == 2
        said = capsys.readouterr()
        assert "\x1b" not in said.out.replace(str(tmp_path / "page.html"), "") + said.err
        assert said.err.count("\n") == 1
        path.unlink()
        hostile, _ = files("plain")
