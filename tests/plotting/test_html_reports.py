"""Tables and pictures of pages: complete, honest about jobs that have not finished."""

from __future__ import annotations

import base64
import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest
from batch_pictures import outage, run, some_jobs

import desim
from desim import InvalidConfiguration, RecordError, Result
from desim.plotting import gantt, utilization, view
from desim.plotting.page import Bullets, Cell, Paragraph, Picture, Section, Table, write_page
from desim.plotting.views import View
from desim.problem import Figure as Drawing
from desim.problem import ProblemDescriptor, kind_of

JOBS = some_jobs(12, 4)
#: Pages without charts, and thus with pictures; the latter take long.
DRAWN = replace(kind_of("batch"), view_from=lambda run: View({}, {}, run.jobs))
BARE = replace(DRAWN, figures_from={})
ONE = replace(BARE, figures_from={"queue": kind_of("batch").figures["queue"]})
VOID = {"meta", "img", "br", "link"}


class Page(HTMLParser):
    """Reads a page, and fails on tags that are not closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if data.strip():
            self.texts.append(("/".join(self.open[-2:]), data.strip()))

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]

    def text(self) -> str:
        return " ".join(text for where, text in self.texts if "style" not in where)


@pytest.fixture(scope="module")
def two():
    """Two complete runs."""
    return {"plain": run(JOBS, 4), "with an outage": run(JOBS, 4, outage(100.0, 200.0, [0]))}


@pytest.fixture(scope="module")
def page(two, tmp_path_factory):
    """Their page."""
    path = view(
        two, tmp_path_factory.mktemp("page") / "two.html", title="Two runs", notes=["First.", "Second."], kind=DRAWN
    )
    return Page(path.read_text(encoding="utf-8"))


def test_the_page_has_title_notes_and_version(page):
    assert [text for where, text in page.texts if where.endswith("/title")] == ["Two runs"]
    assert ("header/h1", "Two runs") in page.texts
    assert ("section/p", "First.") in page.texts and ("section/p", "Second.") in page.texts
    assert ("main/footer", f"Made with desim {desim.__version__}; charts by Bokeh.") in page.texts
    headings = [text for where, text in page.texts if where.endswith("/h2")]
    assert headings == ["Summary", "Metrics", "Workload", "Runs and settings", "Figures", "How this was made"]


def test_pictures_are_whole_and_described(page):
    pictures = page.of("img")
    assert len(pictures) == 5 == len(page.of("figure")) == len(page.of("figcaption"))
    for picture in pictures:
        kind, data = re.fullmatch(r"data:image/(svg\+xml|png);base64,(.*)", picture["src"]).groups()
        content = base64.b64decode(data, validate=True)
        if kind == "png":
            assert content.startswith(b"\x89PNG") and b"IEND" in content[-12:]
        else:
            assert ElementTree.fromstring(content).tag.endswith("svg")
        assert len(picture["alt"]) > 40 and "plain, with an outage" in picture["alt"]


def test_tables_have_heads_and_numbers_on_the_right(page):
    assert len(page.of("table")) == len(page.of("caption")) >= 4
    assert all(head.get("scope") in ("col", "row") for head in page.of("th"))
    assert sum(cell.get("class") == "number" for cell in page.of("td")) > 40
    text = page.text()
    for words in (
        "end (min)",
        "waiting time, mean (s)",
        "completed (jobs)",
        "enforce_time_limit = True",
        "offered load",
    ):
        assert words in text


def bold(page: Page) -> list[str]:
    return [text for where, text in page.texts if where.endswith("/strong")]


def test_the_best_values_are_bold(tmp_path, two):
    metrics = {
        "plain": {"waiting_time_mean": 11.0, "utilization": 0.25, "users": 3.0},
        "with an outage": {"waiting_time_mean": 13.0, "utilization": 0.5, "users": 4.0},
    }
    page = Page(view(two, tmp_path / "r.html", metrics=metrics, kind=BARE).read_text())
    assert sorted(set(bold(page))) == ["0.5000", "11"]
    assert "Every job that was not rejected had finished" in page.text()


def test_runs_that_left_jobs_behind_are_marked(tmp_path):
    runs = {"whole": run(JOBS, 4), "stopped": run(JOBS, 4, until=200.0)}
    page = Page(view(runs, tmp_path / "r.html", kind=BARE).read_text())
    counts = runs["stopped"].jobs["status"].value_counts()
    left = dict(counts.iter_rows())
    assert f"stopped: {left['queued']} queued, {left['running']} running" in page.text()
    mean = runs["stopped"].metrics()["waiting_time_mean"]
    assert mean < runs["whole"].metrics()["waiting_time_mean"]
    marked = [text for _, text in page.texts if text.endswith("†")]
    assert marked and not [text for text in bold(page) if text.endswith("†")]
    assert "Waiting times are those of the jobs that had started" in page.text()


def test_given_metrics_are_not_vouched_for(tmp_path):
    stopped = {"stopped": run(JOBS, 4, until=200.0)}
    page = Page(
        view(stopped, tmp_path / "r.html", metrics={"stopped": {"waiting_time_mean": 1.0}}, kind=BARE).read_text()
    )
    assert "see their source" in page.text()
    assert "Waiting times are those of the jobs that had started" not in page.text()


def test_names_are_escaped(tmp_path):
    name = "<script>alert('\"&')</script>"
    text = view({name: run(JOBS, 4)}, tmp_path / "r.html", title=name, notes=[name], kind=ONE).read_text()
    page = Page(text)
    assert "<script>alert" not in text
    assert page.text().count(name) >= 4
    assert all(name in picture["alt"] for picture in page.of("img"))


def test_the_same_runs_make_the_same_file_in_place_of_an_earlier_one(tmp_path, two):
    target = tmp_path / "r.html"
    target.write_text("old")
    one = {"plain": two["plain"]}
    assert view(one, target, kind=ONE) == target
    first = target.read_bytes()
    assert view(one, target, kind=ONE).read_bytes() == first and b"<h1>Simulation</h1>" in first
    assert [path.name for path in tmp_path.iterdir()] == ["r.html"]
    page = Page(first.decode())
    assert len(page.of("img")) == 1 and not bold(page)  # one run needs no comparison
    with pytest.raises(RecordError, match="missing"):
        write_page(tmp_path / "missing" / "r.html", "title", [], "footer")
    assert [path.name for path in tmp_path.iterdir()] == ["r.html"]


def test_an_empty_run(tmp_path):
    page = Page(view({"nothing": run([], 2)}, tmp_path / "r.html", kind=BARE).read_text())
    assert not page.of("img") and "n/a" in page.text()


def test_a_run_that_crashed(tmp_path, two):
    left = {name: value for name, value in two["plain"].info.items() if name not in ("end_time", "agent")}
    crashed = Result({name: two["plain"].scan(name) for name in two["plain"].table_names}, left | {"status": "running"})
    page = Page(view({"plain": two["plain"], "crashed": crashed}, tmp_path / "r.html", kind=ONE).read_text())
    assert "crashed has no metrics" in page.text()
    assert ("td/span", "running") in page.texts and any(tag.get("class") == "warn" for tag in page.of("span"))


def test_settings_in_which_runs_differ(tmp_path):
    runs = {"a": run(JOBS, 4), "b": run(JOBS, 5, on_outage="lose")}
    page = Page(view(runs, tmp_path / "r.html", kind=BARE).read_text())
    assert "Settings in which the runs differ" in page.text()
    assert ("tr/td", "requeue") in page.texts and ("tr/td", "lose") in page.texts


def test_metrics_of_other_runs(tmp_path, two):
    with pytest.raises(InvalidConfiguration, match="metrics"):
        view(two, tmp_path / "r.html", metrics={"plain": {}})
    with pytest.raises(InvalidConfiguration, match="empty"):
        view({}, tmp_path / "r.html")


def test_every_block_of_a_page(tmp_path):
    blocks = [
        Paragraph("<one> & all", warn=True),
        Bullets(["first", "second"]),
        Table(
            "of things", ["name", "word", "number"], [["a", "b", Cell("3", bold=True, color="#123456")]], (1,), "note"
        ),
        Table("more", ["name", "number"], [[Cell("c", warn=True), "4"]], folded="ask for it"),
        Picture(b"data", "what it shows"),
    ]
    sections = [Section("", [Paragraph("before")]), Section("Here", blocks, "here"), Section("There", [], "there")]
    page = Page(write_page(tmp_path / "page.html", "A & B", sections, "the end").read_text())
    assert [link["href"] for link in page.of("a")] == ["#here", "#there"]
    assert [section.get("id") for section in page.of("section")] == ["here", "there"]
    assert ("section/p", "<one> & all") in page.texts and ("ul/li", "second") in page.texts
    assert (
        ("td/strong", "3") in page.texts and ("section/p", "note") in page.texts and ("main/p", "before") in page.texts
    )
    assert ("details/summary", "ask for it") in page.texts and ("th/span", "c") in page.texts
    assert [cell.get("class") for cell in page.of("td")] == [None, "number", "number"]
    assert [cell.get("class") for cell in page.of("th")].count("number") == 2
    assert page.of("span")[0]["style"] == "background: #123456"
    (picture,) = page.of("img")
    assert picture["alt"] == "what it shows" and picture["src"] == "data:image/png;base64,ZGF0YQ=="


def test_figures_of_a_problem_of_ones_own(monkeypatch, two, tmp_path):
    import desim.problem as problem

    def gantt_of_mine(results, *, color="red"):
        from matplotlib.figure import Figure

        axes = Figure().subplots()
        axes.set_title(f"{len(results) if isinstance(results, dict) else 'one'} in {color}")
        return axes

    mine = ProblemDescriptor(
        name="mine", figures_from={"gantt": Drawing(gantt_of_mine, "Mine, drawn.")}, view_from=DRAWN.view_from
    )
    monkeypatch.setattr(problem, "kind_named", {"mine": mine}.get)
    result = Result({"jobs": two["plain"].scan("jobs")}, two["plain"].info | {"problem": "mine"})
    assert gantt(result).get_title() == "one in red"
    assert gantt({"a": result, "b": result}, color="blue").get_title() == "2 in blue"
    with pytest.raises(InvalidConfiguration, match="the problem 'mine' has no figure 'utilization': there are gantt"):
        utilization(result)
    page = Page(view({"a": result}, tmp_path / "r.html").read_text())
    assert "Figure 1. Mine, drawn." in page.text()


def test_nothing_is_loaded_before_it_is_needed():
    code = (
        "import sys, desim, desim.plotting, desim.formatting\n"
        "assert 'matplotlib' not in sys.modules and 'jinja2' not in sys.modules\n"
        "from desim import simulate\n"
        "from desim.plotting import bipartite_drawing, capacity_use, dag_drawing, gantt, utilization\n"
        "from desim.problem import kind_of\n"
        "from desim.problems.batch import BatchCluster, Job\n"
        "class Nobody:\n"
        "    def act(self, observation): return None\n"
        "result = simulate(BatchCluster([], 1), Nobody())\n"
        "kind_of(result).words, kind_of(result).figures\n"
        "assert 'matplotlib' not in sys.modules\n"
        "gantt(result).figure, utilization(result).figure\n"
        "assert 'matplotlib' in sys.modules and 'matplotlib.pyplot' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=600)


def test_metrics_of_each_resource_have_their_meaning(tmp_path):
    from deferrable_pictures import run as run_deferrable

    result = run_deferrable()
    kind = replace(kind_of(result), figures_from={})
    page = Page(view({"a": result}, tmp_path / "r.html", kind=kind).read_text())
    for name in result.metrics():
        assert kind.metrics[name].meaning in page.text()
        assert kind.metrics[name].meaning
