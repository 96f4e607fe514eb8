"""The page in a real browser: filter, choose, zoom by keyboard; wide, narrow and dark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flexray.report.cli import main
from helpers.browser import look, open_browser, wait
from helpers.made_runs import sweep, write_run

ROWS = "[...document.querySelectorAll('#results tbody tr')].map(r => [...r.cells].map(c => c.innerText.trim()))"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Return a browser that shows the page of a sweep."""
    home = tmp_path_factory.mktemp("browser")
    driver = open_browser(home / "profile")
    try:
        sweep(home / "runs")
        write_run(home / "runs" / "9", "flex", 9, finished=False)
        assert main([str(home / "runs"), "-o", str(home / "out"), "--formats", "svg", "--axes", "time"]) == 0
        look(driver, 1280, dark=False)
        driver.get((home / "out" / "report.html").as_uri())
        assert wait(driver, "document.body.dataset.ready") == "yes"
        yield driver
        assert not [line for line in driver.get_log("browser") if line["level"] == "SEVERE"]
    finally:
        driver.quit()


@pytest.fixture(autouse=True)
def _as_it_was(browser: Any) -> None:
    look(browser, 1280, dark=False)
    browser.execute_script("document.getElementById('reset').disabled || document.getElementById('reset').click()")


def click(browser: Any, selector: str) -> None:
    browser.execute_script("document.querySelector(arguments[0]).click()", selector)


def choose(browser: Any, name: str, value: str) -> None:
    script = "const s = document.getElementById(arguments[0]); s.value = arguments[1];"
    browser.execute_script(script + "s.dispatchEvent(new Event('change', {bubbles: true}))", name, value)


def text(browser: Any, selector: str) -> str:
    return str(browser.execute_script("return document.querySelector(arguments[0]).innerText", selector))


def traces(browser: Any, name: str) -> list[dict[str, Any]]:
    script = (
        "return document.getElementById(arguments[0]).data.map(t => ({name: t.name, y: t.y, x: t.x, base: t.base}))"
    )
    found: list[dict[str, Any]] = browser.execute_script(script, name)
    return found


def test_the_browser_shows_the_table_that_python_wrote_and_asks_no_network(browser: Any) -> None:
    rows = browser.execute_script(f"return {ROWS}")
    assert [row[2] for row in rows] == ["44.00 ± 4.00", "--", "--"]
    assert [row[3] for row in rows] == ["3/3", "1/3", "0/3"]
    assert rows[0][5:] == ["0.000400 ± 0.000000", "0.9467 ± 0.0252"]
    assert browser.execute_script("return performance.getEntriesByType('resource').length") == 0


def test_filters_change_table_curves_and_runs(browser: Any) -> None:
    click(browser, "#filter-algo input[value=vafl]")
    click(browser, "#filter-seed input[value='2']")
    rows = browser.execute_script(f"return {ROWS}")
    assert [(row[1], row[2], row[3]) for row in rows] == [("flex1", "42.00 ± 2.83", "2/2"), ("pbcd", "--", "0/2")]
    assert text(browser, "#state") == "5 of 10 runs"
    assert {t["name"] for t in traces(browser, "curves") if t["name"]} == {"flex", "pbcd"}
    assert browser.execute_script("return document.getElementById('schedule-run').length") == 5
    click(browser, "#reset")
    assert text(browser, "#state") == "10 of 10 runs"


def test_curves_are_held_not_stretched(browser: Any) -> None:
    choose(browser, "curve-axis", "time")
    mean = next(t for t in traces(browser, "curves") if t["name"] == "flex")
    assert mean["x"] == [0, 20, 22, 24, 40]  # to the end of the shortest run
    assert mean["y"] == pytest.approx([0.1, (0.2 + 0.1 + 0.1) / 3, (0.2 + 0.2 + 0.1) / 3, 0.2, (0.95 + 0.2 + 0.2) / 3])
    choose(browser, "curve-axis", "rounds")
    mean = next(t for t in traces(browser, "curves") if t["name"] == "flex")
    assert mean["y"] == pytest.approx([0.1, 0.2, (0.95 + 0.92 + 0.97) / 3])
    label = browser.execute_script("return document.getElementById('curves').getAttribute('aria-label')")
    assert label.startswith("test_top1 over rounds: flex ends at 0.9467 ± 0.0252")
    click(browser, "#curve-runs")
    assert sum(t["name"] == "flex" for t in traces(browser, "curves")) == 4  # three, and the unfinished one
    click(browser, "#curve-runs")


def test_the_schedule_shows_a_range_of_rounds_of_one_run(browser: Any) -> None:
    choose(browser, "schedule-run", "0")
    choose(browser, "schedule-from", "2")
    choose(browser, "schedule-to", "3")
    compute = next(t for t in traces(browser, "schedule") if t["name"] == "compute")
    assert compute["base"] == pytest.approx([10, 20] * 3, rel=1e-5)
    assert compute["x"] == pytest.approx([20 / 3] * 6, rel=1e-5)
    assert compute["y"] == ["a", "a", "b", "b", "server", "server"]
    assert "a\t66.7 %\t0.0 %\t33.3 %\t20.0" in text(browser, "#shares")
    tau = traces(browser, "tau")
    assert [t["y"] for t in tau] == [[2, 1, 2, 1, 1], [4, 4], [5, 5]]
    click(browser, "#schedule-after")
    assert browser.execute_script("return document.getElementById('schedule-from').value") == "3"
    choose(browser, "schedule-to", "99")
    assert browser.execute_script("return document.getElementById('schedule-to').value") == "4"


def test_figures_zoom_by_keyboard(browser: Any) -> None:
    from selenium.webdriver.common.keys import Keys

    figure = browser.find_element("id", "schedule")
    before = browser.execute_script("return arguments[0]._fullLayout.xaxis.range", figure)
    figure.send_keys("+")
    inside = wait(
        browser, f"(r => r[0] > {before[0]} && r)(document.getElementById('schedule')._fullLayout.xaxis.range)"
    )
    assert inside[1] < before[1]
    figure.send_keys(Keys.ARROW_RIGHT)
    wait(browser, f"document.getElementById('schedule')._fullLayout.xaxis.range[0] > {inside[0]}")
    figure.send_keys("0")
    wait(browser, f"document.getElementById('schedule')._fullLayout.xaxis.range[0] == {before[0]}")


def test_everything_can_be_reached_by_tab(browser: Any) -> None:
    from selenium.webdriver.common.keys import Keys

    browser.execute_script("document.activeElement.blur(); window.scrollTo(0, 0)")
    active, seen = browser.switch_to.active_element, set()
    for _ in range(60):
        active.send_keys(Keys.TAB)
        active, name = browser.execute_script(
            "const found = document.activeElement; return [found, found.id || found.value]"
        )
        seen.add(name)
    wanted = {
        "flex",
        "curve-metric",
        "curve-axis",
        "curves",
        "schedule-run",
        "schedule-from",
        "schedule",
        "tau",
        "runs",
    }
    assert wanted <= seen


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_it_is_readable_wide_narrow_light_and_dark(browser: Any, width: int, dark: bool, tmp_path: Path) -> None:
    look(browser, width, dark)
    wait(browser, f"innerWidth == {width} && document.documentElement.scrollWidth <= {width}")
    contrast = browser.execute_script("""
        const channels = (c) => c.match(/[\\d.]+/g).slice(0, 3).map(Number);
        const linear = (v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
        const light = (c) => channels(c).map(linear).reduce((s, v, k) => s + v * [0.2126, 0.7152, 0.0722][k], 0);
        const card = light(getComputedStyle(document.querySelector('.card')).backgroundColor);
        return ['td', 'th', '.hint', 'strong', 'summary', '.facts li'].map((selector) => {
            const text = light(getComputedStyle(document.querySelector(selector)).color);
            return (Math.max(card, text) + 0.05) / (Math.min(card, text) + 0.05);
        });""")
    assert min(contrast) >= 4.5, contrast
    fonts = "[...document.querySelectorAll('.figure')].every(f => f.getBoundingClientRect().right <= innerWidth)"
    assert wait(browser, fonts)
    ink = browser.execute_script("return document.getElementById('curves')._fullLayout.font.color")
    assert wait(
        browser, f"document.getElementById('curves')._fullLayout.font.color == '{'#e8ecf3' if dark else '#1a2230'}'"
    )
    assert ink
    browser.save_screenshot(str(tmp_path / "page.png"))
    assert (tmp_path / "page.png").stat().st_size > 20_000


@pytest.fixture(scope="module")
def grid(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the page of twelve groups of long names that have equal lines, and of a run of a thousand parties."""
    home = tmp_path_factory.mktemp("grid")
    for k in range(6):
        for timeout in (10, 20):
            name, about = f"an_algorithm_of_quite_a_long_name_{k}", {"timeout": timeout}
            values = (0.1, *[0.95 + max(1, k) / 1000 + timeout / 100_000] * 30)
            write_run(home / "runs" / f"{k}{timeout}", name, values=values, typed=[f"timeout={timeout}"], config=about)
    about = {"status": "interrupted"}
    write_run(home / "runs" / "many", "many", tau=[*range(1, 1001), 20], summary=about, config={"timeout": 10})
    assert main([str(home / "runs"), "-o", str(home / "out"), "--formats", "svg", "--axes", "time"]) == 0
    return home / "out" / "report.html"


@pytest.fixture
def show(browser: Any, grid: Path) -> Iterator[Any]:
    """Return a function that opens the page of the grid at a width; the other page is back afterwards."""
    before = browser.current_url

    def opened(width: int, dark: bool = False) -> None:
        look(browser, width, dark)
        browser.get(grid.as_uri())
        assert wait(browser, "document.body.dataset.ready") == "yes"

    yield opened
    look(browser, 1280, dark=False)
    browser.get(before)
    assert wait(browser, "document.body.dataset.ready") == "yes"


CUT = """return ['curves', 'tau', 'lr'].filter((id) => {
    const box = document.getElementById(id), whole = box.getBoundingClientRect();
    const words = [...box.querySelectorAll('.legendtext, .xtitle, .ytitle')].map((t) => t.getBoundingClientRect());
    const beyond = (r) => r.left < whole.left || r.right > whole.right || r.bottom > whole.bottom || r.top < whole.top;
    const title = box.querySelector('.xtitle').getBoundingClientRect();
    const under = [...box.querySelectorAll('.legendtext')].some((t) => t.getBoundingClientRect().top < title.bottom);
    const bar = box.querySelector('.scrollbar');
    return words.some(beyond) || under || (bar && bar.getBoundingClientRect().height > 0);
})"""


@pytest.mark.parametrize("width", [1280, 390])
def test_no_legend_is_cut_and_the_schedule_of_a_thousand_parties_can_be_read(
    browser: Any, show: Any, width: int
) -> None:
    show(width)
    choose(browser, "schedule-run", "12")
    assert "the 10 slowest of 1,000 parties" in text(browser, "#schedule-hint")
    assert wait(browser, f"document.documentElement.scrollWidth <= {width}")
    assert browser.execute_script(CUT) == []
    assert (
        browser.execute_script("return document.getElementById('curves').querySelectorAll('.legendtext').length") == 12
    )
    assert browser.execute_script("return document.getElementById('schedule').getBoundingClientRect().height") < 600
    gap = (
        "document.querySelector('#schedule .bars').getBoundingClientRect().top - "
        "document.getElementById('schedule').getBoundingClientRect().top"
    )
    assert browser.execute_script(f"return {gap}") < 60
    assert text(browser, "#speeds").count("quarter") == 4


def test_a_swept_key_has_a_filter_and_equal_lines_are_seen_in_turn(browser: Any, show: Any) -> None:
    show(1280)
    lines = "return document.getElementById('curves').data.map(t => [t.name, t.line.color, t.line.dash])"
    found = [line for line in browser.execute_script(lines) if line[0]]
    equal = [line for line in found if "0px" in line[2]]
    assert [line[2] for line in equal] == ["0px,0px,8px,8px"] * 2 + ["0px,8px,8px,0px"] * 2
    assert equal[2][0].endswith("_1, timeout=10 (same as an_algorithm_of_quite_a_long_name_0, timeout=10)")
    assert len({line[1] for line in found}) == 6
    click(browser, "#filter-column-2 input[value='20']")
    assert text(browser, "#state") == "7 of 13 runs"
    assert len(browser.execute_script(f"return {ROWS}")) == 7


def test_the_axis_is_logarithmic_where_the_first_tenth_holds_the_contest_or_as_chosen(browser: Any, show: Any) -> None:
    show(1280)
    kind = "return document.getElementById('curves')._fullLayout.xaxis.type"
    for scale, expected in (("auto", "log"), ("linear", "linear"), ("log", "log")):
        choose(browser, "curve-scale", scale)
        assert browser.execute_script(kind) == expected
        assert ("first tenth" in text(browser, "#curve-hint")) == (scale == "auto")


def test_costs_have_columns(browser: Any, tmp_path: Path) -> None:
    before = browser.current_url
    for algo, joules in (("flex", 2.0), ("pbcd", 1.5), ("vafl", None)):
        write_run(tmp_path / "runs" / algo, algo, joules=joules)
    assert main([str(tmp_path / "runs"), "-o", str(tmp_path), "--formats", "svg", "--axes", "time"]) == 0
    browser.get((tmp_path / "report.html").as_uri())
    assert wait(browser, "document.body.dataset.ready") == "yes"
    titles = browser.execute_script("return [...document.querySelectorAll('#results th')].map(t => t.innerText.trim())")
    rows = browser.execute_script(f"return {ROWS}")
    place = [title.lower() for title in titles].index("energy (j)")
    assert [row[place] for row in rows] == ["8.000", "6.000", "--"]
    best = "return [...document.querySelectorAll('#results tbody tr')].map(r => r.cells[arguments[0]].className)"
    assert ["best" in kind for kind in browser.execute_script(best, place)] == [False, True, False]
    browser.get(before)
    assert wait(browser, "document.body.dataset.ready") == "yes"
