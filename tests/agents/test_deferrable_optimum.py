"""The offline optimum of deferrable jobs is that of trying all schedules, and its bound holds for every agent."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import highspy
import numpy as np
import pytest
from deferrable_exhaustive import Case, best_value, fits, random_case, value_of
from deferrable_slow_reinsertion import slowly_improved
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csc_array

from desim import simulate
from desim.agents.deferrable import FIFO, SJF, LargestRevenue, LeastSlack, RandomOrder, optimum
from desim.agents.deferrable import program as options_module
from desim.agents.deferrable import solver as solver_module
from desim.agents.deferrable.optimum import Optimum, Planned, offline_optimum
from desim.agents.deferrable.program import Model, PlanningInstance, Solution, solve
from desim.agents.deferrable.reinsertion import improved
from desim.agents.deferrable.solver import Answer, Program, maximize
from desim.exceptions import InvalidConfiguration, MissingDependency, WorkloadError
from desim.problems.deferrable import ClairvoyantView, DeferrableCluster, DeferrableObservation, Job, clairvoyant_view
from desim.validation import validate


def job(number: int, submission: float, earliest: int, latest: int, duration: int, *amounts: float) -> Job:
    return Job(number, submission, earliest, latest, duration, amounts[0], tuple(amounts[1:]))


def reward_of(cluster: DeferrableCluster, agent: Any, *, seed: int = 0) -> float:
    result = simulate(cluster, agent, seed=seed)
    return float(result.table("slots")["reward"].sum())


def program_of(case: Case, *, overcommit: bool = True) -> PlanningInstance:
    jobs = [job for job in case.jobs if job.earliest_start < len(case.capacity)]
    return optimum.instance_of(jobs, case.capacity, case.cluster(), overcommit)


class Anything:
    """Starts jobs at random, however full it is."""

    def __init__(self, seed: int, share: float) -> None:
        self._rng = np.random.default_rng(seed)
        self._share = share

    def act(self, observation: DeferrableObservation) -> list[int]:
        chosen = self._rng.random(len(observation.current)) < self._share
        return self._rng.permutation(np.flatnonzero(chosen)).tolist()  # type: ignore[no-any-return]


class TestByHand:
    def test_a_job_waits_for_a_better_one(self) -> None:
        jobs = [job(1, 0, 0, 3, 6, 2), job(2, 1, 1, 1, 2, 4)]
        best = offline_optimum(ClairvoyantView(tuple(jobs), np.full((6, 1), 4.0)))
        assert best.starts == (3, 1)
        assert best.value == best.bound == 12 - 2 * 3 + 8
        assert best.proved
        assert best.gap == best.relative_gap == 0
        # waiting costs 2 a slot: with 4 of them it is not worth while
        assert offline_optimum(ClairvoyantView(tuple(jobs), np.full((6, 1), 4.0)), delay_weight=2.7).starts == (0, None)

    @pytest.mark.parametrize(("duration", "start"), [(8, None), (10, None), (11, 0)])
    def test_a_violation_that_pays(self, duration: int, start: int | None) -> None:
        # 3 cores on a capacity of 3 that is 0 in slot 1 only: a violation of 3 for a revenue of 3 x duration
        capacity = np.full((20, 1), 3.0)
        capacity[1] = 0
        foresight = ClairvoyantView((job(1, 0, 0, 0, duration, 3),), capacity)
        best = offline_optimum(foresight)
        assert best.starts == (start,)
        assert best.value == (0 if start is None else 3 * duration - 30)
        assert offline_optimum(foresight, overcommit=False).value == best.value

    def test_without_overcommit_a_job_must_fit_when_it_is_started(self) -> None:
        capacity = np.array([[2.0], [9.0], [9.0], [9.0]])
        foresight = ClairvoyantView((job(1, 0, 0, 1, 30, 3),), capacity)
        assert offline_optimum(foresight, delay_weight=20).starts == (0,)  # 90 - 10, rather than 90 - 20
        strict = offline_optimum(foresight, delay_weight=20, overcommit=False)
        assert (strict.starts, strict.value) == ((1,), 70)

    def test_a_violation_of_one_resource_bars_those_only_that_need_it(self) -> None:
        capacity = np.array([[11.0, 4.0], [11.0, 1.0], [11.0, 1.0]])
        first = job(1, 0, 0, 0, 60, 1, 4)  # a violation of 3 in two slots
        jobs = (first, job(2, 0, 1, 1, 1, 5, 0), job(3, 0, 1, 1, 1, 5, 0.5))
        best = offline_optimum(ClairvoyantView(jobs, capacity), violation_weight=[10, 1], overcommit=False)
        assert best.starts == (0, 1, None)
        assert best.value == 60 - 6 + 5
        assert offline_optimum(ClairvoyantView(jobs, capacity), violation_weight=[10, 1]).starts == (0, 1, 1)

    def test_equal_jobs_where_the_capacity_has_fallen(self) -> None:
        jobs = (job(9, 0, 0, 0, 2, 1), *(job(number, 0, 1, 1, 1, 3) for number in range(3)))
        best = offline_optimum(ClairvoyantView(jobs, np.array([[9.0], [7.0]])), overcommit=False)
        assert sorted(start is not None for start in best.starts[1:]) == [False, True, True]
        assert best.value == best.bound == 2 + 6
        instance = program_of(Case(jobs, np.array([[9.0], [7.0]]), 2.0, (10.0,)), overcommit=False)
        assert solve(instance, time_limit=60, gap=0).bound == 2 + 6

    def test_violations_after_the_last_slot_do_not_count(self) -> None:
        foresight = ClairvoyantView((job(1, 0, 1, 1, 50, 2),), np.array([[5.0], [2.0]]))
        assert offline_optimum(foresight).value == 100

    def test_a_capacity_that_is_no_whole_number(self) -> None:
        # the third core is 0.4 above the capacity of 2.6, the fourth 1.4
        jobs = tuple(job(number, 0, 0, 0, 7, 1) for number in range(5))
        best = offline_optimum(ClairvoyantView(jobs, np.full((7, 1), 2.6)), violation_weight=2)
        assert sum(start is not None for start in best.starts) == 3
        assert best.value == pytest.approx(21 - 2 * 7 * 0.4)
        assert best.bound == pytest.approx(best.value)

    def test_nothing_to_do(self) -> None:
        for jobs in ((), (job(1, 0, 0, 2, 1, 2),), (job(1, 0, 9, 9, 1, 1),)):
            best = offline_optimum(ClairvoyantView(jobs, np.ones((3, 1))))
            assert (best.starts, best.value, best.bound, best.proved) == ((None,) * len(jobs), 0, 0, True)
        late = (job(1, 0, 9, 9, 1, 1), job(2, 0, 2, 9, 1, 1))
        assert offline_optimum(ClairvoyantView(late, np.ones((3, 1)))).starts == (None, 2)

    def test_a_capacity_without_an_axis_of_resources(self) -> None:
        assert offline_optimum(ClairvoyantView((job(1, 0, 0, 0, 1, 2),), np.array([2.0]))).value == 2


@pytest.mark.parametrize("overcommit", [True, False])
def test_it_is_the_best_of_all_schedules(overcommit: bool) -> None:
    differs = 0
    for seed in range(200):
        case = random_case(seed, max_jobs=4 + seed % 16 // 12)
        best = best_value(case, overcommit=overcommit)
        optimum = offline_optimum(ClairvoyantView(case.jobs, case.capacity), overcommit=overcommit, **case.weights())
        assert optimum.value == pytest.approx(best, rel=1e-9, abs=1e-9), seed
        assert optimum.value == pytest.approx(value_of(case, optimum.starts), rel=1e-9, abs=1e-9), seed
        assert optimum.bound == pytest.approx(best, rel=1e-6, abs=1e-6), seed
        assert optimum.bound >= optimum.value, seed
        assert optimum.proved
        assert overcommit or fits(case, optimum.starts), seed
        differs += best != best_value(case, overcommit=True) if not overcommit else bool(best > 0)
    assert differs > 20


@pytest.mark.parametrize("overcommit", [True, False])
def test_it_is_the_best_beside_what_runs(overcommit: bool) -> None:
    over = 0
    for seed in range(120):
        case = random_case(seed, max_jobs=4, max_slots=6)
        rng = np.random.default_rng(seed)
        # what runs ends sooner or later, and is more than the capacity now and then
        held = np.cumsum(rng.integers(0, 4, case.capacity.shape), axis=0)[::-1].astype(np.float64)
        held *= rng.choice([1, 0.5]) * rng.integers(0, 2, held.shape[1])
        jobs = tuple(one for one in case.jobs if one.earliest_start < len(held))
        case = case._replace(held=held, jobs=jobs)
        instance = program_of(case, overcommit=overcommit)._replace(held=held)
        solution = solve(instance, time_limit=60, gap=0)
        assert solution.starts is not None
        starts = tuple(start if start >= 0 else None for start in solution.starts.tolist())
        best = best_value(case, overcommit=overcommit)
        assert value_of(case, starts) == pytest.approx(best, rel=1e-9, abs=1e-9), seed
        assert solution.bound == pytest.approx(best, rel=1e-6, abs=1e-6), seed
        assert overcommit or fits(case, starts), seed
        over += (held > case.capacity).any() and any(start is not None for start in starts)
    assert over > 10


@pytest.mark.parametrize("overcommit", [True, False])
def test_a_replay_brings_the_value(overcommit: bool) -> None:
    violations = 0.0
    for seed in range(16):
        case = random_case(seed, max_jobs=25, max_slots=20, slack=4)
        cluster = case.cluster(overcommit=overcommit)
        foresight = clairvoyant_view(cluster)
        optimum = offline_optimum(foresight, overcommit=overcommit, **case.weights())
        result = simulate(cluster, Planned(optimum.jobs, optimum.starts))
        assert result.table("slots")["reward"].sum() == pytest.approx(optimum.value, rel=1e-12, abs=1e-9), seed
        assert result.metrics()["total_reward"] == pytest.approx(optimum.value, rel=1e-12, abs=1e-9), seed
        assert validate(result, case.jobs).ok, seed
        started = result.jobs.drop_nulls("starting_time")
        planned = {job.job_id: start for job, start in zip(optimum.jobs, optimum.starts, strict=True)}
        assert {number: start for number, start in planned.items() if start is not None} == dict(
            zip(started["job_id"], started["starting_time"], strict=True)
        )
        violations += result.table("slots")["violation_resource0"].sum()
    assert violations > 0


AGENTS: list[Callable[[int], Any]] = [
    lambda seed: FIFO(),
    lambda seed: SJF(),
    lambda seed: LeastSlack(),
    lambda seed: LargestRevenue(),
    lambda seed: RandomOrder(),
    lambda seed: Anything(seed, 0.3),
    lambda seed: Anything(seed, 0.9),
]


@pytest.mark.parametrize("eviction", ["never", "lost", "restarted"])
def test_no_agent_brings_more_than_the_bound(eviction: str) -> None:
    closest = -np.inf
    for seed in range(24):
        case = random_case(seed, max_jobs=12, max_slots=12, slack=4)
        bounds = {}
        for overcommit in (True, False):
            cluster = case.cluster(overcommit=overcommit)
            bounds[overcommit] = offline_optimum(
                clairvoyant_view(cluster), overcommit=overcommit, **case.weights()
            ).bound
        assert bounds[False] <= bounds[True] + 1e-6
        for number, agent in enumerate(AGENTS):
            overcommit = number >= 5
            cluster = case.cluster(overcommit=overcommit, eviction=eviction)
            reward = reward_of(cluster, agent(seed), seed=seed)
            assert reward <= bounds[overcommit] + 1e-6 * max(bounds[overcommit], 1), (seed, number)
            closest = max(closest, reward - bounds[overcommit])
    assert closest > -1e-6  # some are as good


def test_real_time_runs_have_an_optimum_of_their_own() -> None:
    less = 0
    for seed in range(20):
        case = random_case(seed, max_jobs=20, max_slots=12, slack=4)
        cluster = case.cluster(real_time=True)
        optimum = offline_optimum(clairvoyant_view(cluster), **case.weights())
        assert reward_of(cluster, Planned(optimum.jobs, optimum.starts)) == pytest.approx(optimum.value)
        deferrable = offline_optimum(case.foresight(), **case.weights())
        assert optimum.value <= deferrable.value + 1e-6
        less += optimum.value < deferrable.value - 1e-6
    assert less > 0


class TestBounds:
    def test_the_relaxation_is_no_less(self) -> None:
        above = 0
        for seed in range(60):
            case = random_case(seed, max_jobs=20, max_slots=10)
            for overcommit in (True, False):
                instance = program_of(case, overcommit=overcommit)
                exact = solve(instance, time_limit=60, gap=0)
                relaxed = solve(instance, time_limit=60, gap=0, integral=False)
                assert relaxed.bound >= exact.bound - 1e-6 * max(exact.bound, 1), seed
                above += relaxed.bound > exact.bound + 1e-3
        assert above > 10

    def test_counting_in_whole_numbers_cuts_off_no_schedule(self) -> None:
        # capacities that are no whole numbers are rounded down with a discount, which leaves all values as they are
        for seed in range(3, 60, 4):
            case = random_case(seed, max_jobs=15, max_slots=8)
            instance = program_of(case)
            tilted = instance._replace(requests=instance.requests * (1 + 2**-40))  # no whole numbers
            assert solve(tilted, time_limit=60, gap=0).bound == pytest.approx(
                solve(instance, time_limit=60, gap=0).bound, rel=1e-6, abs=1e-6
            )

    def test_a_gap_that_is_allowed_is_told(self) -> None:
        gaps = 0
        for seed in range(20):
            case = random_case(seed, max_jobs=20, max_slots=10, slack=4)
            exact = offline_optimum(case.foresight(), **case.weights())
            rough = offline_optimum(case.foresight(), gap=0.3, **case.weights())
            assert rough.value <= exact.value + 1e-9
            assert rough.bound >= exact.value - 1e-6
            assert rough.gap == rough.bound - rough.value
            assert rough.relative_gap == (rough.gap / rough.bound if rough.gap > 0 else 0)
            assert rough.proved == (rough.gap <= 1e-6 * max(rough.bound, 1))
            gaps += not rough.proved
        assert gaps > 0

    @pytest.mark.parametrize("time_limit", [1e-9, 0.05])
    def test_a_search_that_is_cut_short_says_how_good_it_is(self, time_limit: float) -> None:
        rng = np.random.default_rng(0)
        jobs = []
        for number in range(600):
            begin, slack, duration = rng.integers([0, 0, 1], [60, 10, 12]).tolist()
            jobs.append(job(number, 0, begin, begin + slack, duration, *rng.uniform(1, 9, 2)))
        foresight = ClairvoyantView(tuple(jobs), rng.uniform(20, 40, (60, 2)))
        optimum = offline_optimum(foresight, time_limit=time_limit)
        assert not optimum.proved
        assert 0 < optimum.value < optimum.bound
        assert 0 < optimum.relative_gap < 1
        case = Case(foresight.jobs, foresight.capacity, 2.0, (10.0, 10.0))
        assert optimum.value == pytest.approx(value_of(case, optimum.starts))
        assert optimum.value == pytest.approx(reward_of(case.cluster(), Planned(optimum.jobs, optimum.starts)))

    @pytest.mark.parametrize("is_found", [False, True])
    def test_a_bound_without_the_solver(self, is_found: bool, monkeypatch: pytest.MonkeyPatch) -> None:
        def no_time(program: Program, **_: Any) -> Answer:
            return Answer(np.zeros(len(program.gain)) if is_found else None, np.inf)

        monkeypatch.setattr(options_module, "maximize", no_time)
        jobs = (job(1, 0, 0, 2, 2, 2), job(2, 0, 1, 1, 2, 3), job(3, 0, 1, 1, 2, 3))
        for capacity, value in ((9.0, 16), (6.0, 12), (4.0, 6)):
            best = offline_optimum(ClairvoyantView(jobs, np.full((4, 1), capacity)))
            assert (best.value, best.bound) == (value, 16)  # of each job what it brings alone

    def test_what_is_found_without_the_solver_if_that_is_better(self, monkeypatch: pytest.MonkeyPatch) -> None:
        foresight = ClairvoyantView((job(1, 0, 0, 0, 2, 2), job(2, 0, 0, 0, 2, 3)), np.full((4, 1), 3.0))
        poor = Solution(np.array([0, -1]), 9.0)  # to which nothing can be added
        for answer in (poor, Solution(None, 9.0)):
            monkeypatch.setattr("desim.agents.deferrable.optimum.solve", lambda *_, answer=answer, **__: answer)
            best = offline_optimum(foresight)
            assert (best.starts, best.value, best.bound, best.proved) == ((None, 0), 6, 9, False)
            assert best.relative_gap == 1 / 3

    def test_equal_jobs_are_counted(self) -> None:
        jobs = [job(number, 0, 1, 5, 2, 3) for number in range(50)]
        jobs += [job(100 + number, 0, 1, 5, 3, 2) for number in range(50)]
        instance = program_of(Case(tuple(jobs), np.full((9, 1), 40.0), 2.0, (10.0,)))
        kinds = options_module.Kinds.of(instance)
        assert sorted(kinds.num_jobs.tolist()) == [50, 50]
        options = options_module.Options.of(instance, kinds, options_module.SlotCapacity.of(instance))
        assert options.number == 3 + 3  # a third slot of delay costs what the job brings, 6
        best = offline_optimum(ClairvoyantView(tuple(jobs), np.full((9, 1), 40.0)))
        assert len(set(best.starts)) > 2

    def test_it_answers_the_same_again(self) -> None:
        case = random_case(1, max_jobs=60, max_slots=20, slack=5)
        answers = [offline_optimum(case.foresight(), **case.weights()) for _ in range(2)]
        assert answers[0].starts == answers[1].starts
        assert answers[0].bound == answers[1].bound


class TestReinsertion:
    @pytest.mark.parametrize("overcommit", [True, False])
    def test_together_jobs_move_as_one_by_one(self, overcommit: bool) -> None:
        moved = 0
        for seed in range(120):
            case = random_case(seed, max_jobs=40, max_slots=12, slack=4)
            case = case._replace(jobs=tuple(job for job in case.jobs if job.earliest_start < len(case.capacity)))
            instance = program_of(case, overcommit=overcommit)
            rng = np.random.default_rng(seed)
            held = rng.integers(0, 4, case.capacity.shape) * rng.choice([0, 1, 1.5])
            instance = instance._replace(held=np.cumsum(held, axis=0)[::-1].astype(np.float64))
            random = np.where(rng.random(instance.num_jobs) < 0.6, rng.integers(instance.first, instance.last + 1), -1)
            for starts in (None, random):
                answer = improved(instance, starts)
                assert answer.tolist() == slowly_improved(instance, starts).tolist(), seed
                moved += starts is not None and (answer != starts).any()
        assert moved > 60

    @pytest.mark.parametrize("overcommit", [True, False])
    def test_a_schedule_becomes_no_worse_and_stays_feasible(self, overcommit: bool) -> None:
        better = 0
        for seed in range(150):
            case = random_case(seed, max_jobs=12, max_slots=8, slack=4)
            case = case._replace(jobs=tuple(job for job in case.jobs if job.earliest_start < len(case.capacity)))
            instance = program_of(case, overcommit=overcommit)
            begun = improved(instance)
            starts = tuple(start if start >= 0 else None for start in begun.tolist())
            assert value_of(case, starts) >= 0
            assert overcommit or fits(case, starts)
            rng = np.random.default_rng(seed)
            random = np.where(rng.random(len(begun)) < 0.5, rng.integers(instance.first, instance.last + 1), -1)
            before = tuple(start if start >= 0 else None for start in random.tolist())
            after = tuple(start if start >= 0 else None for start in improved(instance, random).tolist())
            assert overcommit or fits(case, after)
            if overcommit or fits(case, before):
                assert value_of(case, after) >= value_of(case, before) - 1e-9
                better += value_of(case, after) > value_of(case, before)
        assert better > 30

    def test_nothing_can_be_added_or_moved(self) -> None:
        for seed in range(60):
            case = random_case(seed, max_jobs=8, max_slots=7)
            case = case._replace(jobs=tuple(job for job in case.jobs if job.earliest_start < len(case.capacity)))
            starts = [start if start >= 0 else None for start in improved(program_of(case)).tolist()]
            value = value_of(case, tuple(starts))
            for number, one in enumerate(case.jobs):
                for slot in (None, *range(one.earliest_start, min(one.latest_start + 1, len(case.capacity)))):
                    changed = (*starts[:number], slot, *starts[number + 1 :])
                    assert value_of(case, changed) <= value + 1e-9

    def test_of_equal_starts_the_earliest(self) -> None:
        case = Case((job(1, 0, 1, 5, 2, 1),), np.full((9, 1), 1.0), 0.0, (10.0,))
        assert improved(program_of(case)).tolist() == [1]
        assert improved(program_of(case), np.array([4])).tolist() == [1]


class TestRefusals:
    FORESIGHT = ClairvoyantView((job(1, 0, 0, 1, 1, 1),), np.ones((3, 1)))

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"time_limit": 0.0}, "time_limit: got 0.0, expected a number > 0"),
            ({"time_limit": np.nan}, "time_limit: got nan"),
            ({"gap": -0.1}, "gap: got -0.1, expected a finite number >= 0"),
            ({"gap": np.nan}, "gap: got nan"),
            ({"delay_weight": -1.0}, "delay_weight: got -1.0"),
            (
                {"violation_weight": [1.0, 2.0]},
                r"violation_weight: got \[1\.0, 2\.0\], expected one number$",
            ),
        ],
    )
    def test_arguments(self, options: dict[str, Any], message: str) -> None:
        with pytest.raises(InvalidConfiguration, match=message):
            offline_optimum(self.FORESIGHT, **options)

    def test_capacities(self) -> None:
        for capacity in (np.array([[1.0], [-1.0]]), np.array([[np.nan]]), np.ones((0, 1)), np.ones((2, 1, 1))):
            with pytest.raises(InvalidConfiguration, match="capacity"):
                offline_optimum(ClairvoyantView(self.FORESIGHT.jobs, capacity))

    def test_jobs(self) -> None:
        with pytest.raises(WorkloadError, match="job 7: latest_start: got 1, expected at least earliest_start, 2"):
            offline_optimum(ClairvoyantView((job(7, 0, 2, 1, 1, 1),), np.ones((3, 1))))
        with pytest.raises(WorkloadError, match=r"job 7: others: got \(\), expected a tuple of 1 amounts"):
            offline_optimum(ClairvoyantView((job(7, 0, 1, 1, 1, 1),), np.ones((3, 2))))

    def test_hopelessly_many(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(options_module, "LARGEST", 3)
        offline_optimum(ClairvoyantView((job(1, 0, 0, 2, 1, 1),), np.ones((3, 1))))
        with pytest.raises(InvalidConfiguration, match="got 4 entries, expected at most 3"):
            offline_optimum(ClairvoyantView((job(1, 0, 0, 1, 2, 1),), np.ones((3, 1))))


class TestPlanned:
    JOBS = (job(1, 0, 0, 3, 2, 1), job(2, 0.5, 1, 3, 1, 1), job(1, 2.5, 3, 4, 1, 1))

    def cluster(self) -> DeferrableCluster:
        return DeferrableCluster(self.JOBS, [3], num_slots=6)

    def test_an_identifier_that_returns(self) -> None:
        for plan in ([0, None, 4], [0, 3, 3], [0, 2, None]):
            jobs = simulate(self.cluster(), Planned(self.JOBS, plan)).jobs  # in order of submission
            assert jobs["starting_time"].to_list() == plan

    def test_another_number_of_starts(self) -> None:
        with pytest.raises(InvalidConfiguration, match="starts: got 2 for 3 jobs"):
            Planned(self.JOBS, [0, 1])

    def test_a_start_outside_the_window(self) -> None:
        with pytest.raises(InvalidConfiguration, match="start of job 2: got slot 4, expected 1 to 3"):
            Planned(self.JOBS, [0, 4, None])

    def test_another_workload(self) -> None:
        other = job(9, 0, 0, 3, 2, 1)
        with pytest.raises(InvalidConfiguration, match="slot 2: the plan starts job 9, which is not waiting"):
            simulate(self.cluster(), Planned([*self.JOBS, other], [0, 2, None, 2]))
        moved = self.JOBS[0]._replace(submission_time=0.25, earliest_start=1)
        with pytest.raises(InvalidConfiguration, match="slot 1: the plan starts job 1, which is not waiting"):
            simulate(self.cluster(), Planned([moved], [1]))


class TestSolver:
    def programs(self) -> list[Program]:
        cases = [random_case(seed, max_jobs=30, max_slots=12, slack=4) for seed in range(40)]
        models = [Model(program_of(case, overcommit=bool(number % 2))) for number, case in enumerate(cases)]
        return [model.program for model in models if model.options.number]

    def test_it_is_that_of_scipy(self) -> None:
        for program in self.programs():
            answer = maximize(program, time_limit=60, gap=0)
            matrix = csc_array((program.value, (program.row, program.column)), (len(program.right), len(program.gain)))
            other = milp(
                -program.gain,
                integrality=program.is_whole,
                bounds=Bounds(0, program.upper),
                constraints=LinearConstraint(matrix, -np.inf, program.right),
                options={"mip_rel_gap": 0},
            )
            assert answer.values is not None
            assert program.gain @ answer.values == pytest.approx(-other.fun, rel=1e-6, abs=1e-6)
            assert answer.bound == pytest.approx(-other.fun, rel=1e-6, abs=1e-6)

    def test_what_was_solved_before_does_not_matter(self) -> None:
        programs = self.programs()
        answers = [maximize(program, time_limit=60, gap=0).values for program in programs]
        again = [maximize(program, time_limit=60, gap=0).values for program in reversed(programs)][::-1]
        assert all(np.array_equal(*pair) for pair in zip(answers, again, strict=True))  # type: ignore[arg-type]

    def test_nothing_is_printed(self) -> None:
        code = (  # HiGHS greets once a process
            "from desim.agents.deferrable import offline_optimum; from desim.problems.deferrable import *\n"
            "jobs = [Job(n, 0, 0, 3, 2, 2 + n) for n in range(6)]\n"
            "offline_optimum(clairvoyant_view(DeferrableCluster(jobs, [7], num_slots=6)))"
        )
        printed = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
        assert (printed.stdout, printed.stderr) == ("", "")

    def test_others_use_more_threads(self) -> None:
        program = self.programs()[0]
        expected = maximize(program, time_limit=60, gap=0)
        other: highspy.Highs = highspy.Highs()  # type: ignore[no-untyped-call]
        other.setOptionValue("output_flag", False)
        other.resetGlobalScheduler(True)
        other.setOptionValue("threads", 2)
        other.addVar(0.0, 1.0)
        other.run()
        answer = maximize(program, time_limit=60, gap=0)
        assert answer.bound == expected.bound
        assert np.array_equal(answer.values, expected.values)  # type: ignore[arg-type]

    def test_without_highspy(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(solver_module, "_kept", solver_module.SolverCache())
        monkeypatch.setitem(sys.modules, "highspy", None)
        with pytest.raises(MissingDependency, match="HiGHS cannot be loaded"):
            maximize(self.programs()[0], time_limit=60, gap=0)


def test_an_optimum_is_a_plain_value() -> None:
    best = offline_optimum(ClairvoyantView((job(1, 0, 0, 0, 2, 3),), np.full((2, 1), 3.0)))
    assert isinstance(best, Optimum)
    assert best.seconds > 0
    assert [type(start) for start in best.starts] == [int]
    with pytest.raises(AttributeError):
        best.value = 3.0  # type: ignore[misc]
