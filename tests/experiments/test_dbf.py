"""DBF: episodes, what runs measure, curves of trainings, and verdicts that can go either way."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from desim import simulate
from desim.agents.batch import create
from desim.exceptions import InvalidConfiguration
from desim.experiments.claims import read_register
from desim.experiments.dbf import workloads
from desim.experiments.dbf.claims import claims, fixed_rules, lowered
from desim.experiments.dbf.figure3 import INSPECTOR, Figure3
from desim.experiments.dbf.figure3 import PANEL as DBF
from desim.experiments.dbf.figure4 import CLOSED, OPEN, RELEASED, SEQUENCE_RULES, STARTED, Figure4
from desim.experiments.dbf.figure5 import Figure5
from desim.experiments.dbf.figure7 import Figure7, by_type
from desim.experiments.dbf.held_out import HeldOut
from desim.experiments.dbf.simulate import CORES, TIMES, WIDE, Setting, perform, play
from desim.experiments.dbf.study import ONLINE, RULES, Study
from desim.experiments.dbf.workloads import KTH, TRACE, episode, num_episodes, present
from desim.experiments.frame import Choice, Frame
from desim.experiments.learning_curves import COLUMN
from desim.sweep import Run, Workers

GENERATED = "generated"
SMALL = Setting(GENERATED, num_jobs=120, episodes=2, check=True)
PAGES = Path(__file__).parents[2] / "docs" / "reports" / "dbf"


# -- episodes -----------------------------------------------------------------------------------


def test_episodes_begin_at_uniform_positions_and_are_the_same_for_all() -> None:
    trace = workloads.traces_of(present(TRACE))[0]
    for num_jobs, arrivals, last in ((1_000, "open", 8_000), (256, "closed", 9_744)):
        firsts = []
        for number in range(60):
            jobs = iter(episode(present(TRACE), number, num_jobs, arrivals).jobs)  # type: ignore[arg-type]
            first = next(jobs)
            assert first.submission_time == 0.0
            firsts.append(next(place for place, job in enumerate(trace) if job.job_id == first.job_id))
        assert max(firsts) <= last
        assert 0.4 * last < np.mean(firsts) < 0.6 * last
        again = next(iter(episode(present(TRACE), 7, num_jobs, arrivals).jobs))  # type: ignore[arg-type]
        assert again.job_id == trace[firsts[7]].job_id


def test_generated_episodes_come_from_several_traces() -> None:
    traces = workloads.traces_of(GENERATED)
    assert len({trace[0].submission_time for trace in traces}) == len(traces) == 5
    first = next(iter(episode(GENERATED, 6, 10, "open").jobs))
    assert any(job.run_time == first.run_time for job in traces[1])


def test_pieces_of_the_log_do_not_overlap() -> None:
    name = present(KTH)
    pieces = [{job.job_id for job in episode(name, number, 1_000, "closed").jobs} for number in range(3)]
    assert [len(piece) for piece in pieces] == [1_000] * 3
    assert not (pieces[0] & pieces[1]) | (pieces[1] & pieces[2])
    assert num_episodes(name, 1_000) == 27
    with pytest.raises(InvalidConfiguration, match=r"episode: got 27 of 1000 jobs of .*, expected 0 to 26"):
        episode(name, 27, 1_000, "open")


def test_there_have_to_be_so_many_blocks() -> None:
    study = Study(workload=GENERATED, seeds=1_001)
    with pytest.raises(InvalidConfiguration, match=r"seeds: got 1001 blocks of 5 episodes, expected at most 5000"):
        study.seeds_of(study.fit(ONLINE))
    held_out = HeldOut(num_jobs=1_000)
    log, generated = (held_out.fit(Setting(name, num_jobs=1_000)) for name in (KTH, "Lublin, 64 cores"))
    assert [len(held_out.seeds_of(setting)) for setting in (log, generated)] == [6, 20]


def test_a_generated_trace_stands_in_for_a_file_that_is_absent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(workloads, "SWF", tmp_path)
    found = present.__wrapped__(TRACE)
    assert found == "lublin_256 (stand-in)"
    assert "there is no lublin_256.swf" in capsys.readouterr().err
    with pytest.raises(InvalidConfiguration, match="workload: got 'lublin', expected one of lublin_256, generated"):
        present("lublin")


# -- one run ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "policy",
    ["easy-fcfs", "window-random-5-3", "split-window:desim-any@5-3", "inspector:desim-f1", "schedinspector-sjf"],
)
def test_a_run_has_the_means_of_what_simulations_give(policy: str) -> None:
    for arrivals in ("open", "closed"):
        outcome = perform(Run(replace(SMALL, arrivals=arrivals), Choice(policy), 1))
        assert outcome["valid"] is True
        results = [simulate(episode(GENERATED, n, 120, arrivals), create(policy), seed=n) for n in (2, 3)]
        included, started = ([r.metrics(unfinished=which) for r in results] for which in ("include", "exclude"))
        for metric in ("waiting_time_mean", "waiting_time_max", "slowdown_mean", "queue_length_mean", "utilization"):
            assert outcome[metric] == pytest.approx(np.mean([one[metric] for one in included]), rel=1e-12)
        for metric in ("waiting_time_mean", "slowdown_mean"):
            assert outcome[f"started_{metric}"] == pytest.approx(np.mean([one[metric] for one in started]), rel=1e-12)


class Counting:
    """Notes the length of the queue at every decision."""

    def __init__(self, agent: Any) -> None:
        self.agent = agent
        self.reset = agent.reset
        self.lengths: list[int] = []

    def act(self, observation: Any) -> Any:
        self.lengths.append(len(observation.queue))
        return self.agent.act(observation)


def test_what_a_window_does_not_show_is_counted_at_every_decision() -> None:
    policy = "window-random-2-1"
    _, counts = play(episode(GENERATED, 1, 120, "open"), create(policy), 1)
    counting = Counting(create(policy))
    simulate(episode(GENERATED, 1, 120, "open"), counting, seed=1)
    lengths = np.array(counting.lengths)
    assert 0 < (lengths > 3).mean() < 1
    assert counts == {
        "invisible_jobs": pytest.approx(np.maximum(lengths - 3, 0).mean()),
        "hidden_share": pytest.approx((lengths > 3).mean()),
        "seen_queue_length": pytest.approx(lengths.mean()),
    }
    _, none = play(episode(GENERATED, 1, 40, "open"), create("easy-fcfs"), 1)
    assert set(none.values()) == {None}


def test_agents_that_look_ahead_have_forks() -> None:
    problem = episode(GENERATED, 3, 30, "closed")
    result, _ = play(problem, create("rollout:sjf"), 3)
    assert result.jobs.equals(simulate(problem, create("rollout:sjf"), seed=3).jobs)


def test_jobs_are_counted_by_type() -> None:
    outcome = perform(Run(SMALL, Choice("window-shortest-5-5"), 0))
    counted, waits = np.zeros((len(CORES), len(TIMES))), np.zeros((len(CORES), len(TIMES)))
    shares = []
    for number in (0, 1):
        result = simulate(episode(GENERATED, number, 120, "open"), create("window-shortest-5-5"), seed=number)
        wide = []
        for job in result.jobs.iter_rows(named=True):
            cores, start = job["requested_number_of_resources"], job["starting_time"]
            if cores > WIDE:
                wide.append(start is not None)
            if start is not None:
                row = next(i for i, most in enumerate(CORES) if cores <= most)
                column = next(i for i, most in enumerate(TIMES) if job["requested_time"] <= most)
                counted[row, column] += 1
                waits[row, column] += start - job["submission_time"]
        shares.append(np.mean(wide))
    assert counted.sum() == 240
    found = outcome["by type"]
    assert found["placed"] == {place: counted.ravel()[place] for place in counted.ravel().nonzero()[0]}
    assert found["waits"] == pytest.approx({place: waits.ravel()[place] for place in found["placed"]})
    assert outcome["wide_share"] == pytest.approx(np.mean(shares))
    frame = Frame.of({("M = 10", "1", "random", 0): outcome, ("M = 10", "1", "random", 1): outcome})
    assert by_type(frame, "1", "random")[0].sum() == 480


# -- what it comes to ---------------------------------------------------------------------------


def cells(panel: str, values: dict[tuple[str, str], float], metrics: dict[str, float]) -> dict[Any, dict[str, float]]:
    """Return outcomes of four blocks that differ a little, by column and row; metrics are multiples of a value."""
    return {
        (panel, column, row, seed): {name: value * scale * (1 + 0.01 * seed) for name, scale in metrics.items()}
        for (column, row), value in values.items()
        for seed in range(4)
    }


def splits(saved: float) -> Frame:
    """Return windows of 20 slots in which each rule saves so much by a split."""
    waits = {"0": 1e4, "1": 1.001e4 * (1 - saved), "10": 1e4 * (1 - saved)}
    values = {(tail, rule): wait for tail, wait in waits.items() for rule in ("random", "shortest", "first")}
    return Frame.of(cells("M = 20", values, {"waiting_time_mean": 1.0, "queue_length_mean": 1e-3, "hidden_share": 0.0}))


@pytest.mark.parametrize(
    ("saved", "verdict"),
    [
        (0.49, "reproduced"),
        (0.405, "reproduced"),
        (0.9, "reproduced in order only"),
        (0.1, "reproduced in order only"),
        (-0.5, "not reproduced"),
    ],
)
def test_more_is_saved_than_in_the_paper_is_as_much_a_miss_as_less(saved: float, verdict: str) -> None:
    frame = splits(saved)
    half, none = (frame.values("M = 20", tail, "random", "waiting_time_mean") for tail in ("10", "0"))
    assert lowered(half, none).mean == pytest.approx(100 * saved)
    (claim,) = [one for one in claims({"figure5": frame}) if "waiting time of the rule 'random'" in one.what]
    assert claim.verdict == verdict
    assert "best of 2 splits is 10-10" in claim.reason


def test_nothing_is_said_of_what_was_not_measured() -> None:
    assert claims({}) == fixed_rules({}) == []


def online(queue: float, change: float) -> dict[str, Frame]:
    """Return frames in which DBF without a tail has a queue, after trainings whose last quarters differ so much."""
    metrics = {"queue_length_mean": 1.0, "waiting_time_mean": 1e3, "utilization": 0.01, "bounded_slowdown_mean": 1.0}
    rows = {("dbf 20-0", queue), ("dbf 19-1", queue / 2), ("dbf 10-10", queue / 1.5), (RELEASED, 62.2)}
    outcomes = cells(OPEN, {(STARTED, row): value for row, value in rows}, metrics)
    outcomes |= cells(CLOSED, {("256 jobs", row): 62.2 for row in (*SEQUENCE_RULES, RELEASED)}, metrics)
    outcomes |= cells(CLOSED, {("128 jobs", row): 62.2 for row in (*SEQUENCE_RULES, RELEASED)}, metrics)
    length = {"episodes": 300.0, "decisions": 9e5, "evaluations": 31.0, "change": change}
    rows_of = {DBF: ("dbf 20-0", "dbf 19-1", "dbf 10-10"), INSPECTOR: (RELEASED,)}
    curves: Any = {(panel, COLUMN, row, 0): length for panel, rows in rows_of.items() for row in rows}
    return {"figure3": Frame.of(curves), "figure4": Frame.of(outcomes)}


@pytest.mark.parametrize(
    ("queue", "change", "verdict"),
    [
        (31.0, 1.0, "reproduced"),
        (60.0, 1.0, "not reproduced"),
        (15.0, 1.0, "not reproduced"),
        (31.0, -9.0, "cannot be judged here"),
    ],
)
def test_dbf_is_judged_once_its_training_is_flat(queue: float, change: float, verdict: str) -> None:
    found = {one.what: one for one in claims(online(queue, change))}
    claim = found["mean queue, M = 20 without tail"]
    assert claim.verdict == verdict
    assert "300 episodes, 900,000 decisions" in claim.reason
    split = found["M = 20: a split lowers the queue length of DBF by, %"]
    assert split.verdict == ("reproduced" if change == 1.0 else "cannot be judged here")
    assert found["mean slowdown of SchedInspector over SJF"].is_judged == (change == 1.0)


def test_the_first_reading_of_sjf_is_calibrated() -> None:
    first, *_ = fixed_rules({"figure4": Frame.read(PAGES / "figure4.csv")})
    assert (first.paper, first.is_calibrated) == (73.3, True)


def test_the_committed_table_has_what_is_simulated_now() -> None:
    if present(TRACE) != TRACE:
        pytest.skip("needs lublin_256.swf in the shared data")
    frame = Frame.read(PAGES / "figure4.csv")
    for panel, column, row, setting in (
        (OPEN, STARTED, "SJF by cores", ONLINE),
        (OPEN, STARTED, "FCFS, EASY", ONLINE),
    ):
        outcome = perform(Run(setting, RULES[row], 0))
        for metric in ("waiting_time_mean", "queue_length_mean", "slowdown_mean", "started_slowdown_mean"):
            assert frame.values(panel, column, row, metric)[0] == pytest.approx(outcome[metric], rel=1e-5)
    assert set(SEQUENCE_RULES) < set(frame.rows(CLOSED))


def test_the_register_tells_every_item() -> None:
    items = read_register("desim.experiments.dbf")
    assert len(items) > 20
    assert {one.kind for one in items} == {"not stated", "departure"}


@pytest.mark.parametrize("kind", [Figure3, Figure4, Figure5, Figure7])
def test_a_trial_measures_every_cell(kind: type[Study]) -> None:
    study = kind(quick=True, workload=GENERATED, workers=Workers(1))
    for panel in study.panels():
        assert all(panel.choice(column, row) or column for column, row, _ in panel.cells())
        for setting in panel.columns.values():
            fitted = study.fit(setting)
            assert study.seeds_of(fitted)
            assert getattr(fitted, "num_jobs", 100) <= 100
