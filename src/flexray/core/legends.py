"""Legends and titles of figures that are never cut off.

A legend stands below its figure in as many columns as fit the width; the figure grows by the legend's height. Words
that are too long for a line are wrapped, and those of many lines lose their middle.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flexray.core.files import failing

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.figure import Figure
    from matplotlib.font_manager import FontProperties
    from matplotlib.legend import Legend

MAX_COLUMNS = 4
MAX_LINES = 4
MAX_LETTERS = 600
"""No more fit into these lines."""
NARROWEST = 2.0
"""Pixels of the narrowest letter, a limit for the texts to measure."""
MAX_ENTRIES = 120
"""A figure is limited to some hundred rows; the last entry gives the number of those left out."""
MARGIN = 0.03
"""Part of the width that stays free, since a text's width depends a little on the resolution."""


def save_figure(figure: Figure, path: Path, dpi: float, metadata: Mapping[str, Any] | None) -> None:
    """Write a figure to a file whose suffix gives the format.

    Raises:
        DataError: The file cannot be written.
    """
    with failing(f"{path}: cannot be written"):
        figure.savefig(path, dpi=dpi, metadata=metadata)


def legend_below(figure: Figure, handles: Sequence[Artist], labels: Sequence[str], **style: Any) -> None:
    """Add a legend below a figure with constrained layout, and its height to the figure's.

    Args:
        figure: A figure as high as its panels.
        handles: The lines shown beside the words.
        labels: The words, in the same order.
        style: More arguments of matplotlib's ``legend``.
    """
    if not handles:
        return
    from matplotlib.lines import Line2D

    shown, words = list(handles[:MAX_ENTRIES]), list(labels[:MAX_ENTRIES])
    if more := len(labels) - len(words):
        shown, words = [*shown, Line2D([], [], linestyle="none")], [*words, f"and {more:,} more: see the table"]
    renderer = _renderer(figure)
    room = figure.bbox.width * (1 - 2 * MARGIN)
    columns = min(MAX_COLUMNS, len(words))
    legend = _legend(figure, shown, words, columns, style)
    while (width := legend.get_window_extent(renderer).width) > room:
        legend.remove()
        if columns == 1:  # wrap the words; the lines beside them keep their width
            font = legend.get_texts()[0].get_fontproperties()
            beside = width - max(_width(text, renderer, font) for text in words)
            words = [wrapped(text, room - beside, renderer, font) for text in words]
            legend = _legend(figure, shown, words, 1, style)
            break
        columns -= 1
        legend = _legend(figure, shown, words, columns, style)
    figure.set_figheight(figure.get_figheight() + legend.get_window_extent(renderer).height / figure.dpi)


def _legend(figure: Figure, handles: Sequence[Artist], words: Sequence[str], columns: int, style: Any) -> Legend:
    texts = [plain(text) for text in words]
    return figure.legend(handles, texts, ncols=columns, **{"loc": "outside lower center", "frameon": False, **style})


def wrap_title(figure: Figure, text: str, share: float, size: str) -> str:
    """Return a title, free of formulas, in lines no longer than ``share`` of the figure's width."""
    from matplotlib.font_manager import FontProperties

    return plain(wrapped(text, figure.bbox.width * share, _renderer(figure), FontProperties(size=size)))


def plain(text: str) -> str:
    """Return a text in which matplotlib finds no formula."""
    return text.replace("$", r"\$")


def wrapped(text: str, room: float, renderer: Any, font: FontProperties) -> str:
    """Return a text in lines of at most ``room`` pixels, broken between words where possible."""
    text = " ".join(text.split())
    if len(text) > MAX_LETTERS:
        text = f"{text[: MAX_LETTERS // 2]}{text[-MAX_LETTERS // 2 :]}"
    lines = []
    while text:
        most = min(len(text), int(room / NARROWEST) + 2)
        fits = bisect_right(range(2, most + 1), room, key=lambda end: _width(text[:end], renderer, font))
        end = fits + 1 if fits + 1 >= len(text) else text.rfind(" ", 1, fits + 2) + 1 or fits + 1
        lines.append(text[:end].rstrip())
        text = text[end:].lstrip()
    if len(lines) > MAX_LINES:
        lines = [*lines[: MAX_LINES // 2], f"…{lines[-2][1:]}", lines[-1]]
    return "\n".join(lines)


def _renderer(figure: Figure) -> Any:
    """Return a renderer, which measures texts."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas: Any = FigureCanvasAgg(figure)
    return canvas.get_renderer()


def _width(text: str, renderer: Any, font: FontProperties) -> float:
    width: float = renderer.get_text_width_height_descent(text, font, ismath=False)[0]
    return width
