"""The figures, by what is on their axes."""

from itertools import combinations

import pytest

pytest.importorskip("matplotlib", reason="figures need matplotlib: pip install 'kernelzoo[report]'")

from kernelzoo.report import figure, load


def test_sweep_is_drawn_as_a_line_per_implementation_and_the_ceiling(sweep, write) -> None:
    (group,) = load([write(sweep)]).groups
    (axes,) = figure.draw(group, "softmax", "float32").axes
    *lines, ceiling = axes.get_lines()
    assert [line.get_label() for line in lines] == group.select("softmax").names
    assert len(lines) == 12
    assert ceiling.get_label() == "measured ceiling, 4000" and list(ceiling.get_ydata()) == [4000.0, 4000.0]
    assert ceiling.is_dashed()
    eager = lines[0]
    assert list(eager.get_xdata()) == list(range(256, 12673, 128))
    row = group.select("softmax").of("torch/eager")
    assert eager.get_ydata()[0] == next(r.gb_per_s for r in row if r.problem.shape == (4096, 256))
    assert axes.get_xscale() == "linear" and axes.get_xlabel() == "columns (4096 rows)" and axes.get_ylabel() == "GB/s"
    assert axes.get_ylim()[0] == 0
    assert axes.get_title(loc="left") == "softmax, float32 on NVIDIA H200, device clock"


def test_legend_names_every_line_and_stands_outside_the_plot(sweep, write) -> None:
    (group,) = load([write(sweep)]).groups
    drawn = figure.draw(group, "softmax", "float32")
    (axes,) = drawn.axes
    legend = axes.get_legend()
    assert len(legend.get_texts()) == 13
    drawn.draw_without_rendering()
    assert legend.get_window_extent().x0 >= axes.get_window_extent().x1


def test_colour_is_the_backend_and_no_two_lines_look_alike(sweep, write) -> None:
    (group,) = load([write(sweep)]).groups
    lines = figure.draw(group, "softmax", "float32").axes[0].get_lines()[:-1]
    for a, b in combinations(lines, 2):
        same_backend = a.get_label().split("/")[0] == b.get_label().split("/")[0]
        assert (a.get_color() == b.get_color()) == same_backend
        assert not same_backend or a.get_marker() != b.get_marker()


def test_what_a_variant_does_not_take_is_a_gap(sweep, write) -> None:
    (group,) = load([write(sweep)]).groups
    lines = {line.get_label(): line for line in figure.draw(group, "softmax", "float32").axes[0].get_lines()}
    x, y = lines["triton/multi_row"].get_data()
    assert [n for n, speed in zip(x, y, strict=True) if speed == speed] == list(range(256, 2049, 128))


def test_columns_that_double_are_drawn_on_a_logarithmic_axis(entry, write) -> None:
    (group,) = load([write([entry(shape=(64, 2**k)) for k in range(6, 18)])]).groups
    axes = figure.draw(group, "softmax", "float32").axes[0]
    assert axes.get_xscale() == "log"
    assert list(axes.get_xticks()) == [2.0**k for k in range(6, 18)]


def test_few_shapes_are_drawn_as_a_panel_of_bars_each(host, write) -> None:
    (group,) = load([write(host)]).groups
    drawn = figure.draw(group, "softmax", "float32")
    panels = [axes for axes in drawn.axes if axes.get_visible()]
    assert [axes.get_title(loc="left") for axes in panels] == ["(128, 256)", "(4096, 4096)"]
    names = [label.get_text() for label in panels[0].get_yticklabels()]
    assert names == ["torch/eager", "torch/naive", "cpu/auto"]
    assert not any(axes.get_lines() for axes in panels)  # no ceiling is known on the host
    widths = [bar.get_width() for bar in panels[1].patches]
    assert widths == pytest.approx([2 * 4 * 4096**2 / us / 1e3 for us in (20000, 60000, 15000)])


def test_a_bar_that_is_missing_says_so_and_the_ceiling_is_drawn(entry, write) -> None:
    entries = [entry(shape=s) for s in ((8, 8), (8, 16), (8, 32), (3, 3, 3))] + [entry("triton/softmax/auto", (8, 8))]
    (group,) = load([write(entries)]).groups
    panels = [axes for axes in figure.draw(group, "softmax", "float32").axes if axes.get_visible()]
    assert len(panels) == 4
    assert [text.get_text() for text in panels[1].texts][1] == "no result"
    assert all(len(axes.get_lines()) == 1 for axes in panels)


def test_files_are_the_same_each_time_and_hold_no_date(host, write, tmp_path) -> None:
    (group,) = load([write(host)]).groups
    for name in ("a", "b"):
        figure.save(figure.draw(group, "softmax", "float32"), tmp_path / name)
    svg = (tmp_path / "a.svg").read_bytes()
    assert svg == (tmp_path / "b.svg").read_bytes() and b"<dc:date>" not in svg
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_a_dollar_in_a_name_is_no_formula(entry, write, tmp_path) -> None:
    (group,) = load([write([entry(device=r"$\bad{ 5$")])]).groups
    figure.save(figure.draw(group, "softmax", "float32"), tmp_path / "x")
