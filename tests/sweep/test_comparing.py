"""``desim.compare``: the same results as the command line, with objects in the place of names."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest

import desim
from desim.agents.batch import FCFS, EASYBackfilling, create
from desim.cli import main
from desim.cli.stored import load_shown
from desim.exceptions import ComparisonWarning, DesimError, InvalidConfiguration
from desim.notes import progress
from desim.plotting import comparison_figures
from desim.problems import deferrable
from desim.problems.batch import BatchCluster
from desim.problems.deferrable import DeferrableCluster
from desim.sweep import simulated
from desim.sweep.comparison import Comparison
from desim.workloads import lublin

SMALL = {"jobs": 60, "cores": 32, "load": 0.9}
LINE = ["--jobs", "60", "--cores", "32", "--load", "0.9"]


def cluster(rng: np.random.Generator, jobs: int = 60) -> BatchCluster:
    """Return a small cluster; a function of a module, as users write it."""
    return BatchCluster(lublin.generate(jobs, 32, seed=int(rng.integers(1000)), load=0.9), 32)


class Counting(EASYBackfilling):
    """Answers as easy-fcfs does until it has answered often, if it remembers that of another run."""

    name = "counting"

    def __init__(self) -> None:
        super().__init__("fcfs")
        self.answers = 0

    def act(self, observation: Any) -> Any:
        """Answer."""
        self.answers += 1
        return super().act(observation) if self.answers < 1000 else None


class Fails:
    """Raises."""

    name = "fails"

    def act(self, observation: Any) -> Any:
        """Raise."""
        raise ZeroDivisionError


class Waits:
    """Never starts anything."""

    name = "waits"

    def act(self, observation: Any) -> Any:
        """Wait."""
        return None


@pytest.fixture
def no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip what is slow."""
    monkeypatch.setattr("desim.comparing.draw_figures", lambda *arguments, **look: [])
    monkeypatch.setattr("desim.comparing.write_comparison", lambda *arguments: arguments[-1])


@pytest.mark.parametrize(
    ("problem", "agents", "options", "line"),
    [
        ("batch", ["fcfs", "easy"], SMALL | {"warm_up": 100}, [*LINE, "--warm-up", "100"]),
        ("dag", ["heft", "fifo-eft"], {"jobs": 3, "executors": 4}, ["--jobs", "3", "--executors", "4"]),
        ("deferrable", ["fifo", "tetris"], {"trace": "fluctuating"}, ["--workload", "fluctuating"]),
        (
            "multiserver",
            ["drf", "fairness"],
            {"slots": 20, "ports": 3, "nodes": 8, "seed": 4},
            ["--slots", "20", "--ports", "3", "--nodes", "8", "--seed", "4"],
        ),
    ],
)
def test_the_same_as_on_the_command_line(
    problem: str,
    agents: list[str],
    options: dict[str, Any],
    line: list[str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert (
        main(["compare", problem, "--agents", ",".join(agents), *line, "--seeds", "2", "--workers", "1", "--json"]) == 0
    )
    asked = json.loads(capsys.readouterr().out)
    found = desim.compare(problem, agents, seeds=2, workers=1, **options)
    from desim.notes import plain

    assert json.loads(json.dumps(plain(found.described))) == asked


def test_agents_as_objects() -> None:
    by_name = desim.compare("batch", ["fcfs", "easy"], seeds=2, workers=1, **SMALL)
    given = desim.compare("batch", [FCFS(), EASYBackfilling("fcfs")], seeds=2, workers=1, **SMALL)
    mixed = desim.compare("batch", {"fcfs": "fcfs", "easy-fcfs": Counting()}, seeds=2, workers=1, **SMALL)
    assert by_name.metrics == given.metrics == mixed.metrics


def test_the_number_of_seeds_may_be_one_of_numpy() -> None:
    found = desim.compare("batch", ["fcfs"], seeds=np.int64(2), workers=1, **SMALL)  # type: ignore[arg-type]
    assert found.seeds == [0, 1]


def test_problems_as_objects_and_functions() -> None:
    found = desim.compare(cluster, ["fcfs", "easy"], seeds=[3, 7], workers=1, jobs=40)
    for seed in (3, 7):
        problem = cluster(np.random.default_rng(seed), jobs=40)
        for agent in ("fcfs", "easy-fcfs"):
            wait = desim.simulate(problem, create(agent), seed=seed).metrics()["waiting_time_mean"]
            row = found.runs.filter((pl.col("agent") == agent) & (pl.col("seed") == seed))
            assert row["waiting_time_mean"].to_list() == [wait]
    problem = cluster(np.random.default_rng(7), jobs=40)
    alone = desim.compare(problem, ["fcfs", "easy"], workers=1)
    assert alone.seeds == [0]
    assert alone.runs["waiting_time_mean"].to_list() == found.runs["waiting_time_mean"].to_list()[2:]


@pytest.mark.usefixtures("no_figures")
def test_stored_runs_are_not_repeated(tmp_path: Path) -> None:
    first = desim.compare("batch", ["easy", "fcfs"], seeds=2, workers=1, out=tmp_path, **SMALL)
    again = desim.compare("batch", ["easy", "fcfs"], seeds=2, workers=1, out=tmp_path, **SMALL)
    assert [one.reused for one in first.all_runs] == [False] * 4
    assert [one.reused for one in again.all_runs] == [True] * 4
    assert first.metrics == again.metrics
    other = desim.compare("batch", ["easy-f1", "fcfs"], seeds=2, workers=1, out=tmp_path, **SMALL)
    assert [one.reused for one in other.all_runs] == [False, True] * 2
    called = [
        desim.compare("batch", {"mine": "easy"}, seeds=2, workers=1, out=tmp_path, **SMALL).all_runs for _ in range(2)
    ]
    assert [[one.reused for one in each] for each in called] == [[False] * 2, [True] * 2]
    fewer = desim.compare("batch", ["fcfs"], seeds=1, workers=1, out=tmp_path, **SMALL | {"jobs": 9})
    assert [one.reused for one in fewer.all_runs] == [False]
    assert first.result("fcfs", 1).metrics()["utilization"] == first.runs["utilization"][3]
    with pytest.raises(InvalidConfiguration, match="no run of 'c' with seed 0"):
        first.result("c")


@pytest.mark.usefixtures("no_figures")
@pytest.mark.parametrize("first", ["easy++", "easy"])
def test_agents_with_predictors_beside_others(first: str, tmp_path: Path) -> None:
    """EASY++ and EASY are paired by seed, and each run keeps its identity; a metric that only some have is NaN."""
    agents, options = ["easy", "easy++"][:: 1 if first == "easy" else -1], {"seeds": 2, "workers": 1, "users": 3}
    found = desim.compare("batch", agents, out=tmp_path, **options, **SMALL)  # type: ignore[arg-type]
    assert not found.unequal and not found.issues and set(found.differences) | {found.baseline} == set(found.means)
    accuracy = {agent: row["prediction_accuracy_mean"] for agent, row in found.metrics.items()}
    assert np.isnan(accuracy["easy-fcfs"]).all() and np.isfinite(accuracy["easy++"]).all()
    expected = desim.compare("batch", ["easy-fcfs+sjf-expected"], predictor="user-average", **options, **SMALL)  # type: ignore[arg-type]
    assert found.metrics["easy++"] == expected.metrics["easy-fcfs+sjf-expected"]
    again = desim.compare("batch", ["easy", "easy++", "easy-fcfs@oracle"], out=tmp_path, **options, **SMALL)  # type: ignore[arg-type]
    assert dict(again.runs.group_by("agent").agg(pl.col("reused").all()).rows()) == {
        "easy-fcfs": True, "easy++": True, "easy-fcfs@oracle": False,
    }  # fmt: skip
    stored = load_shown([tmp_path])
    assert isinstance(stored, Comparison) and stored.means.keys() == again.means.keys()
    with pytest.raises(InvalidConfiguration, match=r"agent easy\+\+ brings 'user-average'"):
        desim.compare("batch", ["easy", "easy++"], predictor="oracle", **options, **SMALL)  # type: ignore[arg-type]


LEVEL = [1.0]


def level(problem: DeferrableCluster) -> Iterator[Any]:
    """Set the capacity to what stands elsewhere."""
    problem.set_capacity(LEVEL[0])
    yield problem.env.timeout(1)


def levelled(rng: np.random.Generator) -> DeferrableCluster:
    """Return a problem that uses a process of its own."""
    return DeferrableCluster([deferrable.Job(number, 0, 0, 3, 2, 2.0) for number in range(6)], level, num_slots=10)


@pytest.mark.usefixtures("no_figures")
@pytest.mark.parametrize(
    "problem",
    [levelled, levelled(np.random.default_rng(0)), f"{__name__}:levelled"],
    ids=["function", "object", "name"],
)
def test_a_problem_of_ones_own_is_known_by_what_it_uses(
    problem: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = {}
    for capacity, is_reused in ((1.0, False), (4.0, False), (4.0, True)):
        monkeypatch.setattr(sys.modules[__name__], "LEVEL", [capacity])
        compared = desim.compare(problem, ["fifo"], seeds=1, workers=1, out=tmp_path)
        assert [one.reused for one in compared.all_runs] == [is_reused]
        found[capacity] = compared.runs["revenue"].to_list()
        assert compared.result("fifo").metrics()["revenue"] == found[capacity][0]
    assert found == {1.0: [0.0], 4.0: [16.0]}  # two jobs of four core-slots each at slot 0, and two at slot 2


@pytest.mark.usefixtures("no_figures")
@pytest.mark.parametrize("mine", [{"mine": EASYBackfilling("sjf")}, [f"{__name__}:Counting"]], ids=["object", "name"])
def test_an_agent_of_ones_own_is_found_again(mine: Any, tmp_path: Path) -> None:
    agents = [*mine, "fcfs"] if isinstance(mine, list) else mine | {"fcfs": "fcfs"}
    for reused in ([False, False], [True, True]):
        found = desim.compare("batch", agents, seeds=1, workers=1, out=tmp_path, **SMALL)
        assert [one.reused for one in found.all_runs] == reused


def write_log(path: Path, run_time: int, cores: int = 4) -> None:
    """Write a log of five jobs that need all cores."""
    rows = [f"{i} {i * 10} -1 {run_time} 4 -1 -1 4 {run_time} -1 1 1 1 1 1 1 -1 -1" for i in range(1, 6)]
    path.write_text("\n".join([f"; MaxProcs: {cores}", *rows]) + "\n")


@pytest.mark.usefixtures("no_figures")
@pytest.mark.parametrize("options", [{"cores": 4}, {}])
def test_a_log_that_has_changed_is_read_again(options: dict[str, Any], tmp_path: Path) -> None:
    log = tmp_path / "t.swf"
    for run_time, wait, reused in ((100, 180, False), (900, 1780, False), (100, 180, True)):
        write_log(log, run_time)
        for out in (None, tmp_path / "out"):
            found = desim.compare("batch", ["fcfs", "sjf"], trace=str(log), out=out, workers=1, **options)
            assert found.runs["waiting_time_mean"].to_list() == [wait, wait]
            assert [one.reused for one in found.all_runs] == [reused and out is not None] * 2
    with pytest.raises(InvalidConfiguration, match=r"t.swf is the same for all seeds: nothing in it is drawn"):
        desim.compare("batch", ["fcfs"], trace=str(log), seeds=3, workers=1, **options)
    write_log(log, 100, cores=8)
    if not options:
        found = desim.compare("batch", ["fcfs"], trace=str(log), workers=1)
        assert found.described["workload"]["cores"] == 8
        assert found.runs["waiting_time_mean"].to_list() == [np.mean([0, 0, 80, 80, 160])]


@pytest.mark.usefixtures("no_figures")
def test_a_log_that_changes_during_a_run_is_stored_under_no_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, replay = tmp_path / "t.swf", simulated.replay

    def replaced(*arguments: Any, **options: Any) -> Any:
        write_log(log, 900)
        return replay(*arguments, **options)

    write_log(log, 100)
    with monkeypatch.context() as patched:
        patched.setattr(simulated, "replay", replaced)
        with pytest.raises(DesimError, match="code or files have changed since the run was requested"):
            desim.compare("batch", ["fcfs"], trace=str(log), out=tmp_path / "out", workers=1)
    assert not list((tmp_path / "out" / "runs").glob("*.json"))
    for run_time in (900, 100):
        write_log(log, run_time)
        found = desim.compare("batch", ["fcfs"], trace=str(log), out=tmp_path / "out", workers=1)
        assert [one.reused for one in found.all_runs] == [False]
        assert found.runs["waiting_time_mean"].to_list() == [2 * run_time - 20]


def test_what_is_wrong_is_told() -> None:
    with pytest.warns(ComparisonWarning) as told:
        found = desim.compare(cluster, [Waits(), Fails(), "fcfs"], seeds=1, workers=1)
    texts = [str(warning.message) for warning in told]
    assert list(found.issues) == texts and found.status == 1
    assert "waits, seed 0: stalled: work remains" in texts[0]
    assert texts[1].startswith("fails failed and is left out (seed 0): ZeroDivisionError")
    with pytest.raises(DesimError, match="fails, seed 0: ZeroDivisionError"):
        desim.compare(cluster, [Fails()], seeds=1, workers=1)


@pytest.mark.parametrize(
    ("problem", "agents", "options", "message"),
    [
        ("bach", ["fcfs"], {}, "unknown problem 'bach' .did you mean 'batch'"),
        (BatchCluster, ["fcfs"], {}, "expected a name, a desim.Problem, or a function"),
        ("batch", "fcfs", {}, "agents: got 'fcfs', expected a list"),
        ("batch", [], {}, "expected at least one"),
        ("batch", ["eazy"], {}, "unknown batch agent 'eazy' .did you mean"),
        ("batch", [FCFS], SMALL, "agent: got the class FCFS, expected an instance"),
        ("batch", [FCFS(), FCFS()], SMALL, "two agents have the name 'fcfs'"),
        ("batch", ["fcfs"], {"core": 3}, "unknown option 'core' .did you mean 'cores'"),
        ("batch", ["fcfs"], {"cores": "many"}, "cores: got 'many', expected an integer or None"),
        ("batch", ["fcfs"], {"stream": 1}, "stream: got 1, expected True or False"),
        ("batch", ["fcfs"], {"too_wide": "no"}, "expected 'error' or 'reject'"),
        ("batch", ["fcfs"], {"seeds": 0}, "seeds: got 0, expected an integer"),
        ("batch", ["fcfs"], {"seeds": [1, 1]}, "expected at least one, without duplicates"),
        ("batch", ["fcfs"], {"baseline": "easy"}, "baseline: got 'easy', expected one of the agents fcfs"),
        ("batch", ["fcfs"], {"metric": "wait"} | SMALL, "metric: got 'wait'"),
        ("dag", ["fifo-eft"], {"bandwidth": 3.0}, "--bandwidth: has no effect without --links"),
        ("dag", ["fifo-eft"], {"moving_delay": 3.0}, "--moving-delay: has no effect without --tasks"),
        ("deferrable", ["fifo"], {"capacity": 3.0, "set": ["capacity_mean=4"]}, "an option sets it, too"),
        (cluster, ["fcfs"], {"jos": 3}, "unexpected keyword argument 'jos'"),
        (cluster(np.random.default_rng(0)), ["fcfs"], {"jobs": 3}, "a given problem takes no options"),
    ],
)
def test_mistakes_are_found_before_the_first_run(
    problem: Any, agents: Any, options: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("desim.sweep.simulated.replay", None)
    with pytest.raises(InvalidConfiguration, match=message):
        desim.compare(problem, agents, workers=1, **options)


@pytest.fixture(scope="module")
def compared() -> Comparison:
    """Return a comparison with ranks."""
    return desim.compare(cluster, ["fcfs", "easy", "sjf"], seeds=3, workers=1)


def test_it_shows_itself(compared: Comparison) -> None:
    assert repr(compared).startswith("Comparison(batch: fcfs, easy-fcfs, sjf; 3 seeds, best by waiting_time_mean: ")
    assert "Metrics: means over 3 seeds" in str(compared) and "Ranks by" in str(compared)
    html = compared._repr_html_()
    assert html.count("<table>") == 4 and "easy-fcfs" in html and "has the best mean" in html
    assert set(comparison_figures(compared)) == {"metrics", "ranks", "profiles"}


def test_its_tables_hold_what_the_file_does(compared: Comparison, tmp_path: Path) -> None:
    from desim.sweep.comparison import write_csv

    table = compared.table
    written = pl.read_csv(write_csv(compared.table, tmp_path / "comparison.csv"), infer_schema_length=None)
    assert table.columns == written.columns
    for name in table.columns:
        assert table[name].to_list() == written[name].cast(table[name].dtype).to_list()
    assert compared.runs.shape[0] == 9


def test_progress_in_a_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[str] = []
    handle = SimpleNamespace(update=drawn.append)

    def display(content: str, display_id: bool) -> Any:
        drawn.append(content)
        return handle

    monkeypatch.setattr("desim.notes.BETWEEN_DRAWINGS", 0.0)
    shell = SimpleNamespace(kernel=object())
    fake = SimpleNamespace(get_ipython=lambda: shell, display=SimpleNamespace(HTML=lambda text: text, display=display))
    monkeypatch.setitem(sys.modules, "IPython", fake)
    with progress("runs & more", 4, "runs") as advance:
        assert advance is not None
        advance(1)
        advance(3)
    assert "runs &amp; more <progress max=4 value=0></progress> 0 / 4 runs" in drawn[0]
    assert "value=1" in drawn[1] and "value=3" in drawn[2]
    assert "<progress" not in drawn[3] and "3 / 4 runs" in drawn[3]
