"""Search over plans of deferrable jobs: its accounting, small problems, and the agent."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
import pytest
from deferrable_exhaustive import Case, best_value, random_case
from test_deferrable_optimum import program_of

pytest.importorskip("numba")

from desim import simulate
from desim.agents.deferrable import Persistence, RandomOrder, create
from desim.agents.deferrable.program import PlanningInstance, usage, value_of
from desim.agents.deferrable.search import PlanDecoder, SearchAgent
from desim.agents.search import Budget
from desim.exceptions import InvalidConfiguration
from desim.problems.deferrable import DeferrableCluster, DeferrableObservation, Job, JobSet
from desim.validation import validate
from desim.workloads.deferrable import FLUCTUATING, generate


def decoders(number: int, **sizes: int) -> list[tuple[bool, int, PlanDecoder]]:
    """Return decoders of random problems, with nothing planned."""
    found = []
    for seed in range(number):
        overcommit = bool(seed // 4 % 2)
        instance = program_of(random_case(seed, **sizes), overcommit=overcommit)
        nothing = np.full(instance.num_jobs, -1, np.int64)
        found.append((overcommit, seed, PlanDecoder(instance, nothing, seed)))
    return found


def test_what_a_plan_brings_is_what_the_program_says() -> None:
    for overcommit, seed, decoder in decoders(200, max_jobs=20, max_slots=12, slack=4):
        instance = program_of(random_case(seed, max_jobs=20, max_slots=12, slack=4), overcommit=overcommit)
        before = decoder.value
        gain = decoder.place_all(np.random.default_rng(seed).permutation(instance.num_jobs))
        gain += decoder.improve(30)
        starts = decoder.starts
        assert decoder.value == pytest.approx(value_of(instance, starts), abs=1e-6)
        assert gain == pytest.approx(decoder.value - before, abs=1e-6)
        placed = np.flatnonzero(starts >= 0)
        assert (instance.first[placed] <= starts[placed]).all()
        assert (starts[placed] <= instance.last[placed]).all()
        again = PlanDecoder(instance, starts)
        assert again.value == pytest.approx(decoder.value, abs=1e-6)
        if not overcommit:  # what is requested fits where a job starts
            fits = usage(instance, starts)[starts[placed]] <= instance.limit[starts[placed]] + 1e-9
            assert (fits | (instance.requests[placed] == 0)).all()


def test_it_finds_the_best_of_all_plans_of_small_problems() -> None:
    missed = 0
    for overcommit, seed, decoder in decoders(80):
        decoder.place_all(np.arange(len(decoder.starts)))
        decoder.improve(500)
        best = best_value(random_case(seed), overcommit=overcommit)
        assert decoder.value <= best + 1e-6
        missed += decoder.value < best - 1e-6
    assert missed <= 2


class FromSomeSlotOn(RandomOrder):
    """Starts jobs at random, and from some slot on what a plan of the decoder says that was made then."""

    def __init__(self, case: Case, slot: int, seed: int, overcommit: bool) -> None:
        super().__init__()
        self.case, self.slot, self.seed, self.overcommit = case, slot, seed, overcommit
        self.promised: float | None = None
        self.planned: dict[int, int] = {}

    def act(self, observation: DeferrableObservation) -> list[int]:
        """Return the answer."""
        if observation.slot < self.slot:
            return super().act(observation)
        if observation.slot == self.slot:
            self.plan(observation)
        numbers = observation.current.job_id.tolist()
        return [place for place, number in enumerate(numbers) if self.planned.get(number) == observation.slot]

    def plan(self, observation: DeferrableObservation) -> None:
        """Plan what is known until the end of the run, at random."""
        known = JobSet(np.concatenate([observation.current.rows, observation.future.rows]))
        capacity, running = self.case.capacity[self.slot :], observation.running
        ends = running.finish_time[None, :] - self.slot > np.arange(len(capacity))[:, None]
        instance = PlanningInstance(
            first=np.maximum(known.earliest_start - self.slot, 0).astype(np.int64),
            last=np.minimum(known.latest_start - self.slot, len(capacity) - 1).astype(np.int64),
            worth=known.revenue - self.case.delay_weight * np.maximum(self.slot - known.earliest_start, 0.0),
            duration=known.duration.astype(np.int64),
            requests=known.requests,
            capacity=capacity,
            held=ends.astype(float) @ running.requests,
            delay_weight=self.case.delay_weight,
            violation_weights=np.array(self.case.violation_weight),
            overcommit=self.overcommit,
        )
        decoder = PlanDecoder(instance, np.full(len(known), -1, np.int64), self.seed)
        decoder.place_all(np.random.default_rng(self.seed).permutation(len(known)))
        decoder.improve(self.seed % 7)
        self.promised = decoder.value
        starts = zip(known.job_id.tolist(), decoder.starts.tolist(), strict=True)
        self.planned = {number: self.slot + start for number, start in starts if start >= 0}


def decode_and_simulate(seed: int) -> None:
    """Compare what the decoder says of a plan, made in a random state, with what the simulator makes of it."""
    overcommit = bool(seed // 4 % 2)
    case = random_case(seed, max_jobs=12, max_slots=10, slack=4)
    jobs = tuple(job._replace(submission_time=0.0) for job in case.jobs)  # all are known when the plan is made
    slot = seed % min(3, len(case.capacity))
    agent = FromSomeSlotOn(case, slot, seed, overcommit)
    result = simulate(case._replace(jobs=jobs).cluster(overcommit=overcommit), agent, seed=seed)
    assert agent.promised is not None
    assert result.table("slots")["reward"].to_numpy()[slot:].sum() == pytest.approx(agent.promised, abs=1e-6)
    started = result.jobs.filter(result.jobs["starting_time"] >= slot)
    assert dict(started.select("job_id", "starting_time").iter_rows()) == agent.planned


def test_decoder_is_the_simulator() -> None:
    for seed in range(200):
        decode_and_simulate(seed)


@pytest.mark.slow
def test_decoder_is_the_simulator_in_many_states() -> None:
    for seed in range(200, 10_200):
        decode_and_simulate(seed)


def test_uncertain_capacity_and_rent() -> None:
    for seed in range(40):
        overcommit = bool(seed // 4 % 2)
        instance = program_of(random_case(seed, max_jobs=12, max_slots=10, slack=4), overcommit=overcommit)
        rng = np.random.default_rng(seed)
        deviation = rng.uniform(0.01, 3.0, instance.capacity.shape) * (rng.random(instance.capacity.shape) < 0.7)
        rent = rng.uniform(0.0, 0.9, instance.num_slots)
        nothing = np.full(instance.num_jobs, -1, np.int64)
        decoder = PlanDecoder(instance, nothing, seed, deviation=deviation, rent=rent)
        before = decoder.value
        gain = decoder.place_all(rng.permutation(instance.num_jobs)) + decoder.improve(20)
        starts, used = decoder.starts, usage(instance, decoder.starts)
        wanted = 0.0
        for job in np.flatnonzero(starts >= 0):
            wanted += instance.worth[job] - instance.delay_weight * (starts[job] - instance.first[job])
            wanted -= instance.requests[job, 0] * rent[starts[job] : starts[job] + instance.duration[job]].sum()
        for place in np.ndindex(*used.shape):
            over, spread = used[place] - instance.capacity[place], deviation[place]
            if spread > 0:  # how much a normal capacity is exceeded by on average
                normal = NormalDist()
                over = over * normal.cdf(over / spread) + spread * normal.pdf(over / spread)
            elif used[place] <= instance.limit[place]:
                over = 0.0
            wanted -= instance.violation_weights[place[1]] * over
        assert decoder.value == pytest.approx(wanted, abs=0.02, rel=1e-3)
        assert gain == pytest.approx(decoder.value - before, abs=1e-6)


def test_what_jobs_take_that_are_not_yet_known_has_a_price() -> None:
    # in each slot a job comes that takes all cores at once; one that is known from the beginning is in their way
    jobs = [Job(number, number, number, number, 1, 4) for number in range(30)]
    jobs.insert(1, Job(99, 0.0, 20, 20, 4, 3))
    starts = {}
    for rent in (0.0, 1.0):
        agent = SearchAgent(rent=rent)
        result = simulate(DeferrableCluster(jobs, [4.0], num_slots=30), agent, seed=0)
        starts[rent] = dict(result.jobs.select("job_id", "starting_time").iter_rows())[99]
    assert starts[0.0] is not None
    assert starts[1.0] is None


def test_without_a_rent_and_on_a_plain_forecast_it_is_a_search_for_the_plan_of_the_rolling_horizon() -> None:
    agent = SearchAgent(budget=Budget(moves=500), forecast=Persistence(), rent=0.0)
    rewards = [simulate(cluster(0), one).metrics()["total_reward"] for one in (agent, create("rolling-horizon"))]
    assert rewards[0] == pytest.approx(rewards[1], rel=0.01)


def cluster(seed: int) -> DeferrableCluster:
    """Return one of the workload whose capacity fluctuates."""
    scenario = generate(FLUCTUATING, seed=seed)
    return DeferrableCluster(scenario.jobs, scenario.capacity, num_slots=60)


def test_a_run_is_valid_and_repeats() -> None:
    results = [simulate(cluster(0), create("search:deferrable:total_reward:20"), seed=3) for _ in range(2)]
    assert results[0].metrics() == results[1].metrics()
    assert validate(results[0]).ok


def test_it_brings_more_than_rules_that_do_not_plan() -> None:
    rewards = {
        name: np.mean([simulate(cluster(seed), create(name)).metrics()["total_reward"] for seed in range(3)])
        for name in ("fifo", "search:deferrable")
    }
    assert rewards["search:deferrable"] > rewards["fifo"]


def test_names() -> None:
    assert create("search:deferrable").name == "search:deferrable:total_reward:100"
    assert create("search:deferrable:total_reward:0.01s").name == "search:deferrable:total_reward:0.01s"
    for wrong in ("search:deferrable:makespan", "search:deferrable:total_reward:x", "search:batch"):
        with pytest.raises(InvalidConfiguration):
            create(wrong)
    with pytest.raises(InvalidConfiguration):
        SearchAgent("makespan", Budget(moves=1))  # type: ignore[arg-type]
    with pytest.raises(InvalidConfiguration):
        SearchAgent(rent=1.1)
