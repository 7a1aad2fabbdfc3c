"""The inspector as an agent: its rules against a second implementation, its network, its training."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inspector_reference import ORDERS, Outcome, run_reference, workloads

from desim import simulate
from desim.agents.batch import EASYBackfilling, create
from desim.agents.batch.inspector import BackfilledPriority, Inspector, InspectorConfig
from desim.agents.batch.training import EpisodeOptions, InspectorTraining
from desim.agents.learning.training import TrainingConfig
from desim.exceptions import DesimError, InvalidConfiguration
from desim.problems.batch import BatchCluster, Job
from desim.problems.batch.inspection import Inspection
from desim.processes import random_outages, stop_after
from desim.result import Result
from desim.validation import validate

REPEATABLE = settings(deadline=None, max_examples=80)
INTERVAL = 2.1234567  # no sum of few of them is a whole number, as all arrivals and run times are


class Watched(Inspector):
    """Notes every question, and answers by job, rejections and time."""

    def __init__(self, base: str, judge: Any, **rules: Any) -> None:
        super().__init__(base, self.answer, **rules)
        self.judge = judge
        self.questions: list[tuple[float, int, int]] = []

    def act(self, observation: Any) -> Any:
        self.now, self.id_of = observation.time, observation.id_of
        return super().act(observation)

    def answer(self, seen: dict[str, Any]) -> int:
        question = self.inspection.question
        assert question is not None
        job_id = self.id_of(question.row)
        self.questions.append((self.now, job_id, question.rejections))
        return int(self.judge(job_id, question.rejections, self.now))


def starts(result: Result) -> dict[int, float]:
    return dict(zip(result.jobs["job_id"].to_list(), result.jobs["starting_time"].to_list(), strict=True))


def judge_of(seed: int) -> Any:
    """Return a judge without rhyme or reason that rejects about half of all choices."""
    return lambda job_id, rejections, time: (seed * 7919 + job_id * 31 + rejections * 17 + int(time) * 13) % 97 % 2 == 0


class TestRules:
    @REPEATABLE
    @given(workloads(), st.sampled_from(sorted(ORDERS)), st.integers(0, 99), st.integers(1, 4), st.booleans())
    def test_they_are_those_of_a_second_implementation(
        self, workload: tuple[list[Job], int], order: str, seed: int, most: int, keeps: bool
    ) -> None:
        jobs, cores = workload
        agent = Watched(order, judge_of(seed), max_rejections=most, interval=INTERVAL, keeps_accepted=keeps)
        found = simulate(BatchCluster(jobs, cores, cycle="arrival"), agent)
        expected = run_reference(jobs, cores, order, judge_of(seed), most, INTERVAL, keeps=keeps)
        assert Outcome(starts(found), agent.questions) == expected
        assert validate(found, jobs).ok

    def test_a_case_worked_out_by_hand(self) -> None:
        # Of 4 cores, 3 are busy until 2000. Job 1 does not fit; job 2 does, and would be over at 1900.
        jobs = [
            Job(0, 0.0, 3, 2000.0, 2000.0),
            Job(1, 100.0, 2, 50.0, 50.0),
            Job(2, 300.0, 1, 1600.0, 1600.0),
        ]
        # By requested time, job 1 is the choice at 100 (rejected, to be asked about again at 700), at 300 with the
        # arrival (rejected, hence at 900), at 900 (accepted; job 2 is backfilled), and starts at 2000 unasked.
        agent = Watched("sjf", lambda job_id, rejections, time: job_id == 0 or rejections == 2)
        found = simulate(BatchCluster(jobs, 4), agent)
        assert agent.questions == [(0.0, 0, 0), (100.0, 1, 0), (300.0, 1, 1), (900.0, 1, 2)]
        assert starts(found) == {0: 0.0, 1: 2000.0, 2: 900.0}

    def test_a_later_arrival_displaces_no_accepted_job_unless_told_so(self) -> None:
        # Job 1 waits for all cores until 10; job 2 is smaller, but would still run then.
        jobs = [Job(0, 0.0, 1, 10.0, 10.0), Job(1, 1.0, 2, 5.0, 5.0), Job(2, 2.0, 1, 99.0, 99.0)]
        for keeps, expected in ((True, [0, 10, 15]), (False, [0, 101, 2])):
            found = simulate(BatchCluster(jobs, 2), Inspector("smallest-first", keeps_accepted=keeps))
            assert [starts(found)[job_id] for job_id in range(3)] == expected

    def test_a_reused_job_id_is_counted_anew(self) -> None:
        jobs = [Job(7, 0.0, 1, 1.0, 1.0), Job(7, 5000.0, 1, 1.0, 1.0)]
        agent = Watched("fcfs", lambda *_: False, max_rejections=2)
        simulate(BatchCluster(jobs, 1), agent)
        assert agent.questions == [(0.0, 7, 0), (600.0, 7, 1), (5000.0, 7, 0), (5600.0, 7, 1)]


class TestAcceptingEverything:
    @REPEATABLE
    @given(workloads(), st.sampled_from(sorted(ORDERS)))
    def test_is_easy_back_filling_over_the_base_when_it_chooses_anew(
        self, workload: tuple[list[Job], int], order: str
    ) -> None:
        jobs, cores = workload
        columns = ("job_id", "starting_time", "allocated_resources")
        own = simulate(BatchCluster(jobs, cores), Inspector(order, keeps_accepted=False))
        easy = simulate(BatchCluster(jobs, cores), EASYBackfilling(order))
        assert own.jobs.select(columns).rows() == easy.jobs.select(columns).rows()

    @REPEATABLE
    @given(workloads())
    def test_is_easy_back_filling_where_nobody_overtakes(self, workload: tuple[list[Job], int]) -> None:
        jobs, cores = workload
        own = simulate(BatchCluster(jobs, cores), Inspector("fcfs"))
        assert starts(own) == starts(simulate(BatchCluster(jobs, cores), create("easy")))


class TestRejectingEverything:
    @staticmethod
    def lublin_like(count: int, seed: int) -> list[Job]:
        rng = np.random.default_rng(seed)
        times = rng.exponential(700.0, count).cumsum()
        runs = rng.lognormal(6.5, 1.5, count)
        rows = zip(times, rng.integers(1, 17, count), runs, strict=True)
        return [Job(number, float(t), int(c), float(2 * r), float(r)) for number, (t, c, r) in enumerate(rows)]

    def test_no_job_is_rejected_more_than_72_times_and_nobody_waits_longer_than_600_s_for_a_question(self) -> None:
        jobs = self.lublin_like(40, 1)
        agent = Watched("smallest-first", lambda *_: False)
        result = simulate(BatchCluster(jobs, 16), agent)
        asked = Counter(job_id for _, job_id, _ in agent.questions)
        assert max(asked.values()) == 72
        assert validate(result, jobs).ok
        ends = [*result.jobs["submission_time"].to_list(), *result.jobs["finish_time"].to_list()]
        for (time, _, _), (following, _, _) in zip(agent.questions, agent.questions[1:], strict=False):
            due = min([time + 600.0, *(end for end in ends if end > time)])
            # An equal time is another arrival; a later one, that an accepted job has kept the cluster since.
            assert following in (time, due) or self.accepted_between(agent, result, time, following)

    @staticmethod
    def accepted_between(agent: Watched, result: Result, time: float, following: float) -> bool:
        """Tell whether a job that needs no question any more started, or waited, from one time to another."""
        seen = Counter(job_id for moment, job_id, _ in agent.questions if moment <= time)
        exhausted = {job_id for job_id, count in seen.items() if count == 72}
        times = starts(result)
        return any(time < times[job_id] <= following for job_id in exhausted)

    def test_with_outages_and_requests_that_are_too_long(self) -> None:
        jobs = self.lublin_like(60, 2)
        for keeps in (True, False):
            problem = BatchCluster(jobs, 16, processes=[random_outages(20_000.0, 2_000.0)])
            result = simulate(problem, Watched("f1", judge_of(3), keeps_accepted=keeps), seed=5)
            assert validate(result, jobs).ok
            assert set(result.jobs["status"].to_list()) == {"completed"}


class TestNetworks:
    jobs = TestRejectingEverything.lublin_like(30, 4)

    def test_a_new_network_begins_as_the_base_policy(self) -> None:
        config = InspectorConfig("f1")
        for seed in range(5):
            agent = Inspector.of(config, config.policy(np.random.default_rng(seed)), name="new")
            runs = [simulate(BatchCluster(self.jobs, 16), either) for either in (agent, Inspector("f1"))]
            assert starts(runs[0]) == starts(runs[1])

    def test_a_small_training_is_written_and_read(self, tmp_path: Path) -> None:
        training = InspectorTraining(
            agent=InspectorConfig("f1", hidden=(4,), max_rejections=5, keeps_accepted=False),
            num_cores=16,
            episodes=EpisodeOptions(num_traces=1, trace_jobs=60, num_jobs=12),
            training=TrainingConfig(100, 0, 2, 200, whole_episodes=True, validation_episodes=2, validate_every=1),
        )
        result = training.train()
        assert result.history[-1]["steps"] >= 100
        assert {"return", "bounded_slowdown_mean", "base_waiting_time_mean"} <= set(result.best)
        training.write(tmp_path / "small", result)
        agent = Inspector.load(tmp_path / "small")
        assert (agent.name, agent.inspection.base.name) == (f"inspector:{tmp_path}/small", "f1")
        assert (agent.inspection.max_rejections, agent.inspection.keeps_accepted) == (5, False)
        policy = training.agent.policy(np.random.default_rng(9))
        policy.load_state_dict(result.weights)
        again = Inspector.of(training.agent, policy, name="again")
        assert starts(simulate(BatchCluster(self.jobs, 16), agent)) == starts(
            simulate(BatchCluster(self.jobs, 16), again)
        )


class TestArguments:
    @pytest.mark.parametrize(
        ("rules", "message"),
        [
            ({"max_rejections": 0}, "max_rejections: got 0"),
            ({"max_rejections": 1.5}, r"max_rejections: got 1\.5"),
            ({"interval": 0.0}, r"interval: got 0\.0"),
            ({"interval": float("inf")}, "interval: got inf"),
            ({"base": "best"}, "unknown priority 'best'"),
        ],
    )
    def test_a_rule_out_of_range(self, rules: dict[str, Any], message: str) -> None:
        with pytest.raises(InvalidConfiguration, match=message):
            Inspector(**{"base": "fcfs"} | rules)

    def test_an_answer_without_a_question(self) -> None:
        with pytest.raises(DesimError, match="no question is open"):
            Inspection(BackfilledPriority("fcfs")).decide(None, accept=True)  # type: ignore[arg-type]

    def test_nothing_is_asked_of_an_empty_queue(self) -> None:
        jobs = [Job(0, 5.0, 1, 1.0, 1.0), Job(1, 50.0, 1, 1.0, 1.0)]
        asked: list[int] = []
        agent = Watched("fcfs", lambda job_id, *_: not asked.append(job_id))
        problem = BatchCluster(jobs, 1, ask_when_empty=True, processes=[stop_after("start", 2)])
        assert starts(simulate(problem, agent)) == {0: 5.0, 1: 50.0}
        assert asked == [0, 1]
