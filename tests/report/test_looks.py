"""How implementations look in the figures, and that all of it can be read, in light and in dark."""

import itertools
import re
from pathlib import Path

import pytest

pytest.importorskip("jinja2", reason="the page needs jinja2: pip install 'kernelzoo[report]'")

from kernelzoo.report import load, looks, page_cells
from kernelzoo.report import page as page_module

# Contrast, after WCAG 2: 3 for what is drawn, 4.5 for text.


def luminance(colour: str) -> float:
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one: str, other: str) -> float:
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


CSS = Path(page_module.__file__).with_name("web").joinpath("page.css").read_text(encoding="utf-8")
LIGHT, DARK = (
    dict(re.findall(r"(--\w+): (#\w{6})", block)) for block in re.findall(r":root \{(.*?)\}", CSS, re.DOTALL)
)


def test_every_line_stands_out_from_the_page_light_and_dark() -> None:
    for shades in (*looks.COLOURS.values(), *looks.SPARE_COLOURS):
        assert all(contrast(shade, theme["--page"]) >= 3 for shade in shades for theme in (LIGHT, DARK))


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_text_stands_out_from_the_page_light_and_dark(theme) -> None:
    for ground in ("--page", "--panel"):
        for text in ("--text", "--quiet", "--link", "--faster", "--slower"):
            assert contrast(theme[text], theme[ground]) >= 4.5, (text, ground)


def test_black_is_readable_on_every_shade() -> None:
    shares = [page_cells.mix(page_cells.WORST, page_cells.BEST, i / 20) for i in range(21)]
    ratios = [page_cells.ratio_shade(2 ** (i / 4)) for i in range(-16, 17)]
    assert all(contrast(shade, "#000000") >= 4.5 for shade in shares + ratios)


def test_an_implementation_looks_the_same_everywhere_and_like_no_sibling(sweep, write) -> None:
    rows = load([write(sweep)]).groups[0].rows
    found = looks.looks(rows)
    assert found == looks.looks(tuple(reversed(rows)))
    for one, other in itertools.combinations(found, 2):
        same_op = one.split("/")[1] == other.split("/")[1]
        assert not same_op or found[one] != found[other], (one, other)


def test_what_is_shown_at_first_differs_in_colour_and_in_symbol(entry, write) -> None:
    """Ours and those of other packages: no two hues, and no two symbols, are one."""
    names = ("torch/eager", "cpu/auto", "cupy/auto", "numba/auto", "triton/auto", "liger/library", "quack/library")
    found = looks.looks(load([write([entry(name.replace("/", "/softmax/")) for name in names])]).groups[0].rows)
    assert len({look.colour for look in found.values()}) == len({look.symbol for look in found.values()}) == len(names)
