"""Planning anew in every slot: as good as the optimum where all is known, and careful where it is not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from deferrable_exhaustive import random_case
from numpy.typing import NDArray

from desim import simulate
from desim.agents.deferrable import FIFO
from desim.agents.deferrable.forecasts import Oracle, Persistence, Seasonal
from desim.agents.deferrable.optimum import offline_optimum
from desim.agents.deferrable.rolling_horizon import RollingHorizon
from desim.exceptions import InvalidConfiguration
from desim.problems.deferrable import DeferrableCluster, DeferrableObservation, Job, clairvoyant_view
from desim.result import Result
from desim.validation import validate


def job(number: int, submission: float, earliest: int, latest: int, duration: int, *amounts: float) -> Job:
    return Job(number, submission, earliest, latest, duration, amounts[0], tuple(amounts[1:]))


def reward_of(result: Result) -> float:
    return float(result.table("slots")["reward"].sum())


def starts_of(cluster: DeferrableCluster, agent: Any) -> dict[int, float | None]:
    jobs = simulate(cluster, agent).jobs
    return dict(zip(jobs["job_id"], jobs["starting_time"], strict=True))


class Recorder:
    """A forecast that remembers what it was asked."""

    def __init__(self, answer: Any = None) -> None:
        self.steps: list[tuple[int, int]] = []
        self._answer = answer

    def predict(self, observation: DeferrableObservation, steps: int) -> NDArray[np.float64]:
        self.steps.append((observation.slot, steps))
        if self._answer is not None:
            return self._answer(steps)  # type: ignore[no-any-return]
        return Persistence().predict(observation, steps)


@pytest.mark.parametrize("overcommit", [True, False])
def test_it_is_the_optimum_if_all_is_known(overcommit: bool) -> None:
    solved, delayed = 0, 0
    for seed in range(24):
        case = random_case(seed, max_jobs=12, max_slots=10, slack=4)
        known = tuple(one._replace(submission_time=0.0) for one in case.jobs)
        case = case._replace(jobs=known)
        cluster = case.cluster(overcommit=overcommit)
        optimum = offline_optimum(case.foresight(), overcommit=overcommit, **case.weights())
        agent = RollingHorizon(Oracle(case.capacity), overcommit=overcommit, gap=0.0)
        result = simulate(cluster, agent)
        assert reward_of(result) == pytest.approx(optimum.value, rel=1e-6, abs=1e-6), seed
        assert validate(result, case.jobs).ok
        solved += agent.num_solved
        delayed += (result.jobs["delay"] > 0).sum()
    assert solved > 25
    assert delayed > 2


def test_a_plan_that_is_followed_to_the_end_brings_the_same() -> None:
    for seed in range(24):
        case = random_case(seed, max_jobs=12, max_slots=10, slack=4)
        case = case._replace(jobs=tuple(one._replace(submission_time=0.0, earliest_start=0) for one in case.jobs))
        optimum = offline_optimum(case.foresight(), overcommit=False, **case.weights())
        agent = RollingHorizon(Oracle(case.capacity), every=100, gap=0.0)
        assert reward_of(simulate(case.cluster(overcommit=False), agent)) == pytest.approx(optimum.value, abs=1e-6)
        assert agent.num_solved <= 1


class TestByHand:
    def test_a_job_waits_for_one_that_is_to_come(self) -> None:
        jobs = [job(1, 0, 0, 3, 6, 2), job(2, 0, 1, 1, 2, 4)]
        cluster = DeferrableCluster(jobs, [4], num_slots=6)
        assert starts_of(cluster, RollingHorizon()) == {1: 3, 2: 1}
        assert starts_of(cluster, RollingHorizon(horizon=1)) == {1: 0, 2: None}
        assert starts_of(cluster, FIFO()) == {1: 0, 2: None}
        unknown = [jobs[0], jobs[1]._replace(submission_time=1)]
        assert starts_of(DeferrableCluster(unknown, [4], num_slots=6), RollingHorizon()) == {1: 0, 2: None}

    def test_how_far_it_looks(self) -> None:
        jobs = [job(1, 0, 0, 6, 6, 2), job(2, 0, 3, 3, 8, 4)]
        cluster = DeferrableCluster(jobs, [4], num_slots=40, delay_weight=0.1)
        # the first job, if it waits, can begin after the second only: in slot 11, after its window
        for horizon, starts in ((3, {1: 0, 2: None}), (4, {1: None, 2: 3}), (None, {1: None, 2: 3})):
            assert starts_of(cluster, RollingHorizon(horizon=horizon)) == starts

    def test_the_largest_revenue_that_fits(self) -> None:
        sizes = [5, 4, 3, 3]
        jobs = [job(number, 0, 0, 0, 2, size) for number, size in enumerate(sizes)]
        assert starts_of(DeferrableCluster(jobs, [10], num_slots=4), RollingHorizon()) == {0: None, 1: 0, 2: 0, 3: 0}

    @pytest.mark.parametrize(("forecast", "start"), [(None, 0), (Persistence(), 0), (Oracle([3, 0, 0, 3, 3]), 3)])
    def test_a_capacity_that_will_fall(self, forecast: Any, start: int) -> None:
        cluster = DeferrableCluster([job(1, 0, 0, 3, 3, 3)], [3, 0, 0, 3, 3], num_slots=5)
        assert starts_of(cluster, RollingHorizon(forecast)) == {1: start}

    def test_a_margin_is_kept_free_later_but_not_now(self) -> None:
        jobs = [job(1, 0, 0, 0, 1, 10), job(2, 1, 1, 1, 4, 9), job(3, 5, 5, 5, 4, 9.1)]
        cluster = DeferrableCluster(jobs, [10], num_slots=9)
        assert starts_of(cluster, RollingHorizon(margin=0.1)) == {1: 0, 2: 1, 3: 5}  # 0.3 of violation is cheap
        costly = DeferrableCluster(jobs, [10], num_slots=9, violation_weight=1000)
        assert starts_of(costly, RollingHorizon(margin=0.1)) == {1: 0, 2: 1, 3: None}
        assert starts_of(costly, RollingHorizon(margin=1)) == {1: 0, 2: None, 3: None}
        assert starts_of(costly, RollingHorizon(margin=1, horizon=1)) == {1: 0, 2: 1, 3: 5}

    def test_to_overcommit_if_that_pays(self) -> None:
        jobs = [job(1, 0, 0, 0, 20, 4)]  # 10 for a unit of violation in slot 0 only
        cluster = DeferrableCluster(jobs, [3, 9], num_slots=20)
        rising = Oracle([3, 9])
        assert starts_of(cluster, RollingHorizon(rising, overcommit=True)) == {1: 0}
        assert starts_of(cluster, RollingHorizon(rising)) == {1: None}
        assert starts_of(cluster, RollingHorizon(overcommit=True)) == {1: None}  # 20 units, as far as it knows

    def test_what_has_waited_too_long_is_not_worth_it(self) -> None:
        jobs = [job(1, 0, 0, 9, 1, 3), job(2, 0, 0, 0, 4, 3)]
        assert starts_of(DeferrableCluster(jobs, [3], num_slots=12), RollingHorizon()) == {1: None, 2: 0}
        cheap = DeferrableCluster(jobs, [3], num_slots=12, delay_weight=0.5)
        assert starts_of(cheap, RollingHorizon()) == {1: 4, 2: 0}

    def test_of_jobs_that_are_equal_now_the_one_that_has_waited_less(self) -> None:
        jobs = [job(1, 0, 0, 1, 2, 3), job(2, 0, 1, 1, 2, 3)]
        assert starts_of(DeferrableCluster(jobs, [2, 3], num_slots=4), RollingHorizon()) == {1: None, 2: 1}

    def test_the_end_of_the_run_ends_the_violations(self) -> None:
        # the forecast of slot 2 and later does not matter
        cluster = DeferrableCluster([job(1, 0, 0, 0, 9, 3)], [3, 3], num_slots=2)
        assert starts_of(cluster, RollingHorizon(Oracle([3, 3, 0]))) == {1: 0}
        longer = DeferrableCluster([job(1, 0, 0, 0, 9, 3)], [3, 3, 0], num_slots=9)
        assert starts_of(longer, RollingHorizon(Oracle([3, 3, 0]))) == {1: None}


class TestBetweenPlans:
    def test_new_jobs_fill_what_the_plan_leaves(self) -> None:
        jobs = [
            job(1, 0, 0, 4, 2, 3),
            job(2, 0, 1, 4, 2, 2),  # planned for slot 1 beside what runs
            job(3, 1, 1, 1, 1, 1),
            job(4, 1, 1, 1, 2, 3),
            job(5, 2, 2, 2, 9, 5),
        ]
        cluster = DeferrableCluster(jobs, [6, 8, 6], num_slots=9)
        agent = RollingHorizon(every=3)
        # in slot 1 three cores are left beside the plan: for job 4, which brings more than job 3
        assert starts_of(cluster, agent) == {1: 0, 2: 1, 3: None, 4: 1, 5: None}

    def test_what_no_longer_fits_is_tried_again(self) -> None:
        jobs = [job(1, 0, 0, 0, 1, 4), job(2, 0, 0, 9, 1, 4)]
        cluster = DeferrableCluster(jobs, [4, 2, 2, 4], num_slots=9, overcommit=False, delay_weight=0)
        assert starts_of(cluster, RollingHorizon(every=9)) == {1: 0, 2: 3}

    def test_fewer_plans(self) -> None:
        rng = np.random.default_rng(0)
        jobs = [job(n, n // 3, n // 3, n // 3 + 4, int(rng.integers(1, 6)), int(rng.integers(1, 6))) for n in range(90)]
        agents = [RollingHorizon(every=every) for every in (1, 5)]
        results = [simulate(DeferrableCluster(jobs, [14], num_slots=40, overcommit=False), agent) for agent in agents]
        assert agents[1].num_solved <= 8 < agents[0].num_solved
        assert reward_of(results[1]) > 0.8 * reward_of(results[0])


class TestEffort:
    def test_nothing_is_solved_where_all_fits(self) -> None:
        rng = np.random.default_rng(1)
        jobs = [job(n, n, n + 1, n + 4, int(rng.integers(1, 6)), int(rng.integers(1, 6))) for n in range(40)]
        agent = RollingHorizon()
        result = simulate(DeferrableCluster(jobs, [100], num_slots=60), agent)
        assert agent.num_solved == 0
        assert (result.jobs["delay"] == 0).all()
        agent = RollingHorizon()
        simulate(DeferrableCluster(jobs, [9], num_slots=60), agent)
        assert agent.num_solved > 0

    def test_how_many_slots_are_forecast(self) -> None:
        jobs = [job(1, 0, 0, 3, 5, 2), job(2, 2, 2, 2, 1, 1)]
        for options, num_slots, asked in (
            ({}, None, [(0, 7), (2, 0)]),
            ({}, 6, [(0, 5), (2, 0)]),
            ({"horizon": 4}, None, [(0, 3), (2, 0)]),
            ({"horizon": 1}, None, [(0, 0), (2, 0)]),
        ):
            forecast = Recorder()
            simulate(DeferrableCluster(jobs, [9], num_slots=num_slots), RollingHorizon(forecast, **options))  # type: ignore[arg-type]
            assert forecast.steps == asked

    def test_a_new_run_begins_anew(self) -> None:
        jobs = [job(1, 0, 0, 4, 2, 3), job(2, 0, 0, 4, 2, 3)]
        agent = RollingHorizon(every=4)
        for _ in range(2):
            assert starts_of(DeferrableCluster(jobs, [3], num_slots=9), agent) == {1: 0, 2: 2}
            assert agent.num_solved == 1


class TestCare:
    @pytest.mark.parametrize(
        "agent",
        [
            RollingHorizon(),
            RollingHorizon(every=3),
            RollingHorizon(Seasonal(4, carry=0.5), horizon=5),
            RollingHorizon(Seasonal(3), margin=0.2, every=2),
        ],
    )
    def test_it_starts_only_what_fits(self, agent: RollingHorizon) -> None:
        for seed in range(5):
            case = random_case(seed, max_jobs=30, max_slots=16, slack=4)
            for eviction in ("never", "restarted"):
                result = simulate(
                    case.cluster(overcommit=False, eviction=eviction), agent
                )  # an answer that does not fit would raise
                assert validate(result, case.jobs).ok
                bound = offline_optimum(case.foresight(), overcommit=False, **case.weights()).bound
                assert reward_of(result) <= bound + 1e-6 * max(bound, 1)

    def test_jobs_of_one_slot_without_slack_are_packed_at_best(self) -> None:
        rng = np.random.default_rng(2)
        jobs = [job(n, n // 8, n // 8, n // 8, 1, *rng.integers(1, 9, 2).tolist()) for n in range(120)]
        cluster = DeferrableCluster(jobs, rng.integers(5, 25, (15, 2)), num_slots=15, resources=("cores", "memory"))
        best = offline_optimum(clairvoyant_view(cluster))
        assert reward_of(simulate(cluster, RollingHorizon(gap=0.0))) == best.value
        assert reward_of(simulate(cluster, FIFO())) < best.value

    def test_delays_that_cost_nothing_are_avoided_as_well(self) -> None:
        jobs = [job(1, 0, 0, 9, 2, 3), job(2, 0, 1, 9, 2, 3), job(3, 0, 1, 9, 1, 3), job(4, 0, 1, 1, 1, 3)]
        cluster = DeferrableCluster(jobs, [6], num_slots=20, delay_weight=0)
        starts = starts_of(cluster, RollingHorizon())
        assert starts[1] == 0
        assert starts[4] == 1
        assert sorted(starts.values()) == [0, 1, 2, 2]  # type: ignore[type-var]

    def test_it_answers_the_same_again(self) -> None:
        for seed in range(8):
            case = random_case(seed, max_jobs=40, max_slots=20, slack=4)
            tables = [simulate(case.cluster(), RollingHorizon()).jobs for _ in range(2)]
            assert tables[0].equals(tables[1])

    def test_a_search_that_is_cut_short_still_starts_what_fits(self) -> None:
        rng = np.random.default_rng(3)
        jobs = [job(n, 0, 0, 9, int(rng.integers(1, 9)), *rng.uniform(1, 9, 2)) for n in range(60)]
        cluster = DeferrableCluster(
            jobs, rng.uniform(20, 30, (20, 2)), num_slots=20, resources=("cores", "memory"), overcommit=False
        )
        result = simulate(cluster, RollingHorizon(time_limit=1e-9))
        assert validate(result, jobs).ok
        assert reward_of(result) > 0.8 * reward_of(simulate(cluster, FIFO()))

    def test_forecasts_below_nothing_are_nothing(self) -> None:
        cluster = DeferrableCluster([job(1, 0, 0, 3, 2, 3), job(2, 0, 0, 0, 1, 1)], [3], num_slots=9)
        pessimist = Recorder(lambda steps: np.full((steps, 1), -5.0))
        assert starts_of(cluster, RollingHorizon(pessimist)) == {1: None, 2: 0}


class TestRefusals:
    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"horizon": 0}, "horizon: got 0, expected an integer >= 1"),
            ({"horizon": 2.0}, "horizon: got 2.0"),
            ({"every": 0}, "every: got 0, expected an integer >= 1"),
            ({"every": True}, "every: got True"),
            ({"margin": -0.1}, "margin: got -0.1, expected a finite number from 0 to 1"),
            ({"margin": np.nan}, "margin: got nan"),
            ({"time_limit": 0}, "time_limit: got 0, expected a number > 0"),
            ({"gap": -1}, "gap: got -1, expected a finite number >= 0"),
        ],
    )
    def test_arguments(self, options: dict[str, Any], message: str) -> None:
        with pytest.raises(InvalidConfiguration, match=message):
            RollingHorizon(**options)

    def test_a_cluster_that_does_not_allow_it(self) -> None:
        cluster = DeferrableCluster([job(1, 0, 0, 0, 1, 1)], [1], num_slots=2, overcommit=False)
        with pytest.raises(
            InvalidConfiguration, match="overcommit: got True for the agent, expected False as for the cluster"
        ):
            simulate(cluster, RollingHorizon(overcommit=True))

    @pytest.mark.parametrize(
        ("answer", "message"),
        [
            (np.ones, r"got an array of shape \(2,\), expected \(2, 1\)"),
            (lambda steps: np.full((steps, 1), np.nan), "got NaN or infinity, expected finite numbers"),
        ],
    )
    def test_forecasts(self, answer: Any, message: str) -> None:
        cluster = DeferrableCluster([job(1, 0, 0, 0, 3, 1)], [1], num_slots=5)
        with pytest.raises(InvalidConfiguration, match=f"slot 0: forecast: {message}"):
            simulate(cluster, RollingHorizon(Recorder(answer)))
