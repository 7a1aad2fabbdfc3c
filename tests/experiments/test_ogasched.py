"""OGASched: what a run earns and regrets, what the paper says, and the verdict."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from desim.agents.multiserver.hindsight import best_fixed_allocation
from desim.agents.multiserver.regret import regret_bound
from desim.exceptions import InvalidConfiguration
from desim.experiments.blocks import Fault, Runs
from desim.experiments.measured import Choice
from desim.experiments.ogasched import pictures
from desim.experiments.ogasched.agents import (
    AGENTS,
    DEFAULT,
    FIGURE_2,
    FIGURE_2_LEADS,
    LARGE,
    OGASCHED,
    RIVALS,
    TABLE_III,
    VARIANTS,
    choose,
    ogasched,
)
from desim.experiments.ogasched.regret import POLICIES, THEORY, Regret, Regrets
from desim.experiments.ogasched.simulate import (
    ARRIVALS,
    LEARNERS,
    MOST_POINTS,
    Learner,
    RegretSetting,
    Setting,
    create,
    perform,
    perform_regret,
    worst_served,
)
from desim.experiments.ogasched.study import Measured, Panel, Study, verdict
from desim.experiments.ogasched.table3 import COLUMNS, panel
from desim.problems.multiserver import MultiServerObservation
from desim.sweep import Run
from desim.workloads.multiserver import bernoulli_arrivals, generate

PAPERS = Path(__file__).resolve().parents[3] / "shared" / "papers"
SMALL = Setting(num_ports=4, num_nodes=12, num_slots=30)


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


def test_a_run_depends_on_its_seed_and_a_check_changes_nothing() -> None:
    def outcome(seed: int, *, check: bool = False) -> dict[str, Any]:
        found = perform(Run(replace(SMALL, check=check), ogasched(), seed))
        assert found.pop("valid") is (True if check else None)
        return {name: value for name, value in found.items() if "seconds" not in name}

    assert outcome(5) == outcome(5) == outcome(5, check=True)
    assert outcome(5)["average_reward"] != outcome(6)["average_reward"]


def test_a_long_curve_is_thinned_to_its_end() -> None:
    curve = perform(Run(replace(SMALL, num_slots=1_700), RIVALS["Fairness"], 0))["curve"]
    slots = curve["slots"]
    assert len(slots) == len(curve["average_reward"]) == MOST_POINTS
    assert (slots[0], slots[-1]) == (1, 1_700)
    assert set(np.diff(slots)) <= {3, 4}


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
    one = choose("AdaGrad", form="reactive", rate=5.0, forget=0.99)
    assert one == choose("AdaGrad", forget=0.99, rate=5.0, form="reactive")
    assert (create(one).rate, create(one).forget) == (5.0, 0.99)  # type: ignore[attr-defined]
    with pytest.raises(InvalidConfiguration, match="no policy 'SJF'; there are OGASched, DRF"):
        create(Choice("SJF"))


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
        printed = [float(cell) for cell in re.findall(r"\d+", cells[1])]
        assert ours == pytest.approx(printed, abs=1.0)  # it has no decimals


def test_all_cells_of_table_iii_stand_beside_the_papers_whose_ogasched_leads_in_each() -> None:
    panels = {name: panel(name) for name in COLUMNS}
    printed = {
        (name, row): [part.printed(part.paper, column, row) for column in part.columns]
        for name, part in panels.items()
        for row in TABLE_III
    }
    assert printed == {(name, row): list(TABLE_III[row][name]) for name in COLUMNS for row in TABLE_III}
    leads = [part.printed(part.paper_leads, c, row) for part in panels.values() for row in RIVALS for c in part.columns]
    assert len(leads) == 44
    assert min(lead for lead in leads if lead is not None) > 0
    assert leads[0] == pytest.approx(156.06 / 24.2247)  # relative to the rival


# -- what is reported ---------------------------------------------------------------------------


def _measured(rewards: dict[str, list[float]], valid: bool | None = None) -> Measured:
    part = Panel("T", "T", {"1": DEFAULT}, {row: AGENTS[row] for row in rewards})
    outcomes = {
        ("T", "1", row): tuple({"average_reward": value, "valid": valid} for value in values)
        for row, values in rewards.items()
    }
    return Measured(Study(), (part,), OGASCHED, outcomes)


def test_the_verdict_names_every_cell_in_which_ogasched_does_not_lead() -> None:
    rewards = {OGASCHED: [10.0, 12.0], "DRF": [9.0, 11.0], "Fairness": [11.0, 13.0], "Spreading": [1.0, 30.0]}
    lines = verdict(_measured(rewards), OGASCHED, list(RIVALS))
    assert lines[0] == "OGASched is ahead of rivals in 1 of 3 cells, beyond doubt in 1."
    assert lines[1].startswith("  not ahead, beyond doubt: T, 1, Fairness: ")
    assert lines[2].startswith("  not ahead, within the interval: T, 1, Spreading: ")
    assert len(lines) == 3
    equal = verdict(_measured({OGASCHED: [10.0, 12.0], "DRF": [10.0, 12.0]}), OGASCHED, list(RIVALS))
    assert equal[1].startswith("  not ahead, within the interval: T, 1, DRF")


def test_violations_are_faults() -> None:
    found = _measured({OGASCHED: [10.0, 12.0], "DRF": [9.0, 11.0]}, valid=False)
    assert list(found.faults()) == [Fault("The check has found violations in the records of 4 runs.")]
    assert list(_measured({OGASCHED: [1.0]}, valid=True).faults()) == []


def test_a_trial_is_smaller_and_checked() -> None:
    assert Study(quick=True).fit(LARGE) == replace(LARGE, num_slots=200, num_nodes=512, check=True)
    least = Study(divide_slots=10**6, divide_nodes=10**6)
    assert least.fit(DEFAULT) == replace(DEFAULT, num_slots=10, num_nodes=10)
    assert least.is_reduced
    assert Study(seeds=3).fit(DEFAULT) == DEFAULT
    with pytest.raises(InvalidConfiguration, match="divide_slots is 0"):
        Study(divide_slots=0)


def test_a_row_has_the_marker_of_the_legend_where_others_are_left_out() -> None:
    rows = list(AGENTS)[:4]
    rewards = {row: [float(number), number + 1.0] for number, row in enumerate(rows, 1)}
    part = Panel("T", "T", {"1": DEFAULT, "2": DEFAULT}, {row: AGENTS[row] for row in rows})
    outcomes: Any = {
        ("T", column, row): tuple({"average_reward": value} for value in values)
        for column in "12"
        for row, values in rewards.items()
    }
    drawn = pictures.sweeps(Measured(Study(), (part,), OGASCHED, outcomes), ("average_reward",), with_leads=True)
    assert drawn.figure is not None
    legend = {line.get_color(): line.get_marker() for line in drawn.figure.legends[0].get_lines()}
    for ax, number in zip(drawn.figure.axes, (4, 3), strict=True):
        shown = {line.get_color(): line.get_marker() for line in (bar.lines[0] for bar in ax.containers)}  # type: ignore[attr-defined]
        assert len(shown) == number
        assert shown.items() <= legend.items()


# -- regret -------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("arrivals", ARRIVALS)
def test_a_run_earns_and_regrets_what_a_plain_loop_does(arrivals: str, policy: str) -> None:
    slots, ports = 40, 5
    outcome = perform_regret(Run(RegretSetting(arrivals, slots, num_ports=ports, num_nodes=12), Learner(policy), 2))
    rewards = generate(num_ports=ports, num_nodes=12, seed=2)
    agent = LEARNERS[policy](slots)
    observation = MultiServerObservation(rewards.graph, rewards)
    reserved = np.zeros(rewards.graph.shape)
    earned, counts = 0.0, np.zeros(ports)
    for slot in range(slots):
        if arrivals == "random":
            arrived = bernoulli_arrivals(slots, ports, 0.7, 2)[slot]
        elif arrivals == "periodic":
            arrived = np.array([(slot + port) % 5 in (0, 1, 2, 3) for port in range(ports)])
        else:
            each = [rewards.total_reward(reserved, np.arange(ports) == port) for port in range(ports)]
            arrived = np.isin(np.arange(ports), sorted(range(ports), key=lambda port: each[port])[: ports // 2])
        observation.slot, observation.arrived = slot, arrived
        answer = agent.act(observation)
        assert slot == 0 or np.array_equal(answer, reserved)  # it was fixed before the jobs were seen
        earned += rewards.total_reward(answer, arrived)
        counts += arrived
        assert agent.allocation is not None
        reserved = agent.allocation
    best = best_fixed_allocation(rewards, counts)
    assert outcome["earned"] == pytest.approx(earned)
    assert outcome["num_jobs"] == counts.sum()
    assert best.value - earned <= outcome["regret"] + 1e-9
    assert outcome["regret"] == pytest.approx(best.upper_bound - earned, rel=1e-6)
    assert outcome["bound"] == regret_bound(rewards, slots)


def test_the_worst_served_ports_are_those_that_earn_least() -> None:
    rewards = generate(num_ports=7, num_nodes=12, seed=0)
    allocation = rewards.graph.channel_requests * np.random.default_rng(0).random(rewards.graph.shape)
    each = [rewards.total_reward(allocation, np.arange(7) == port) for port in range(7)]
    worst = worst_served(rewards, allocation)
    assert worst.sum() == 3
    assert max(np.array(each)[worst]) <= min(np.array(each)[~worst])
    assert worst_served(rewards, np.zeros(rewards.graph.shape)).tolist() == [True] * 3 + [False] * 4  # ties
    assert worst_served(generate(num_ports=1, num_nodes=2, seed=0), np.zeros((2, 6))).tolist() == [True]
    for arrivals, policy, message in (("bursty", THEORY, "arrivals is 'bursty'"), ("random", "DRF", "no policy 'DRF'")):
        with pytest.raises(InvalidConfiguration, match=message):
            perform_regret(Run(RegretSetting(arrivals, 10), Learner(policy), 0))


def test_a_regret_above_the_bound_is_found() -> None:
    study = Regret(horizons=(100, 300), seeds=2)
    bounds = {arrivals: np.full((2, 2), 10.0) for arrivals in ARRIVALS}
    regrets = {(arrivals, policy): np.full((2, 2), 9.0) for arrivals in ARRIVALS for policy in POLICIES}
    regrets["periodic", POLICIES[1]][0, 0] = 11.0  # nothing is promised of this one
    found = Regrets(study, regrets, bounds, {}, Runs("", 0, 0, 0.0))
    assert found.above_bound == []
    regrets["periodic", THEORY][1, 0] = 11.0
    assert found.above_bound == [("periodic", 300, 0)]


def test_horizons_follow_from_the_settings() -> None:
    assert Regret().sizes == [100, 300, 1_000, 3_000, 10_000, 30_000, 100_000]
    assert Regret(quick=True).sizes == [10, 20, 60, 200]
    assert Regret(divide_slots=100).sizes == [10, 30, 100, 300, 1_000]
    assert (Regret().num_nodes, Regret(quick=True).num_nodes, Regret(divide_nodes=50).num_nodes) == (128, 64, 10)
