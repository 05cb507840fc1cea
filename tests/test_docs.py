"""The documentation stays true: links lead somewhere, names are in the source, and what is shown to run does run."""

import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import commands
import form_tables
import options
import pytest
import torch
from scripts import loaded

import kernelzoo
from kernelzoo.cli import main
from kernelzoo.report import writing

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
if not (ROOT / "docs" / "records").is_dir():
    pytest.skip("an sdist has no records, which pages link to", allow_module_level=True)
pages = loaded(ROOT / "bench" / "pages.py")

PAGES = [*sorted(ROOT.glob("docs/**/*.md")), *ROOT.glob("examples/*/README.md"), *sorted(ROOT.glob("*.md"))]
KERNELS = ROOT / "docs" / "kernels.md"
OPERATIONS = ROOT / "docs" / "operations.md"
SOURCES = (ROOT / "kernelzoo" / "kernels", ROOT / "examples")
RUN = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/*.md"))]
"""Pages whose blocks are run as they stand; Python of kernels.md is lines of the source."""

WORDS = {"README.md": 940, "docs": 14_700}
"""At most so many in the README, and in all that stands in docs itself: a language is a column of each table there."""

LANGUAGES = {"python": ("py",), "cpp": ("cu", "cuh")}
"""The fences of source, and the files whose lines stand in them."""

_FENCE = commands.FENCE
_INLINE = re.compile(r"\[([^\]\[]*)\]\(([^()\s]+)\)")
_IMAGE = re.compile(r'(?:src|srcset)="([^"]+)"')
_REFERENCE = re.compile(r"\[([^\]\[]*)\]\[([^\]\[]+)\]")
_DEFINITION = re.compile(r"^\[([^\]\[]+)\]: (\S+)$", re.MULTILINE)


def links(page: str) -> list[tuple[str, str]]:
    """(text, target) of a page's links, code blocks aside: [text](target), and [text][label] by its definition."""
    page = _FENCE.sub("", page)
    targets = dict(_DEFINITION.findall(page))
    images = [("", target) for target in _IMAGE.findall(page)]
    return (
        _INLINE.findall(page) + images + [(text, targets.get(label, label)) for text, label in _REFERENCE.findall(page)]
    )


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
        if language not in LANGUAGES:
            continue
        code = textwrap.dedent(re.sub(rf"^{margin}", "", block, flags=re.MULTILINE)).splitlines()
        if not any(_holds(file, code) for file in sources(LANGUAGES[language])):
            strange.append(block)
    return strange


def sources(suffixes: tuple[str, ...]) -> Iterator[Path]:
    return (file for folder in SOURCES for suffix in suffixes for file in folder.rglob(f"*.{suffix}"))


def _holds(file: Path, code: list[str]) -> bool:
    # Lines that begin with # in CUDA C (#pragma unroll) stand at the margin, and would only distract in an excerpt.
    lines = [
        line
        for line in file.read_text(encoding="utf-8").splitlines()
        if file.suffix == ".py" or not line.startswith("#")
    ]
    starts = (i for i, line in enumerate(lines) if line.strip() == code[0].strip())
    return any(textwrap.dedent("\n".join(lines[i : i + len(code)])).splitlines() == code for i in starts)


def id_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=id_of)
def test_links_lead_somewhere(page: Path) -> None:
    assert broken_links(page.read_text(encoding="utf-8"), page.parent) == []


def missing_files(page: str) -> list[str]:
    """Paths of files of this repository, wherever a page names them, that are not there."""
    named = re.findall(r"(?<![\w/.<>-])((?:kernelzoo|tests|bench|docs|examples)/[\w/.]+\.(?:py|cuh?|md|json))\b", page)
    return sorted({name for name in named if not (ROOT / name).exists()})


@pytest.mark.parametrize("page", PAGES, ids=id_of)
def test_files_that_are_named_exist(page: Path) -> None:
    assert missing_files(page.read_text(encoding="utf-8")) == []


def test_linked_names_are_in_the_source() -> None:
    assert missing_names(KERNELS.read_text(encoding="utf-8"), KERNELS.parent) == []


@pytest.mark.parametrize("page", [KERNELS, OPERATIONS], ids=id_of)
def test_excerpts_are_the_source(page: Path) -> None:
    assert strange_excerpts(page.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("name", [*form_tables.BLOCKS, options.PAGE.name])
def test_what_is_made_of_the_code_is_as_it_says(name: str) -> None:
    """``python tests/described/form_tables.py`` and ``options.py`` beside it write it."""
    made = form_tables.blocks(name) if name in form_tables.BLOCKS else options.blocks()
    assert writing.insert((ROOT / "docs" / name).read_text(encoding="utf-8"), made, name)[1] == []


@pytest.mark.parametrize("command", options.OPTIONS)
def test_the_page_of_commands_names_no_option_that_is_not_there(command: str) -> None:
    page = options.PAGE.read_text(encoding="utf-8")
    assert re.findall(r"^## (.+)$", page, re.MULTILINE) == list(options.OPTIONS)
    section = page.split(f"\n## {command}\n")[1].split("\n## ")[0]
    told = set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", _FENCE.sub("", section)))
    assert told <= {flag for names in options.OPTIONS[command] for flag in names}


def test_documents_are_short() -> None:
    def count(*pages: Path) -> int:
        words = (word for page in pages for word in page.read_text(encoding="utf-8").split())
        return sum(bool(re.search(r"\w", word)) for word in words)  # the lines of tables are none

    assert count(ROOT / "README.md") <= WORDS["README.md"]
    assert count(*ROOT.glob("docs/*.md")) <= WORDS["docs"]


def unknown(command: str) -> str:
    """What of a command does not exist: a program, an option, an extra, a session or a file."""
    given = commands.words(command)
    program, rest = given[0].removeprefix(".venv/bin/"), given[1:]
    flags = {word.partition("=")[0] for word in rest if word.startswith("--")}
    if program == "kernelzoo":
        name, held = rest[0], options.OPTIONS.get(rest[0])
        if held is None:
            return name
        return ", ".join(flags - {flag for names in held for flag in names}) if held else ""
    if program in ("pip", "git", "python3") or command.startswith("python -m venv"):
        extras = set(re.findall(r"[\w-]+", "".join(re.findall(r"\[([\w,-]+)\]", command))))
        return ", ".join(extras - set(re.findall(r"^([\w-]+) = \[", PROJECT, re.MULTILINE)))
    if program == "nox":
        return ", ".join(
            word for word in rest if not word.startswith("-") and f"def {word.replace('-', '_')}(" not in NOX
        )
    if program == "python":
        return "" if rest[0] == "-m" or (ROOT / rest[0]).exists() else rest[0]
    return "" if program in ("pytest", "cd") else program


PROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
NOX = (ROOT / "noxfile.py").read_text(encoding="utf-8")


@pytest.mark.parametrize("page", RUN, ids=id_of)
def test_commands_exist(page: Path) -> None:
    shown = [
        command for block in commands.blocks(page) if block.language == "console" for command, _ in block.commands()
    ]
    parts = [part.strip() for command in shown for part in command.split("&&")]
    assert {part: unknown(part) for part in parts if unknown(part)} == {}


def test_the_site_has_every_page() -> None:
    """``nox -s docs`` builds it; three of its pages are made of what stands elsewhere (.ci/site.py)."""
    named = re.findall(r"^ +- (?:.+: )?([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE)
    there = {str(path.relative_to(ROOT / "docs")) for path in ROOT.glob("docs/**/*.md")}
    assert sorted(named) == sorted(there | {"index.md", "first_kernel.md", "explorer.md"})


def test_the_site_shows_examples_of_docstrings_as_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "griffe", SimpleNamespace(Extension=object))  # only nox -s docs installs it
    shown = loaded(ROOT / ".ci" / "docstrings.py").shown
    assert shown("See :meth:`~a.b`.\n\n>>> f()\n['auto']\n>>> g()\n\nMore.") == (
        "See ``a.b``.\n\n```pycon\n>>> f()\n['auto']\n>>> g()\n```\n\nMore."
    )


def test_the_kernel_of_the_readme_keeps_the_contract(tmp_path: Path) -> None:
    (shown,) = (block.text for block in commands.blocks(ROOT / "README.md") if "@kernelzoo.register" in block.text)
    (tmp_path / "mine.py").write_text(shown)
    verify = ["verify", "--module", str(tmp_path / "mine.py"), "--device", "cpu"]
    assert main([*verify, "--dtype", "float16"]) == 0
    assert main([*verify, "--case", "float64-columns-20011x33", "--case", "float64-16x262144"]) == 0  # long sums


def test_fences_are_of_known_kinds() -> None:
    kinds = {(id_of(page), block.language) for page in RUN for block in commands.blocks(page)}
    assert {kind for _, kind in kinds} <= {"console", "python", "cpp"}
    assert {page for page, kind in kinds if kind == "cpp"} <= {"docs/kernels.md"}


def blocks_to_run(page: Path) -> list[commands.Block]:
    languages = {"console"} if page == KERNELS else {"console", "python"}
    marks = {"", commands.ON_A_GPU} if torch.cuda.is_available() else {""}
    return [block for block in commands.blocks(page) if block.mark in marks and block.language in languages]


@pytest.mark.parametrize("page", [page for page in RUN if blocks_to_run(page)], ids=id_of)
def test_blocks_run_as_they_stand(page: Path, tmp_path: Path) -> None:
    """In order, in one folder; what a command prints is what is shown below it, numbers aside."""
    here, wrong = commands.workplace(tmp_path), []
    for block in blocks_to_run(page):
        if block.language == "python":
            status, _, err = commands.run(here, ["-c", block.text], gpu=bool(block.mark))
            wrong += [f"{block}: {err}"] * (status != 0)
            continue
        for command, shown in block.commands():
            if not commands.runs_here(command):
                continue
            fine = (0, 1, 2) if "--against" in command else (0,)  # on a busy machine it may say that it can't tell
            for _ in range(3):  # or that it must be asked again
                status, out, err = commands.run(here, commands.words(command), gpu=bool(block.mark))
                if status in fine or "measure again" not in out + err:
                    break
            absent = commands.missing(shown, out + err)
            if status not in fine or absent or "Traceback" in err:
                wrong.append(f"{block}: {command}: status {status}; not printed: {absent}; printed: {out}{err}")
    assert not wrong, "\n\n".join(wrong)


def test_a_block_that_is_wrong_is_found(tmp_path: Path) -> None:
    assert commands.run(tmp_path, ["-c", "import kernelzoo; kernelzoo.nothing"])[0] == 1
    status, out, _ = commands.run(tmp_path, ["kernelzoo", "--version"])
    assert (status, out) == (0, f"kernelzoo {kernelzoo.__version__}\n")
    shown = ["A host, wall clock", "a/b  12.5 [1.0, 2]  FASTER", "...", "gone"]
    shown.append("6 disturbed rounds were measured again")
    quiet = "a/naive  310  [294, 363]   1.97   [1.92, 2.18]  SLOWER   3.67"
    assert not commands.missing([quiet], "a/naive ~  199  [193, 200]   2.26  UNCLEAR  5.71\n")
    assert commands.missing(shown, "Another one, wall clock\na/b   7 [0.1, 9]   SLOWER\n") == ["gone"]
    assert unknown("kernelzoo bench --no-such-option") == "--no-such-option"
    assert unknown("pip install '.[cpu,cuda]'") == "cuda"
    assert unknown("nox -s none") == "none" and unknown("python nowhere.py") == "nowhere.py"
    assert not unknown("nox -s tests-triton") and not commands.runs_here("pip install torch")


def test_every_variant_has_its_section() -> None:
    page = KERNELS.read_text(encoding="utf-8")
    for op, heading in (("softmax", "Softmax"), ("min", "Minimum")):
        part = page.split(f"\n## {heading}\n")[1].split("\n## ")[0]
        walked = {name for title in re.findall(r"^### (.+)$", part, re.MULTILINE) for name in title.split(", ")}
        registered = {
            i.variant
            for backend in ("torch", "triton", "gluon", "cutile", "cute", "helion", "cupy", "numba", "cpu")
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


@pytest.mark.parametrize("page", pages.PAGES, ids=lambda page: page.path)
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


def test_the_site_has_a_page_for_each_operation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the README too, whatever the explorer's own is called."""
    site = loaded(ROOT / ".ci" / "site.py")
    monkeypatch.setattr(site, "PAGES", tmp_path / "docs")
    monkeypatch.setattr(site, "GALLERY", tmp_path / "gallery")
    (tmp_path / "gallery").mkdir()
    (tmp_path / "gallery" / "README.md").write_text("# Views\n", encoding="utf-8")
    site.main()
    assert {page.stem for page in (tmp_path / "docs" / "side-by-side").iterdir()} == {*kernelzoo.operations.CALLED}
    assert (tmp_path / "docs" / "index.md").read_text(encoding="utf-8").startswith("# kernelzoo")
    assert (tmp_path / "docs" / "explorer.md").read_text(encoding="utf-8") == "# Views\n"
