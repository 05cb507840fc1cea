"""bench/gallery.py: a page for each report of our own results, which says what the documents say, and its addresses."""

import re
from pathlib import Path
from urllib.parse import parse_qs

import pytest
from scripts import loaded

pytest.importorskip("jinja2", reason="the page needs jinja2: pip install 'kernelzoo[report]'")

from page_reader import Page

pytestmark = [pytest.mark.slow, pytest.mark.nightly]

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"\]\(explorer/([\w-]+)\.html(?:#([^)]*))?\)")


@pytest.fixture(scope="module")
def gallery(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("gallery")
    assert loaded(ROOT / "bench" / "gallery.py").main(["-o", str(folder)]) == 0
    return folder


def test_each_address_names_a_view_that_is_there(gallery) -> None:
    links = LINK.findall((gallery / "README.md").read_text(encoding="utf-8"))
    pages = {name: Page(gallery / f"{name}.html") for name, _ in links}
    titled = [page for page in loaded(ROOT / "bench" / "pages.py").PAGES if page.title]
    assert len(pages) == len(list(gallery.glob("*.html"))) == len(titled) > 5
    seen = set()
    for name, address in links:
        if not address:
            continue
        said = {key: value for key, (value,) in parse_qs(address, strict_parsing=True).items()}
        (group,) = (group for group in pages[name].data()["groups"] if group["id"] == said["device"])
        assert any((s["op"], s["dtype"]) == (said["op"], said["dtype"]) for s in group["subjects"])
        assert said["view"] in {attributes.get("id") for _, attributes in pages[name].elements}
        seen.add((name, said["op"], said["dtype"], said["view"]))
    subjects = [subject for page in pages.values() for subject in page.subjects()]
    mj = pages["h200-map"].data()["fields"].index("mj")
    counted = sum(any(subject["columns"][mj]) for subject in subjects)
    assert len(seen) == 5 * len(subjects) + counted > 50


@pytest.mark.parametrize("op", ["softmax", "min"])
def test_the_page_of_the_map_says_what_the_documents_say(gallery, op) -> None:
    bars = Page(gallery / "h200-map.html").data()["groups"][0]["standings"][op]["all"][""]["bars"]
    document = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8").replace("\\", "")
    shown = [(name, score) for name, score, _, _, count, _, marks in bars if count == 88 and not marks]
    assert len(shown) > 7
    for name, score in shown:
        assert f"| {name} | {score:.2f} |" in document, name


def test_each_page_is_small_enough_to_be_mailed(gallery) -> None:
    assert all(path.stat().st_size <= 2_000_000 for path in gallery.glob("*.html"))
