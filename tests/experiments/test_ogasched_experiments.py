"""Every experiment of OGASched's paper, in a size of seconds, and the numbers that it reports."""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from scipy import stats

from desim.exceptions import InvalidConfiguration
from desim.experiments import ogasched as package
from desim.experiments.compare import lead_percent, short, with_interval
from desim.experiments.drawing import MARKERS, line_handles
from desim.experiments.ogasched import FAMILY
from desim.experiments.ogasched.agents import AGENTS, OGASCHED, RIVALS, VARIANTS, choose, ogasched
from desim.experiments.ogasched.drawing import agent_styles, draw_points
from desim.experiments.ogasched.figure2 import Figure2, figure2
from desim.experiments.ogasched.figure3 import Figure3, figure3
from desim.experiments.ogasched.figure4 import Figure4, figure4
from desim.experiments.ogasched.figure5 import Figure5, figure5
from desim.experiments.ogasched.figure6 import Figure6, figure6
from desim.experiments.ogasched.figure7 import Figure7, figure7
from desim.experiments.ogasched.options import Options
from desim.experiments.ogasched.paper import FIGURE_2_LEADS, TABLE_III
from desim.experiments.ogasched.paper import lead_percent as paper_lead
from desim.experiments.ogasched.report import verdict
from desim.experiments.ogasched.rivals import Rivals, rivals
from desim.experiments.ogasched.settings import DEFAULT, FIGURE_2, LARGE
from desim.experiments.ogasched.simulating import MOST_POINTS, Choice, Setting, create, perform
from desim.experiments.ogasched.study import Cell, Entry, Key, Study
from desim.experiments.ogasched.table3 import Table3, table3
from desim.experiments.options import run_as_program
from desim.problems.multiserver import MultiServerObservation
from desim.statistics import Estimate
from desim.sweep import Run
from desim.workloads.multiserver import bernoulli_arrivals, generate

PAPERS = Path(__file__).resolve().parents[3] / "shared" / "papers"
SMALL = Setting(num_ports=4, num_nodes=12, num_slots=30)
SIZE: dict[str, Any] = {"quick": True, "seeds": 2, "jobs": 1, "divide_slots": 1_000, "divide_nodes": 16}
EXPERIMENTS: dict[str, Callable[[Path], Study]] = {
    "figure2": lambda out: figure2(Figure2(out=out, **SIZE)),
    "figure3": lambda out: figure3(Figure3(out=out, nodes=(64, 256), ports=(5,), contentions=(0.1, 20.0), **SIZE)),
    "figure4": lambda out: figure4(Figure4(out=out, initials=(1.0,), decays=(1.0001,), **SIZE)),
    "figure5": lambda out: figure5(Figure5(out=out, **SIZE)),
    "figure6": lambda out: figure6(Figure6(out=out, contentions=(0.1, 20.0), **SIZE)),
    "figure7": lambda out: figure7(Figure7(out=out, **SIZE)),
    "table3": lambda out: table3(Table3(out=out, **SIZE)),
    "rivals": lambda out: rivals(Rivals(out=out, **SIZE)),
}


# -- one run ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", AGENTS)
def test_a_run_earns_what_a_plain_loop_over_its_slots_earns(name: str) -> None:
    outcome = perform(Run(SMALL, AGENTS[name], 3))
    rewards = generate(num_ports=4, num_nodes=12, seed=3)
    observation = MultiServerObservation(rewards.graph, rewards)
    agent: Any = create(AGENTS[name])
    gains, overheads, held = [], [], np.zeros(6)
    for slot, arrived in enumerate(bernoulli_arrivals(30, 4, 0.7, 3)):
        observation.slot, observation.arrived = slot, arrived
        earnings = rewards.evaluate(agent.act(observation), arrived)
        gains.append(earnings.gain.sum())
        overheads.append(earnings.overhead.sum())
        held += earnings.held.sum(axis=0)
    earned = np.array(gains) - overheads
    assert outcome["average_gain"] == pytest.approx(np.mean(gains))
    assert outcome["average_overhead"] == pytest.approx(np.mean(overheads))
    assert outcome["average_reward"] == pytest.approx(earned.mean())
    assert outcome["negative_slots"] == np.mean(earned < 0)
    assert outcome["curve"]["slots"] == list(range(1, 31))
    assert outcome["curve"]["average_reward"] == pytest.approx([earned[:slot].mean() for slot in range(1, 31)])
    capacity = rewards.graph.capacity.sum(axis=0)
    assert list(outcome["utilization"].values()) == pytest.approx(held / 30 / capacity)
    assert outcome["num_jobs"] == bernoulli_arrivals(30, 4, 0.7, 3).sum()


def test_the_same_seed_gives_the_same_outcome_and_another_one_does_not() -> None:
    def outcome(seed: int) -> dict[str, Any]:
        return {name: value for name, value in perform(Run(SMALL, ogasched(), seed)).items() if "seconds" not in name}

    assert outcome(5) == outcome(5)
    assert outcome(5)["average_reward"] != outcome(6)["average_reward"]


def test_a_long_curve_is_thinned_to_its_end() -> None:
    curve = perform(Run(replace(SMALL, num_slots=1_700), RIVALS["Fairness"], 0))["curve"]
    slots = curve["slots"]
    assert len(slots) == len(curve["average_reward"]) == MOST_POINTS
    assert (slots[0], slots[-1]) == (1, 1_700)
    assert set(np.diff(slots)) <= {3, 4}


def test_a_checked_run_is_valid_and_earns_the_same() -> None:
    plain, checked = (perform(Run(replace(SMALL, check=check), ogasched(), 1)) for check in (False, True))
    assert (plain["valid"], checked["valid"]) == (None, True)
    assert plain["average_reward"] == checked["average_reward"]


def test_an_unknown_policy_is_named() -> None:
    with pytest.raises(InvalidConfiguration, match="no policy 'SJF'; there are OGASched, DRF"):
        create(Choice("SJF"))


def test_the_agents_are_those_of_the_paper_in_its_settings() -> None:
    agent: Any = create(AGENTS[OGASCHED])
    assert (agent.form, agent.steps.initial, agent.steps.decay) == ("reactive", 25.0, 0.9999)
    assert create(VARIANTS["OGASched (reservation)"]).form == "reservation"  # type: ignore[attr-defined]
    assert [create(choice).name for choice in RIVALS.values()] == ["drf", "fairness", "bin-packing", "spreading"]  # type: ignore[attr-defined]
    assert (DEFAULT.num_ports, DEFAULT.num_nodes, DEFAULT.num_slots, DEFAULT.probability) == (10, 128, 2_000, 0.7)
    assert (DEFAULT.weights, DEFAULT.overhead, DEFAULT.contention) == ((1.0, 1.5), (0.3, 0.5), 10.0)
    assert (FIGURE_2.num_slots, FIGURE_2.overhead, FIGURE_2.contention) == (8_000, (0.4, 0.6), 11.0)
    assert (LARGE.num_ports, LARGE.num_nodes, LARGE.num_slots) == (100, 1_024, 10_000)
    assert (LARGE.overhead, LARGE.contention) == ((0.01, 0.015), 5.0)


# -- what the paper says ------------------------------------------------------------------------


def _paper(name: str) -> str:
    path = PAPERS / name
    if not path.exists():
        pytest.skip(f"{path.name} is not here")
    return path.read_text()


def test_table_iii_is_that_of_the_paper() -> None:
    lines = _paper("text/ogasched.txt").splitlines()
    printed = {line.split()[0]: line.split()[1:] for line in lines if re.fullmatch(r"\w+( \d{4}\.\d\d){11}", line)}
    rows = {name.lower(): [float(cell) for cell in cells] for name, cells in printed.items()}
    assert {name.lower(): [x for panel in cells.values() for x in panel] for name, cells in TABLE_III.items()} == rows


def test_the_papers_figures_are_those_of_the_digest() -> None:
    digest = " ".join(_paper("ogasched.md").split())
    for name, lead in FIGURE_2_LEADS.items():
        assert f"+{lead} % over {name}" in digest
    for name, panels in TABLE_III.items():
        cells = re.search(rf"{name}((?:[ ;]+\d{{4}}){{11}})", digest)
        assert cells is not None
        ours = [cell for panel in panels.values() for cell in panel]
        assert ours == pytest.approx(
            [float(cell) for cell in re.findall(r"\d+", cells[1])], abs=1.0
        )  # it has no decimals


@pytest.mark.parametrize("rival", RIVALS)
def test_the_papers_ogasched_leads_in_every_cell(rival: str) -> None:
    leads = [paper_lead(panel, column, rival) for panel, row in TABLE_III[rival].items() for column in range(len(row))]
    assert len(leads) == 11
    assert min(leads) > 0


def test_the_papers_leads_are_relative_to_the_rival() -> None:
    assert paper_lead("T", 0, "DRF") == pytest.approx(156.06 / 24.2247)


# -- every experiment ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def studies(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Study]]:
    """Run an experiment when it is first asked for; all share one store."""
    root = tmp_path_factory.mktemp("ogasched")
    done: dict[str, Study] = {}

    def study(name: str) -> Study:
        if name not in done:
            done[name] = EXPERIMENTS[name](root / name)
        return done[name]

    yield study


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_trial_gives_finite_numbers_and_all_files(name: str, studies: Callable[[str], Study]) -> None:
    study = studies(name)
    directory = study.options.directory
    assert directory.name == name
    assert (directory / f"{name}.png").read_bytes()[:4] == b"\x89PNG"
    assert sorted(path.name for path in directory.iterdir()) == sorted(["results.csv", "results.json", f"{name}.png"])
    document = json.loads((directory / "results.json").read_text())
    with (directory / "results.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(document["cells"]) == len(rows) == len(study.cells)
    for (key, cell), item, row in zip(study.cells.items(), document["cells"], rows, strict=True):
        assert (item["panel"], item["column"], item["row"]) == (row["panel"], row["column"], row["row"]) == key
        assert all(math.isfinite(number) for metric in item["metrics"].values() for number in metric.values())
        assert item["metrics"]["average_reward"]["mean"] == pytest.approx(np.mean(item["by_seed"]))
        assert float(row["average_reward"]) == pytest.approx(np.mean(item["by_seed"]))
        assert item["valid"] == [True, True]
        assert (item["compared_with"] is None) == (cell.entry.reference is None) == (item["difference"] is None)
    assert study.num_invalid == 0


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_differences_are_paired_by_seed(name: str, studies: Callable[[str], Study]) -> None:
    study = studies(name)
    for cell in study.cells.values():
        if cell.entry.reference is None:
            continue
        ours, theirs = (
            np.array([outcome["average_reward"] for outcome in one.outcomes])
            for one in (study.cells[cell.entry.reference], cell)
        )
        assert cell.difference is not None
        half = stats.t.ppf(0.975, len(ours) - 1) * np.std(ours - theirs, ddof=1) / np.sqrt(len(ours))
        assert cell.difference.mean == pytest.approx(np.mean(ours) - np.mean(theirs), abs=1e-9)
        assert cell.difference.half_width == pytest.approx(half, abs=1e-9)
        assert cell.lead is not None
        if (theirs > 0).all() and (ours > 0).all():
            assert cell.lead.mean == pytest.approx(100 * np.mean(ours / theirs - 1))
        else:
            assert math.isnan(cell.lead.mean)


def test_all_cells_of_table_iii_stand_beside_the_papers(studies: Callable[[str], Study]) -> None:
    cells = studies("table3").cells
    printed = {key: cell for key, cell in cells.items() if cell.entry.paper is not None}
    assert len(printed) == 55
    for name, panels in TABLE_III.items():
        for panel, values in panels.items():
            row = [cell.entry.paper for key, cell in printed.items() if (key.panel, key.row) == (panel, name)]
            assert row == list(values)
    assert len([cell for cell in cells.values() if cell.entry.paper_lead is not None]) == 44


def test_experiments_share_their_runs(studies: Callable[[str], Study]) -> None:
    studies("figure3")
    store = studies("figure6").options.runs
    before = {path.name: path.stat().st_mtime_ns for path in store.directory.glob("*.json")}
    for name, experiment in EXPERIMENTS.items():
        studies(name)
        if name == "figure6":
            experiment(store.directory.parent / name)
    after = {path.name: path.stat().st_mtime_ns for path in store.directory.glob("*.json")}
    assert {name: after[name] for name in before} == before
    same = {key: cell.metrics["average_reward"] for key, cell in studies("figure6").cells.items()}
    assert {key: studies("figure3").cells[key].metrics["average_reward"] for key in same} == same


def test_every_module_is_among_all_experiments() -> None:
    paths = Path(package.__file__).parent.glob("*.py")
    programs = {path.stem for path in paths if "run_as_program(" in path.read_text()}
    assert programs - {"__main__", "options"} == set(FAMILY.modules)
    for name in FAMILY.modules:
        module = import_module(f"desim.experiments.ogasched.{name}")
        assert issubclass(getattr(module, name.capitalize()), Options)
        assert callable(getattr(module, name))


# -- what is reported ---------------------------------------------------------------------------


def _study(rewards: dict[str, list[float]], valid: bool | None = None) -> Study:
    cells = {}
    for row, values in rewards.items():
        reference = None if row == OGASCHED else Key("T", "1", OGASCHED)
        ours = np.array(rewards[OGASCHED])
        half = 0.0 if len(set(ours - values)) == 1 else 1e9
        difference = None if reference is None else Estimate(float(np.mean(ours - values)), half, len(values), 0.95)
        outcomes = tuple({"average_reward": value, "valid": valid} for value in values)
        lead = None if reference is None else lead_percent(ours, values)
        entry = Entry(DEFAULT, AGENTS[row], reference)
        cells[Key("T", "1", row)] = Cell(entry, DEFAULT, outcomes, {}, difference, lead)
    return Study("title", Options(), cells)


def test_the_verdict_names_every_cell_in_which_ogasched_does_not_lead() -> None:
    study = _study({OGASCHED: [10.0, 12.0], "DRF": [9.0, 11.0], "Fairness": [11.0, 13.0], "Spreading": [1.0, 30.0]})
    lines = verdict(study, OGASCHED, list(RIVALS))
    assert lines[0] == "OGASched is ahead of rivals in 1 of 3 cells, beyond doubt in 1."
    assert lines[1].startswith("  not ahead, beyond doubt: T, 1, Fairness: ")
    assert lines[2].startswith("  not ahead, within the interval: T, 1, Spreading: ")
    assert len(lines) == 3


def test_equal_rewards_are_no_lead() -> None:
    study = _study({OGASCHED: [10.0, 12.0], "DRF": [10.0, 12.0]})
    assert list(study.behind(RIVALS)) == [Key("T", "1", "DRF")]
    assert verdict(study, OGASCHED, list(RIVALS))[1].startswith("  not ahead, within the interval: T, 1, DRF")


def test_violations_are_reported_and_fail_the_program() -> None:
    study = _study({OGASCHED: [10.0, 12.0], "DRF": [9.0, 11.0]}, valid=False)
    assert verdict(study, OGASCHED, list(RIVALS))[-1] == "The check has found violations in the records of 4 runs."
    assert run_as_program(Figure2, lambda options: study, []) == 1
    assert run_as_program(Figure2, lambda options: _study({OGASCHED: [1.0]}, valid=True), []) == 0


def test_a_ratio_to_a_loss_is_not_a_number() -> None:
    assert lead_percent([2.0, 3.0], [1.0, 2.0]).mean == pytest.approx(75.0)
    for ours, theirs in (([1.0, 2.0], [1.0, 0.0]), ([1.0, -2.0], [1.0, 2.0]), ([1.0, 2.0], [-1.0, -2.0])):
        assert math.isnan(lead_percent(ours, theirs).mean)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (None, "–"),
        (math.nan, "–"),
        (0.0, "0"),
        (2886.33, "2,886"),
        (12.3456, "12.35"),
        (0.0123, "0.0123"),
        (-3.0, "-3.000"),
    ],
)
def test_numbers_have_four_digits(number: float | None, text: str) -> None:
    assert short(number) == text


def test_means_come_with_their_intervals() -> None:
    assert with_interval(Estimate(3104.98, 20.4, 10, 0.95)) == "3,105 ± 20"
    assert with_interval(Estimate(11.333, 0.666, 10, 0.95), digits=2) == "+11.33 ± 0.67"
    assert with_interval(Estimate(5.0, math.nan, 1, 0.95)) == "5.000"
    assert with_interval(Estimate(math.nan, math.nan, 2, 0.95)) == with_interval(None) == "–"


# -- options ------------------------------------------------------------------------------------


def test_a_trial_is_smaller_and_checked() -> None:
    quick = Options(quick=True, seeds=10)
    assert quick.seed_list == [0, 1]
    assert quick.fit(LARGE) == replace(LARGE, num_slots=200, num_nodes=512, check=True)
    assert Options(divide_slots=10**6, divide_nodes=10**6).fit(DEFAULT) == replace(DEFAULT, num_slots=10, num_nodes=10)
    assert Options(seeds=3).fit(DEFAULT) == DEFAULT
    assert Options(seeds=3).seed_list == [0, 1, 2]


def test_directories_follow_from_out(tmp_path: Path) -> None:
    assert Figure2().directory == Path("results/ogasched/figure2")
    assert Figure2().runs.directory == Table3().runs.directory == Path("results/ogasched/runs")
    assert Figure2(out=tmp_path / "here").runs.directory == tmp_path / "runs"
    assert Figure2(out=tmp_path / "here", store=tmp_path / "s").runs.directory == tmp_path / "s"


def test_arguments_out_of_range_and_interruptions_have_their_status(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as leave:
        run_as_program(Figure2, figure2, ["--seeds", "0"])
    assert leave.value.code == 2
    assert "seeds is 0, want at least 1" in capsys.readouterr().err

    def interrupted(options: Figure2) -> None:
        raise KeyboardInterrupt("2 of 5 runs are stored")

    assert run_as_program(Figure2, interrupted, []) == 1
    assert capsys.readouterr().err == "interrupted: 2 of 5 runs are stored\n"

    def impossible(options: Figure2) -> None:
        raise InvalidConfiguration("density is 0")

    assert run_as_program(Figure2, impossible, []) == 2
    assert capsys.readouterr().err == "error: density is 0\n"


def test_the_command_line_prints_the_papers_figures_beside_ours(
    studies: Callable[[str], Study], capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(studies("figure2").options.directory)
    sizes = ["--quick", "--divide-slots", "1000", "--divide-nodes", "16"]
    capsys.readouterr()
    assert run_as_program(Figure2, figure2, [*sizes, "--jobs", "1", "--out", out]) == 0
    printed = capsys.readouterr().out
    assert "cannot be compared with the paper's" in printed
    assert [f"[{lead:+.2f}]" in printed for lead in FIGURE_2_LEADS.values()] == [True] * 4
    assert "[2,886]" in printed
    assert "is ahead of rivals in" in printed


def test_a_row_has_the_marker_of_the_legend_where_others_are_left_out() -> None:
    figure = Figure()
    ax = figure.subplots()
    rows = list(AGENTS)[:4]
    known = {row: None if row == OGASCHED else Estimate(1.0, 0.1, 5, 0.95) for row in rows}
    lines: Any = {row: [row, row] for row in rows}
    draw_points(ax, np.array([1.0, 2.0]), lines, lambda row: known[row])  # type: ignore[index]
    legend = {handle.get_color(): handle.get_marker() for handle in line_handles(rows, agent_styles(), MARKERS)}
    drawn = {line.get_color(): line.get_marker() for line in (bar.lines[0] for bar in ax.containers)}
    assert len(drawn) == 3
    assert drawn.items() <= legend.items()


def test_an_agent_is_the_same_choice_in_whatever_order_its_parameters_stand() -> None:
    one = choose("AdaGrad", form="reactive", rate=5.0, forget=0.99)
    assert one == choose("AdaGrad", forget=0.99, rate=5.0, form="reactive")
    assert (create(one).rate, create(one).forget) == (5.0, 0.99)  # type: ignore[attr-defined]
