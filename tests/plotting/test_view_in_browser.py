"""The interactive page in Chromium: drawn without a complaint, zoomed, searched, sorted, on a phone and by keys."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from browser import PROGRAM, Browser

from desim import Result, simulate
from desim.agents.batch import create
from desim.agents.dag import create as dag_agent
from desim.agents.deferrable import create as deferrable_agent
from desim.agents.multiserver import Fairness
from desim.plotting import view
from desim.problem import kinds
from desim.problems.batch import BatchCluster
from desim.problems.batch.cores import parse_core_sets
from desim.problems.dag import DagCluster, Executors, Job
from desim.problems.deferrable import DeferrableCluster
from desim.problems.multiserver import BipartiteGraph, MultiServerCluster, RewardModel
from desim.sweep import Run
from desim.sweep.comparison import Comparison, compare_runs
from desim.workloads import lublin
from desim.workloads.deferrable.generator import Settings, generate

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="Chromium is not installed: apt-get install chromium")

CORES = 64
#: Least ratios of brightness of WCAG 2.2, level AA: of text, and of what is drawn.
TEXT, DRAWN = 4.5, 3.0


@pytest.fixture(scope="module")
def results() -> dict[str, Result]:
    jobs = lublin.generate(900, CORES, seed=3, load=0.9)
    return {name: simulate(BatchCluster(jobs, CORES), create(name)) for name in ("fcfs", "easy-fcfs")}


@pytest.fixture(scope="module")
def page(results: dict[str, Result], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "page.html"
    return view(results, path, comparison=compared())


def compared() -> Comparison:
    """Return a comparison whose table has thousands, a missing value and a negative one."""
    kind = kinds()["batch"]
    wins = {"b": (1_190.0, 1_210.0), "a": (28.0, 32.0), "c": (1.0, math.nan), "d": (-6.0, -4.0)}
    waits = {"b": (2.0, 3.0), "a": (1.0, 3.5), "c": (9.0, 5.0), "d": (9.5, 5.0)}
    left = dict.fromkeys(kind.words.left_behind.values(), 0.0)
    runs = [
        Run("w", agent, seed, {"metrics": {"wins": wins[agent][seed], "wait": waits[agent][seed]} | left})
        for agent in wins
        for seed in range(2)
    ]
    return compare_runs(runs, "b", kind, metric="wait", better="lower", workload={"name": "w"})


@pytest.fixture(scope="module")
def opened(page: Path) -> Iterator[Browser]:
    with Browser() as browser:
        browser.open(page)
        yield browser
        assert browser.errors == []


@pytest.fixture(scope="module")
def another() -> Iterator[Browser]:
    with Browser() as browser:
        yield browser


@pytest.fixture
def browser(opened: Browser) -> Browser:
    """Return the page as it was at first."""
    opened.run("desimView.reset(); desimView.find('')")
    opened.run("document.getElementById('timeline').scrollIntoView({behavior: 'instant'})")
    opened.rest(8)
    return opened


def window(browser: Browser) -> tuple[float, float]:
    begin, end = browser.run("desimView.window")
    return begin, end


def frame_of(browser: Browser, chart: int) -> list[float]:
    """Return where on the screen a chart draws: left, top, width, height."""
    script = f"""(() => {{ const chart = desimView.charts[{chart}], [width, height] = chart.size();
      const box = chart.node.querySelector('.plot').firstChild.getBoundingClientRect();
      return [box.right - 22 - width, box.top + 4, width, height]; }})()"""
    found: list[float] = browser.run(script)
    return found


@pytest.mark.parametrize("problem", ["dag", "deferrable", "multiserver", "nobody's"])
def test_pages_of_all_problems_are_drawn_without_a_complaint(problem: str, another: Browser, tmp_path: Path) -> None:
    if problem == "dag":
        jobs = [Job(number, [2.0, 1.0, 4.0], [("a", "c", 10.0), ("b", "c", 5.0)], names="abc") for number in range(3)]
        result = simulate(DagCluster(jobs, Executors([1.0, 2.0], 10.0), plan_ahead=True), dag_agent("heft"))
    elif problem == "deferrable":
        scenario = generate(Settings(num_slots=60), seed=2)
        result = simulate(DeferrableCluster(scenario.jobs, scenario.capacity, num_slots=60), deferrable_agent("fifo"))
    elif problem == "multiserver":
        graph = BipartiteGraph([[2.0], [1.0]], [[3.0], [4.0]], resources=["cpu"])
        result = simulate(MultiServerCluster(RewardModel(graph, "log"), np.ones((5, 2), dtype=bool)), Fairness())
    else:
        table = pl.DataFrame({"value": [1.0]})
        result = Result(
            {"things": table.lazy()}, {"problem": "tickets", "agent": "x", "status": "complete", "end_time": 1.0}
        )
    path = view({"one": result}, tmp_path / "page.html")
    another.open(path)
    another.rest(5)
    assert another.errors == []
    if problem != "nobody's":
        charts = another.run("[desimView.charts.length, document.querySelectorAll('#chart-timeline .plot').length]")
        assert charts[0] == 1
        assert charts[1] >= 3


def test_the_wheel_zooms_with_control_around_the_pointer_only(browser: Browser) -> None:
    before = window(browser)
    left, top, width, height = frame_of(browser, 0)
    browser.mouse("Wheel", left + width / 4, top + height / 2, deltaX=0, deltaY=-300, modifiers=2)
    browser.rest(10)
    begin, end = window(browser)
    assert end - begin < 0.9 * (before[1] - before[0])
    assert begin + (end - begin) / 4 == pytest.approx(
        before[0] + (before[1] - before[0]) / 4, abs=0.02 * (before[1] - before[0])
    )
    seen = browser.run("scrollY")
    browser.mouse("Wheel", left + width / 4, top + height / 2, deltaX=0, deltaY=200)
    browser.rest(20)
    assert window(browser) == (begin, end)
    assert browser.run("scrollY") > seen


def test_rows_are_zoomed_with_shift(browser: Browser) -> None:
    left, top, width, height = frame_of(browser, 0)
    for _ in range(4):
        browser.mouse("Wheel", left + width / 2, top + height * 0.75, deltaX=0, deltaY=-100, modifiers=8)
    browser.rest(5)
    low, high = browser.run("[desimView.charts[0].yRange.start, desimView.charts[0].yRange.end]")
    assert high - low == pytest.approx(CORES * 0.8**4)
    assert low + 0.25 * (high - low) == pytest.approx(CORES / 4 - 0.5, abs=1.0)
    assert browser.run("desimView.charts[1].yRange.end") == CORES - 0.5
    browser.run("document.getElementById('chart-timeline').focus()")
    browser.key("]")
    low, high = browser.run("[desimView.charts[1].yRange.start, desimView.charts[1].yRange.end]")
    assert high - low == pytest.approx(0.7 * CORES)
    browser.key("0")
    assert browser.run("desimView.charts[0].yRange.end") == CORES - 0.5


def test_charts_are_dragged_together(browser: Browser) -> None:
    browser.run("desimView.zoom(0.2)")
    browser.rest(10)
    begin, end = window(browser)
    left, top, width, height = frame_of(browser, 0)
    y = top + height / 2
    browser.mouse("Pressed", left + width / 2, y, button="left", clickCount=1)
    for share in (0.45, 0.4, 0.35, 0.3):
        browser.mouse("Moved", left + width * share, y, button="left", buttons=1)
    browser.mouse("Released", left + width * 0.3, y, button="left", clickCount=1)
    browser.rest(10)
    moved = window(browser)
    assert moved[0] - begin == pytest.approx(0.2 * (end - begin), rel=0.1)
    assert moved[1] - moved[0] == pytest.approx(end - begin)
    ranges = browser.run("[...desimView.charts, ...desimView.curves].map(c => c.figure.x_range.start)")
    assert ranges[0] == ranges[1] == moved[0]


def test_few_rectangles_are_drawn_as_they_are_recorded(browser: Browser, results: dict[str, Result]) -> None:
    jobs = results["easy-fcfs"].jobs
    middle = jobs["starting_time"].median()
    assert isinstance(middle, float)
    span = 0.02 * results["easy-fcfs"].end_time
    browser.run(f"desimView.show({middle}, {middle + span})")
    browser.rest(10)
    chart = "desimView.charts[1]"
    assert browser.run(f"{chart}.exact")
    data = browser.run(f"(d => ['left', 'right', 'bottom', 'top'].map(n => [...d[n]]))({chart}.quads.data)")
    shown = {tuple(np.round(row, 1)) for row in zip(*data, strict=True)}
    for job in jobs.filter(pl.col("finish_time") > middle, pl.col("starting_time") < middle + span).iter_rows(
        named=True
    ):
        for _, first, last in parse_core_sets(pl.Series([job["allocated_resources"]])).iter_rows():
            row = job["starting_time"], job["finish_time"], first - 0.5, last + 0.5
            assert any(np.allclose(row, other, atol=0.2) for other in shown)


def test_many_rectangles_become_the_colour_of_what_covers_a_pixel(browser: Browser, results: dict[str, Result]) -> None:
    chart = "desimView.charts[0]"
    assert not browser.run(f"{chart}.exact")
    image = browser.run(f"""(d => ({{ alpha: [...d.image[0]].map(v => v >>> 24), shape: d.image[0].shape,
      place: [d.x[0], d.y[0], d.dw[0], d.dh[0]] }}))({chart}.image.data)""")
    height, width = image["shape"]
    alpha = np.array(image["alpha"]).reshape(height, width)
    x, y, dw, dh = image["place"]
    covered = np.zeros((height, width))
    edges, rows = x + dw * np.arange(width + 1) / width, y + dh * np.arange(height + 1) / height
    jobs = results["fcfs"].jobs
    ranges = parse_core_sets(jobs["allocated_resources"])
    for row, first, last in ranges.iter_rows():
        begin, end = jobs["starting_time"][row], jobs["finish_time"][row]
        wide = np.clip(np.minimum(edges[1:], end) - np.maximum(edges[:-1], begin), 0.0, None) / (dw / width)
        tall = np.clip(np.minimum(rows[1:], last + 0.5) - np.maximum(rows[:-1], first - 0.5), 0.0, None) / (dh / height)
        covered += tall[:, None] * wide
    assert (alpha[covered < 1e-9] == 0).mean() > 0.999  # but for edges that are rounded
    assert (alpha[covered > 0.9] >= 254).all()
    assert (alpha[covered > 0.01] > 25).all()


def test_a_job_is_found_marked_and_told_of(browser: Browser, results: dict[str, Result]) -> None:
    browser.key("/")
    assert browser.run("document.activeElement.id") == "search"
    for letter in "450":
        browser.key(letter)
    browser.rest(10)
    told = browser.run("document.getElementById('found').innerText")
    assert "job 450" in told
    for index, (name, result) in enumerate(results.items()):
        (job,) = result.jobs.filter(pl.col("job_id") == 450).to_dicts()
        assert name in told
        left = browser.run(f"desimView.charts[{index}].marked.data.left")
        assert len(left) == len(job["allocated_resources"].split(" "))
        assert left[0] == pytest.approx(job["starting_time"], abs=0.1)
        begin, end = window(browser)
        assert begin <= job["starting_time"]
        assert job["finish_time"] <= end
    browser.key("Escape")
    assert browser.run("document.getElementById('found').hidden")
    for letter in "9999":
        browser.key(letter)
    assert "no job 9999" in browser.run("document.getElementById('found').innerText")
    browser.key("Escape")


def test_the_pointer_shows_the_job_below_it_and_a_click_keeps_it(browser: Browser, results: dict[str, Result]) -> None:
    job = (
        results["fcfs"]
        .jobs.sort(pl.col("execution_time") * pl.col("requested_number_of_resources"))
        .row(-1, named=True)
    )
    browser.run(f"desimView.show({job['starting_time'] - 10}, {job['finish_time'] + 10})")
    browser.rest(10)
    left, top, width, height = frame_of(browser, 0)
    _, first, last = parse_core_sets(pl.Series([job["allocated_resources"]])).row(0)
    x, y = left + width / 2, top + height * (1 - ((first + last) / 2 + 0.5) / CORES)
    browser.mouse("Moved", x, y)
    browser.rest()
    card = browser.run("document.getElementById('hover').innerText")
    assert f"job {job['job_id']}" in card
    assert "completed" in card
    browser.click(x, y)
    assert f"job {job['job_id']}:" in browser.run("document.getElementById('found').innerText")


def test_keys_move_and_zoom_once_the_timeline_has_the_focus(browser: Browser) -> None:
    browser.run("document.getElementById('chart-timeline').focus()")
    whole = window(browser)
    browser.key("+")
    closer = window(browser)
    assert closer[1] - closer[0] == pytest.approx(0.625 * (whole[1] - whole[0]))
    browser.key("ArrowRight")
    assert window(browser)[0] > closer[0]
    browser.key("0")
    assert window(browser) == pytest.approx(whole)
    names = browser.run("""[...document.querySelectorAll('button, input, select')].filter(node =>
      !(node.getAttribute('aria-label') || node.textContent.trim() || node.closest('label'))).length""")
    assert names == 0


@pytest.mark.parametrize(("head", "order"), [("wins", "dabc"), ("agent", "abcd")])
def test_tables_are_sorted_by_a_click_on_a_heading(browser: Browser, head: str, order: str) -> None:
    table = "[...document.querySelectorAll('table')].find(t => t.caption?.textContent.startsWith('Metrics'))"
    button = f"[...{table}.tHead.querySelectorAll('button')].find(b => b.textContent === '{head}')"
    names = f"[...{table}.tBodies[0].rows].map(row => row.cells[0].textContent).join('')"
    browser.run(f"{button}.click()")
    assert browser.run(names) == order
    assert browser.run(f"{button}.parentNode.getAttribute('aria-sort')") == "ascending"
    browser.run(f"{button}.click()")
    backwards = {"dabc": "badc", "abcd": "dcba"}[order]  # what is not known stays last
    assert browser.run(names) == backwards


def test_runs_are_hidden_and_colours_chosen(browser: Browser) -> None:
    chip = "document.querySelector('.chips button')"
    browser.run(f"{chip}.click()")
    assert browser.run("desimView.charts[0].node.hidden")
    assert browser.run(f"{chip}.getAttribute('aria-pressed')") == "false"
    browser.run(f"{chip}.click()")
    browser.run(
        "(s => { s.value = 'waiting_time'; s.dispatchEvent(new Event('change')); })(document.getElementById('color'))"
    )
    browser.rest(5)
    assert "logarithmic" in browser.run("document.getElementById('legend').innerText")
    browser.run("(s => { s.value = 'job'; s.dispatchEvent(new Event('change')); })(document.getElementById('color'))")


@pytest.mark.parametrize("dark", [False, True])
def test_a_phone_shows_the_page_with_enough_contrast(page: Path, dark: bool) -> None:
    with Browser(390, 844, dark=dark, touch=True) as phone:
        phone.open(page)
        assert phone.run("document.documentElement.scrollWidth") <= 390
        assert phone.run("document.documentElement.dataset.theme") == ("dark" if dark else "light")
        names = ("--text", "--faint", "--accent", "--warn", "--card", "--back", "--stripe")
        colors = {
            name: phone.run(f"getComputedStyle(document.documentElement).getPropertyValue('{name}')") for name in names
        }
        for front in names[:4]:
            for ground in names[4:]:
                assert contrast(colors[front], colors[ground]) >= TEXT, (front, ground)
        dots = phone.run(
            "[...document.querySelectorAll('.dot[data-run]')].map(dot => getComputedStyle(dot).backgroundColor)"
        )
        assert dots
        assert all(contrast(dot, colors["--card"]) >= DRAWN for dot in dots)
        phone.run("document.getElementById('timeline').scrollIntoView({behavior: 'instant'})")
        phone.rest(5)
        before, (left, top, width, height) = phone.run("scrollY"), frame_of(phone, 0)
        phone.swipe(left + width / 2, top + height / 2, 0, -150)
        assert phone.run("scrollY") > before + 50  # a finger on a chart moves the page
        span = window(phone)
        phone.run("desimView.zoom(0.2)")
        phone.rest(5)
        begin, _ = window(phone)
        left, top, width, height = frame_of(phone, 1)
        phone.swipe(left + width / 2, top + height / 2, -100, 0)
        assert span[0] < begin < window(phone)[0]  # or the time
        wide = phone.run(
            "Math.max(...[...document.querySelectorAll('.plot')].map(p => p.getBoundingClientRect().right))"
        )
        assert wide <= 390
        assert phone.errors == []


def contrast(front: str, ground: str) -> float:
    """Return the ratio of brightness of two colours, as WCAG defines it."""
    high, low = sorted((brightness(front), brightness(ground)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def brightness(color: str) -> float:
    text = color.strip()
    parts: list[Any] = [int(text[at : at + 2], 16) for at in (1, 3, 5)] if text[0] == "#" else []
    parts = parts or [float(part) for part in text[text.index("(") + 1 : -1].split(",")[:3]]
    linear = [
        share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in (p / 255 for p in parts)
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
