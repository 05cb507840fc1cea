"""How implementations look in the figures, and that all of it can be read, in light and in dark."""

import itertools
import math
import re
from pathlib import Path

import pytest

pytest.importorskip("jinja2", reason="the page needs jinja2: pip install 'kernelzoo[report]'")

from kernelzoo.report import load, looks
from kernelzoo.report import page as page_module

# How colours look to people who see fewer, and how far apart two of them are

# Linear RGB as seen without green, without red, and without colour: Machado and others, IEEE TVCG 15, 2009,
# at full severity, and the luminance of sRGB.
VISIONS = {
    "normal": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "grey": ((0.2126, 0.7152, 0.0722),) * 3,
}
XYZ = ((0.4124, 0.3576, 0.1805), (0.2126, 0.7152, 0.0722), (0.0193, 0.1192, 0.9505))
WHITE = (0.9505, 1.0, 1.089)


def linear(colour: str) -> list[float]:
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    return [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]


def times(matrix, vector) -> list[float]:
    return [sum(a * b for a, b in zip(row, vector, strict=True)) for row in matrix]


def lab(colour: str, vision: str) -> tuple[float, float, float]:
    seen = [min(max(c, 0.0), 1.0) for c in times(VISIONS[vision], linear(colour))]
    x, y, z = (c / w for c, w in zip(times(XYZ, seen), WHITE, strict=True))
    x, y, z = (c ** (1 / 3) if c > 0.008856 else 7.787 * c + 16 / 116 for c in (x, y, z))
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def distance(one: str, other: str, vision: str) -> float:
    """The difference in CIELAB, of which 2.3 is just noticeable."""
    return math.dist(lab(one, vision), lab(other, vision))


# Contrast, after WCAG 2: 3 for what is drawn, 4.5 for text


def contrast(one: str, other: str) -> float:
    low, high = sorted(times(VISIONS["grey"], linear(c))[0] for c in (one, other))
    return (high + 0.05) / (low + 0.05)


RESULTS = Path(__file__).parents[2] / "bench" / "results"
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


def test_an_implementation_looks_the_same_everywhere(sweep, write) -> None:
    rows = load([write(sweep)]).groups[0].rows
    assert looks.marker_styles(rows) == looks.marker_styles(tuple(reversed(rows)))


APART = 5.0
"""The distance of two shades with one symbol, in CIELAB. Just noticeable is 2.3."""

BACKENDS = (*looks.COLOURS, "flaggems", "liger", "quack")


def test_every_two_differ_in_symbol_or_in_shade_for_every_eye(entry, write) -> None:
    """All of the committed results that a page has together, and five implementations of each backend."""
    people = {*RESULTS.glob("h?00-people-*.json.gz")}
    others = {*RESULTS.glob("h?00-[!lp]*.json.gz")}  # those of lines have a page of their own
    many = load([write([entry(f"{backend}/softmax/{name}") for backend in BACKENDS for name in ("auto", *"abcd")])])
    by_page = [[group for group in load(sorted(paths)).groups if group.clock == "device"] for paths in (others, people)]
    for groups in (*by_page, many.groups):
        found = looks.marker_styles(row for group in groups for row in group.rows)
        for (one, look), (other, like) in itertools.combinations(found.items(), 2):
            if one.split("/")[1] == other.split("/")[1] and look.symbol == like.symbol:
                for vision in VISIONS:
                    assert distance(look.colour, like.colour, vision) >= APART, (one, other, vision)


def test_what_is_shown_at_first_differs_in_symbol(entry, write) -> None:
    """Ours and those of other packages."""
    names = ["torch/eager", *(f"{name}/auto" for name in BACKENDS)]
    found = looks.marker_styles(load([write([entry(name.replace("/", "/softmax/")) for name in names])]).groups[0].rows)
    assert len({look.symbol for look in found.values()}) == len(names)
    assert len({look.colour for look in found.values()}) == len(BACKENDS)  # torch's two are one grey
