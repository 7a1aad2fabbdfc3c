"""Predictors of run times: what plans expect, how predictions are corrected, and what stays certain."""

from __future__ import annotations

from copy import deepcopy
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from desim import Result, simulate
from desim.agents.batch import EASYBackfilling, create
from desim.agents.batch.preemptive import PreemptiveAgent
from desim.agents.batch.priorities import Priority
from desim.agents.batch.rollout import RolloutAgent
from desim.core import Simulation
from desim.exceptions import InvalidConfiguration
from desim.problems.batch import AdvanceReservation, BatchCluster, Job, Limit, Node, Size
from desim.problems.batch.predictors import Fitted, Oracle, Request, UserAverage, as_predictor
from desim.processes import Outage, planned_outages
from desim.validation import validate


class Told(Request):
    """Predict given times by job id; correct by doubling."""

    def __init__(self, times: dict[int, float]) -> None:
        self.times = times
        self.seen: list[Any] = []

    def predict(self, job: Job) -> float:
        assert job.run_time == job.requested_time  # the actual one is secret
        return self.times.get(job.job_id, job.requested_time)

    def learn(self, job: Job, ran: float, outcome: str) -> None:
        self.seen.append((job.job_id, ran, outcome))

    def correct(self, job: Job, elapsed: float) -> float:
        return super().correct(job, elapsed) if elapsed >= job.requested_time else 2 * elapsed + 1


def starts(result: Result) -> dict[int, float]:
    return dict(result.jobs.sort("job_id").select("job_id", "starting_time").rows())


HOLE = [
    Job(1, 0.0, 3, 100.0, 60.0, 1),  # one core stays free
    Job(2, 1.0, 4, 50.0, 50.0, 1),  # blocked by job 1
    Job(3, 2.0, 1, 40.0, 20.0, 1),  # may fill the hole
]


class TestByHand:
    @pytest.mark.parametrize("place", ["cores", "nodes"])
    @pytest.mark.parametrize(
        ("predicted", "third"),
        [
            ({}, 2.0),  # by requests it ends at 42, before 100
            ({1: 30.0}, 110.0),  # job 2 is to start at 30, which is corrected to 61: too early for the third
            ({1: 30.0, 3: 20.0}, 2.0),  # expected to end at 22, so before 30
            ({1: 60.0, 3: 40.0}, 2.0),
        ],
    )
    def test_both_sides_of_easy_use_predictions(self, predicted: dict[int, float], third: float, place: str) -> None:
        where: dict[str, Any] = {"num_cores": 4} if place == "cores" else {"nodes": [Node("n1", 4)]}
        result = simulate(BatchCluster(HOLE, predictor=Told(predicted), **where), create("easy"))
        assert starts(result) == {1: 0.0, 2: 60.0, 3: third}

    def test_a_prediction_too_short_is_corrected_once_each_time_it_expires(self) -> None:
        asked = []

        class Watching:
            def act(self, seen: Any) -> Any:
                asked.append((seen.time, seen.running.expected_end.tolist()))
                return [0] if seen.time == 0 else [1] if seen.free_cores == 2 else None

        jobs = [Job(1, 0.0, 2, 100.0, 60.0), Job(2, 0.0, 2, 10.0, 5.0)]
        result = simulate(BatchCluster(jobs, 2, predictor=Told({1: 10.0})), Watching())
        assert asked == [(0.0, []), (10.0, [21.0]), (21.0, [43.0]), (43.0, [87.0]), (60.0, [])]
        assert result.jobs.select("predicted_time", "corrections").rows() == [(10.0, 3), (10.0, 0)]

    def test_corrections_are_capped_by_the_request_and_then_by_minutes(self) -> None:
        jobs = [Job(1, 0.0, 1, 30.0, 200.0)]
        asked = []

        class Watching:
            def act(self, seen: Any) -> Any:
                asked.append((seen.time, seen.running.expected_end.tolist()))
                return [0] if seen.time == 0 else None

        cluster = BatchCluster(jobs, 1, predictor=Told({1: 20.0}), enforce_time_limit=False, ask_when_empty=True)
        simulate(cluster, Watching())
        assert asked == [(0.0, []), (20.0, [30.0]), (30.0, [90.0]), (90.0, [150.0]), (150.0, [270.0])]

    def test_a_prediction_too_long_is_capped_by_the_request(self) -> None:
        result = simulate(BatchCluster([Job(1, 0.0, 1, 30.0, 10.0)], 1, predictor=Told({1: 1e9})), create("fcfs"))
        assert result.jobs["predicted_time"].to_list() == [30.0]

    def test_the_request_kills(self) -> None:
        predictor = Told({1: 5.0})
        result = simulate(BatchCluster([Job(1, 0.0, 1, 30.0, 50.0)], 1, predictor=predictor), create("fcfs"))
        assert result.jobs.select("status", "execution_time").rows() == [("killed", 30.0)]
        assert predictor.seen == []  # a run has a copy

    def test_predictors_learn_at_each_end(self) -> None:
        learned = []

        class Learning(Told):
            def __deepcopy__(self, memo: Any) -> Any:
                return self

            def learn(self, job: Job, ran: float, outcome: str) -> None:
                learned.append((job.job_id, job.run_time, ran, outcome))

        jobs = [Job(1, 0.0, 1, 30.0, 50.0), Job(2, 0.0, 1, 9.0, 4.0)]
        simulate(BatchCluster(jobs, 2, predictor=Learning({})), create("fcfs"))
        assert learned == [(2, 9.0, 4.0, "completed"), (1, 30.0, 30.0, "killed")]

    @pytest.mark.parametrize("agent", ["easy", "conservative", "backfilling-sjf", "f1", "conservative-sjf"])
    @pytest.mark.parametrize("place", ["cores", "nodes"])
    def test_jobs_keep_clear_of_reservations_by_their_requests(self, agent: str, place: str) -> None:
        jobs = [Job(1, 0.0, 2, 100.0, 80.0), Job(2, 0.0, 2, 30.0, 30.0)]
        where: dict[str, Any] = {"num_cores": 2, "reservations": [AdvanceReservation(50.0, 60.0, cores=1)]}
        if place == "nodes":
            reservation = AdvanceReservation(50.0, 60.0, nodes=["n1"])
            where = {"nodes": [Node("n1", 2)], "reservations": [reservation]}
        result = simulate(BatchCluster(jobs, predictor=Told({1: 10.0}), **where), create(agent))
        assert result.jobs["attempts"].to_list() == [1, 1]
        assert starts(result)[1] == 60.0 and starts(result)[2] in (0.0, 140.0)

    def test_sizes_have_predictions_of_their_own(self) -> None:
        sizes = (Size(4, 50.0, 20.0),)
        jobs = [Job(1, 0.0, 1, 200.0, 80.0, sizes=sizes)]
        cluster = BatchCluster(jobs, 4, predictor="oracle")
        decision = Simulation(cluster).advance()
        assert decision is not None and decision.observation.sizes_of(0) == [(1, 80.0), (4, 20.0)]
        result = simulate(cluster, create("easy-moldable"))
        assert result.jobs.select("starting_time", "predicted_time", "corrections").rows() == [(0.0, 20.0, 0)]

    def test_held_and_rejected_jobs(self) -> None:
        jobs = [Job(1, 0.0, 1, 9.0, 4.0, 7), Job(2, 0.0, 1, 9.0, 4.0, 7), Job(3, 0.0, 9, 9.0, 4.0, 7)]
        cluster = BatchCluster(
            jobs, 2, limits=[Limit("user", running_jobs=1)], too_wide="reject", predictor=Told({2: 5.0})
        )
        table = simulate(cluster, create("easy")).jobs
        assert table["predicted_time"].to_list() == [9.0, 5.0, None]


class TestShipped:
    def test_the_mean_of_the_last_two_of_the_user(self) -> None:
        jobs = [Job(n, 10.0 * n, 1, 100.0, float(n), n % 2) for n in range(1, 9)]
        result = simulate(BatchCluster(jobs, 1, predictor="user-average"), create("fcfs"))
        assert result.jobs["predicted_time"].to_list() == [100.0] * 4 + [2.0, 3.0, 4.0, 5.0]
        assert result.jobs["corrections"].to_list() == [0] * 4 + [1] * 4

    def test_corrections_of_the_mean(self) -> None:
        predictor, job = UserAverage(), Job(1, 0.0, 1, 1000.0, 1.0)
        assert [predictor.correct(job, elapsed) for elapsed in (10.0, 200.0, 1000.0)] == [70.0, 300.0, 1060.0]

    def test_a_fitted_model(self) -> None:
        class Proportional:
            """Run times are a share of the requested ones."""

            def fit(self, columns: Any, times: Any) -> None:
                self.share = times.sum() / columns[:, 0].sum()

            def predict(self, columns: Any) -> Any:
                return self.share * columns[:, 0]

        jobs = [Job(n, 10.0 * n, 1, 4.0 + n, 0.5 * (4 + n), n) for n in range(30)]
        model = Proportional()
        result = simulate(BatchCluster(jobs, 1, predictor=Fitted(model, every=10)), create("fcfs"))
        assert result.jobs["predicted_time"].to_list()[10:] == [0.5 * (4 + n) for n in range(10, 30)]
        assert not hasattr(model, "share")
        assert result.info["predictor"] == "fitted:Proportional"

    def test_what_descriptions_say(self) -> None:
        jobs = [Job(1, 0.0, 1, 1.0, 1.0)]
        plain, oracle = (BatchCluster(jobs, 1, predictor=one).describe() for one in ("request", "oracle"))
        assert "predictor" not in plain and "foresight" not in plain
        assert oracle["predictor"] == "oracle" and oracle["foresight"] is True
        assert BatchCluster(jobs, 1, predictor="user-average:3").describe()["predictor"] == "user-average:3"
        columns = simulate(BatchCluster(jobs, 1), create("fcfs")).jobs.columns
        assert "predicted_time" not in columns

    @pytest.mark.parametrize("wrong", ["orakel", 3.0, None, UserAverage, object()])
    def test_what_is_no_predictor(self, wrong: Any) -> None:
        with pytest.raises(InvalidConfiguration, match="predictor: got"):
            as_predictor(wrong)

    @pytest.mark.parametrize("wrong", [float("nan"), -1.0, float("inf"), None, "9", True])
    def test_bad_predictions(self, wrong: Any) -> None:
        cluster = BatchCluster([Job(17, 0.0, 1, 9.0, 4.0)], 1, predictor=Told({17: wrong}))
        with pytest.raises(InvalidConfiguration, match="predictor request: predict of job 17: got"):
            simulate(cluster, create("fcfs"))

    @pytest.mark.parametrize("wrong", [float("nan"), 1.0, 2.0, None])
    def test_bad_corrections(self, wrong: Any) -> None:
        class Wrong(Told):
            name = "wrong"

            def correct(self, job: Job, elapsed: float) -> Any:
                return wrong

        cluster = BatchCluster([Job(17, 0.0, 1, 9.0, 4.0)], 1, predictor=Wrong({17: 2.0}))
        with pytest.raises(InvalidConfiguration, match="predictor wrong: correct of job 17: got"):
            simulate(cluster, create("fcfs"))


def workload(rng: Random, count: int = 30) -> list[Job]:
    time, jobs = 0.0, []
    for job_id in range(count):
        time += rng.choice((0.0, 1.0, 5.0, 40.0))
        requested = float(rng.randint(1, 300))
        ran = rng.choice((requested, rng.uniform(0.0, requested), 0.0, 3 * requested))
        jobs.append(Job(job_id, time, rng.randint(1, 8), requested, float(ran), rng.randint(-1, 3)))
    return jobs


AGENTS = ("easy", "easy-specific-sjf-expected", "easy-fcfs+sjf-expected", "conservative", "conservative-specific-lcfs")
PREDICTORS = ("user-average", "user-average:1", "oracle", Told({n: float(n) for n in range(0, 30, 2)}))


@given(
    seed=st.integers(0, 10**6),
    agent=st.sampled_from((*AGENTS, "backfilling-f3-expected", "easy-moldable", "rollout:easy")),
    predictor=st.sampled_from(PREDICTORS),
    enforced=st.booleans(),
    reserved=st.booleans(),
    nodes=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_every_run_is_valid_and_repeatable(
    seed: int, agent: str, predictor: Any, enforced: bool, reserved: bool, nodes: bool
) -> None:
    jobs = workload(Random(seed), 12 if agent.startswith("rollout") else 30)
    nodes = nodes and not {"specific", "moldable"} & {*agent.split("-")}
    where: dict[str, Any] = {"nodes": [Node(f"n{n}", 4) for n in range(2)]} if nodes else {"num_cores": 8}
    if reserved:
        what: dict[str, Any] = {"nodes": ["n1"]} if nodes else {"cores": 3}
        where["reservations"] = [AdvanceReservation(200.0, 300.0, **what)]
    cluster = BatchCluster(jobs, predictor=predictor, enforce_time_limit=enforced, **where)
    first, second = (simulate(cluster, create(agent)) for _ in range(2))
    validate(first, jobs).raise_if_invalid()
    assert first.jobs.equals(second.jobs)
    table = first.jobs
    assert (table["predicted_time"] <= table["requested_time"]).all()
    if reserved and enforced and agent in AGENTS and "specific" not in agent:
        assert (table["attempts"] == 1).all()  # nothing runs into a reservation
    if predictor == "oracle" and enforced:
        assert (table["corrections"] == 0).all()


@pytest.mark.parametrize("agent", [*AGENTS, "backfilling", "fcfs", "easy-sjf-expected", "preemptive-easy"])
@pytest.mark.parametrize("place", ["cores", "nodes"])
def test_an_oracle_plans_as_if_requests_were_exact(agent: str, place: str) -> None:
    if place == "nodes" and "specific" in agent:
        pytest.skip("particular cores are no nodes")
    where: dict[str, Any] = {"num_cores": 8} if place == "cores" else {"nodes": [Node("n1", 8)]}
    for seed in range(5):
        jobs = [job._replace(run_time=min(job.run_time, job.requested_time)) for job in workload(Random(seed))]
        exact = [job._replace(requested_time=job.run_time) for job in jobs]
        known = simulate(BatchCluster(jobs, predictor="oracle", **where), create(agent))
        assert starts(known) == starts(simulate(BatchCluster(exact, **where), create(agent)))


@pytest.mark.parametrize("agent", AGENTS)
def test_predicting_requests_changes_nothing(agent: str) -> None:
    class Same(Request):
        """Not the default, so that everything about predictions runs."""

    class Named(Same):
        name = "same"

    jobs = workload(Random(3))
    for enforced in (True, False):
        plain = simulate(BatchCluster(jobs, 8, enforce_time_limit=enforced), create(agent))
        same = simulate(BatchCluster(jobs, 8, enforce_time_limit=enforced, predictor=Named()), create(agent))
        assert same.jobs.select(plain.jobs.columns).equals(plain.jobs)
        assert same.info["predictor"] == "same"


BROUGHT = {
    "easy++": ("easy-fcfs+sjf-expected", "user-average"),
    "easy-fcfs@oracle": ("easy-fcfs", "oracle"),
    "conservative-sjf@user-average:1": ("conservative-sjf", "user-average:1"),
    "preemptive-easy++": ("preemptive-easy-fcfs+sjf-expected", "user-average"),
}


class TestAgentsThatBringPredictors:
    @pytest.mark.parametrize("name", BROUGHT)
    def test_their_runs_are_those_of_a_cluster_with_this_predictor(self, name: str) -> None:
        jobs, (base, predictor) = workload(Random(4)), BROUGHT[name]
        with_agent, with_cluster = simulate(BatchCluster(jobs, 8), name), BatchCluster(jobs, 8, predictor=predictor)
        assert with_agent.jobs.equals(simulate(with_cluster, base).jobs)
        assert with_agent.info["predictor"] == predictor
        assert with_agent.info["agent"] == name == create(name).name  # type: ignore[attr-defined]
        assert simulate(with_cluster, name).jobs.equals(with_agent.jobs)

    def test_the_compiled_engine_takes_them(self) -> None:
        pytest.importorskip("numba")
        cluster = BatchCluster(workload(Random(5)), 8)
        slow, fast = (simulate(cluster, "easy++", engine=engine) for engine in ("simpy", "compiled"))
        assert fast.jobs.equals(slow.jobs) and fast.info["engine"] == "compiled"

    def test_one_predictor_only(self) -> None:
        cluster = BatchCluster(HOLE, 4, predictor="oracle")
        with pytest.raises(InvalidConfiguration, match=r"got 'oracle', but agent easy\+\+ brings 'user-average'"):
            simulate(cluster, "easy++")
        with pytest.raises(InvalidConfiguration, match="predictor: got 'odd'"):
            create("easy-fcfs@odd")
        own = EASYBackfilling("fcfs", predictor=Told({1: 30.0}))
        assert starts(simulate(BatchCluster(HOLE, 4), own)) == {1: 0.0, 2: 60.0, 3: 110.0}


class TestForks:
    def test_forks_without_foresight_run_jobs_for_what_is_expected(self) -> None:
        jobs = [Job(1, 0.0, 1, 100.0, 60.0), Job(2, 0.0, 1, 50.0, 7.0)]
        simulation = Simulation(BatchCluster(jobs, 1, predictor=Told({1: 30.0, 2: 20.0})))
        decision = simulation.advance()
        assert decision is not None
        decision.answer([0])
        assert simulation.advance() is not None  # at 30, corrected to 61
        fork = simulation.fork(foresight=False)
        assert not fork.replayed
        decision = fork.advance()
        assert decision is not None
        decision.answer(None)
        decision = fork.advance()
        assert decision is not None and decision.observation.time == 61.0
        decision.answer([1])
        assert fork.advance() is None
        assert fork.finish().jobs["finish_time"].to_list() == [61.0, 81.0]

    @pytest.mark.parametrize("predictor", PREDICTORS)
    def test_a_fork_goes_on_as_the_run_does(self, predictor: Any) -> None:
        jobs, agent = workload(Random(8)), EASYBackfilling("fcfs", backfill="sjf-expected")
        simulation = Simulation(BatchCluster(jobs, 8, predictor=predictor))
        for _ in range(15):
            decision = simulation.advance()
            assert decision is not None
            decision.answer(agent.act(decision.observation))
        fork = simulation.fork()
        tables = []
        for one in (fork, simulation):
            while (decision := one.advance()) is not None:
                decision.answer(agent.act(decision.observation))
            tables.append(one.finish().jobs)
        assert tables[0].equals(tables[1])

    def test_copies_of_predictors_learn_apart(self) -> None:
        one = UserAverage()
        other = deepcopy(one)
        for _ in range(2):
            other.learn(Job(1, 0.0, 1, 9.0, 9.0, 4), 3.0, "completed")
        job = Job(2, 0.0, 1, 9.0, 9.0, 4)
        assert (one.predict(job), other.predict(job)) == (9.0, 3.0)
        assert Oracle().predict(job) == 9.0


class TestHooks:
    def test_hooks_are_called_in_the_order_of_events_before_the_decision(self) -> None:
        told: list[Any] = []

        class Hearing:
            def act(self, seen: Any) -> Any:
                told.append(("act", seen.time))
                return int(seen.queue.row[0]) if seen.free_cores else None

            def on_submit(self, job: Job) -> None:
                told.append(("submit", job.job_id, job.run_time))

            def on_start(self, execution: Any) -> None:
                told.append(("start", execution.job.job_id, execution.ran))

            def on_end(self, execution: Any, outcome: str) -> None:
                told.append(("end", execution.job.job_id, execution.job.run_time, execution.ran, outcome))

        jobs = [Job(1, 0.0, 1, 9.0, 5.0), Job(2, 5.0, 1, 3.0, 4.0)]
        simulate(BatchCluster(jobs, 1), Hearing())
        assert told == [
            ("submit", 1, 9.0),
            ("act", 0.0),
            ("start", 1, 0.0),
            ("end", 1, 9.0, 5.0, "completed"),
            ("submit", 2, 3.0),
            ("act", 5.0),
            ("start", 2, 0.0),
            ("end", 2, 3.0, 3.0, "killed"),
        ]

    @pytest.mark.parametrize("wrapper", ["", "preemptive-", "rollout:"])
    def test_a_policy_that_learns_from_ends(self, wrapper: str) -> None:
        """The first job of a user tells how long the next ones take."""

        class Learning(Priority):
            name = "learning"

            def __init__(self) -> None:
                self.ran: dict[int, float] = {}

            def on_end(self, execution: Any, outcome: str) -> None:
                self.ran[execution.job.user_id] = execution.ran

            def scores(self, queue: Any, time: float) -> Any:
                return np.array([self.ran.get(user, 0.0) for user in queue.user_id.tolist()])

        jobs = [Job(1, 0.0, 1, 99.0, 50.0, 1), Job(2, 0.0, 1, 99.0, 5.0, 2)]
        jobs += [Job(3, 60.0, 1, 99.0, 50.0, 1), Job(4, 60.0, 1, 99.0, 5.0, 2)]
        learning = Learning()
        agent: Any = learning
        if wrapper == "preemptive-":
            agent = PreemptiveAgent(learning)
        elif wrapper:
            agent = RolloutAgent(learning)
        result = simulate(BatchCluster(jobs, 1), agent)
        assert learning.ran == {1: 50.0, 2: 5.0}
        if not wrapper.startswith("rollout"):
            assert starts(result)[4] < starts(result)[3]

    def test_interruptions_are_ends(self) -> None:
        told: list[Any] = []

        class Hearing(EASYBackfilling):
            def on_end(self, execution: Any, outcome: str) -> None:
                told.append((execution.ran, outcome))

        outage = planned_outages([Outage(3.0, 4.0, cores=[0])])
        simulate(BatchCluster([Job(1, 0.0, 1, 9.0, 5.0)], 1, processes=[outage]), Hearing())
        assert told == [(3.0, "requeued"), (5.0, "completed")]
