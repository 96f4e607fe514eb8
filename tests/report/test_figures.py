"""Pictures: nothing is cut, hue and dash say what differs, equal lines are both seen."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from flexray.core.legends import MAX_ENTRIES, MAX_LINES, legend_below
from flexray.report.folders import find_runs, read_runs
from flexray.report.grouping import Group, make_groups
from flexray.report.looks import Look, decided_early, looks
from flexray.report.plots import draw
from flexray.traces.plot import draw_trace
from flexray.traces.reading import Trace
from helpers.made_runs import write_run

LONG = "my_package.algorithms.AnAlgorithmOfQuiteALongName"


def groups_in(folder: Path) -> list[Group]:
    return make_groups(read_runs(find_runs([folder])))


def names_of(count: int, length: int) -> list[str]:
    return [f"{'algorithm_of_a_long_name_' * 9}"[: length - 2] + f"{k:02}" for k in range(count)]


def outside(picture: Figure, dpi: int = 160) -> list[str]:
    """Return the texts, and the legend, that reach beyond the figure at a resolution."""
    picture.draw_without_rendering()
    picture.set_layout_engine("none")
    picture.set_dpi(dpi)
    renderer: Any = picture._get_renderer()  # type: ignore[attr-defined]
    parts = [*picture.legends, *(axes.title for axes in picture.axes), *(axes.xaxis.label for axes in picture.axes)]
    boxes = [(part, part.get_window_extent(renderer)) for part in parts if str(getattr(part, "_text", "legend"))]
    whole = picture.bbox
    return [
        str(part) for part, box in boxes
        if box.x0 < whole.x0 or box.x1 > whole.x1 or box.y0 < whole.y0 or box.y1 > whole.y1
    ]  # fmt: skip


@pytest.mark.parametrize("length", [6, 160])
@pytest.mark.parametrize("count", [1, 6, 12])
def test_the_legend_and_the_titles_lie_within_the_figure(count: int, length: int, tmp_path: Path) -> None:
    for name in names_of(count, length):
        for dataset in ("digits", "d" * length)[: 1 + (length > 40)]:
            write_run(tmp_path / f"{name[-2:]}{dataset[-1]}", name, summary={"dataset": dataset})
    picture = draw(groups_in(tmp_path), None, "time")
    assert picture is not None
    (legend,) = picture.legends
    assert len(legend.get_texts()) == count + 1
    assert not outside(picture)
    height = picture.axes[0].get_window_extent().height / picture.dpi
    assert height > 1.5  # the legend does not take the room of the curves


def test_words_of_any_length_are_wrapped_and_keep_their_end() -> None:
    picture = Figure(figsize=(3, 2), layout="constrained")
    line = picture.add_subplot().plot([0, 1])[0]
    legend_below(picture, [line, line], ["x" * 5000 + "$1", "many short words $ " * 300 + "last"])
    texts = [text.get_text() for text in picture.legends[0].get_texts()]
    assert [text.endswith(end) for text, end in zip(texts, (r"x\$1", "last"), strict=True)] == [True, True]
    assert {text.count("\n") for text in texts} == {MAX_LINES - 1}
    assert not outside(picture)


def test_a_legend_of_thousands_says_how_many_more_there_are() -> None:
    picture = Figure(figsize=(5, 3), layout="constrained")
    line = picture.add_subplot().plot([0, 1])[0]
    legend_below(picture, [line] * 3000, [f"group {k}" for k in range(3000)])
    texts = [text.get_text() for text in picture.legends[0].get_texts()]
    assert texts[-1] == f"and {3000 - MAX_ENTRIES:,} more: see the table"
    assert not outside(picture)


@pytest.mark.parametrize("count", [1, 40])
def test_the_legend_of_a_trace_lies_within_its_figure(count: int) -> None:
    cpu_mt = np.full((count, 3), 0.5)
    trace = Trace(tuple(f"machine_{'of_a_long_name_' * 3}{k}" for k in range(count)), 300.0, cpu_mt, False, "x" * 300)
    assert not outside(draw_trace(trace), 150)


def grid(folder: Path, algos: Sequence[str], timeouts: Sequence[int], rates: Sequence[float] = (0.1,)) -> list[Group]:
    for algo in algos:
        for timeout in timeouts:
            for rate in rates:
                typed = [f"timeout={timeout}", f"lr={rate}"]
                write_run(folder / f"{algo}{timeout}{rate}", algo, typed=typed, config={"timeout": timeout, "lr": rate})
    return groups_in(folder)


def test_hue_is_the_algorithm_and_dash_the_second_axis(tmp_path: Path) -> None:
    groups = grid(tmp_path / "two", ("flex", "vafl"), (10, 20))
    assert [(g.values["algo"], g.values["timeout"]) for g in groups] == [
        (algo, t) for algo in ("flex", "vafl") for t in ("10", "20")
    ]
    assert looks(groups) == [Look(0, 0, 0), Look(0, 1, 0), Look(1, 0, 0), Look(1, 1, 0)]
    alone = grid(tmp_path / "one", ("flex",), (10, 20, 30))
    assert looks(alone) == [Look(0, 0, 0), Look(1, 0, 0), Look(2, 0, 0)]
    three = looks(grid(tmp_path / "three", ("flex", "vafl"), (10, 20), (0.1, 0.2)))
    assert len(set(three)) == 8
    assert {look.mark for look in three} == {0, 1}


def test_many_groups_all_look_different(tmp_path: Path) -> None:
    groups = grid(tmp_path, [f"a{k:02}" for k in range(10)], range(10, 18))
    assert len(set(looks(groups))) == 80


def test_equal_lines_are_both_seen_and_said_to_be_the_same(tmp_path: Path) -> None:
    for algo in ("flex", "sync_min"):
        write_run(tmp_path / algo, algo)
    write_run(tmp_path / "vafl", "vafl", values=(0.1, 0.2, 0.3))
    picture = draw(groups_in(tmp_path), None, "time")
    assert picture is not None
    words = [text.get_text() for text in picture.legends[0].get_texts()]
    assert words == ["flex", "sync_min (same as flex)", "vafl", "test_top1 ≥ 0.9"]
    patterns = [line._unscaled_dash_pattern for line in picture.axes[0].lines[:3]]  # type: ignore[attr-defined]
    (first, (on, off)), (second, same), whole = patterns
    assert (on, off) == same
    assert (on, (second - first) % (on + off)) == (off, on)  # each covers what the other leaves
    assert whole == (0, None)


@pytest.mark.parametrize(("values", "early"), [((0.1, 0.95, *[0.96] * 30), True), ((*[0.1] * 30, 0.95), False)])
def test_an_axis_is_logarithmic_where_all_is_decided_in_its_first_tenth(
    values: Sequence[float], early: bool, tmp_path: Path
) -> None:
    for target in (0.9, None):
        folder = tmp_path / str(target)
        for algo in ("flex", "vafl"):
            write_run(folder / algo, algo, values=values, summary={"target": target})
        groups = groups_in(folder)
        assert decided_early(groups, "time") == early
        picture = draw(groups, None, "time")
        assert picture is not None
        assert picture.axes[0].get_xscale() == ("log" if early else "linear")
        assert not outside(picture)
