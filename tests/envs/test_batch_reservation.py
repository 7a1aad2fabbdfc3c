"""A reservation for the oldest job, and costs of long waits, against EASY backfilling and plain sums."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from env_cases import Masked, play
from hypothesis import given, settings
from hypothesis import strategies as st

from desim import simulate
from desim.agents.batch import EASYBackfilling, WindowRule
from desim.envs import ACTION_MASK
from desim.exceptions import InvalidConfiguration
from desim.problems.batch import BatchCluster, Job
from desim.problems.batch.encoders import FeatureEncoder, SplitWindow
from desim.problems.batch.env import BatchEnv, TraceEpisodes, WaitingCost
from desim.processes import Outage, planned_outages

CORES = 8


@st.composite
def workloads(draw: st.DrawFn) -> list[Job]:
    rows = draw(
        st.lists(
            st.tuples(st.integers(0, 6), st.integers(1, CORES), st.integers(1, 30), st.integers(1, 30)),
            min_size=2,
            max_size=25,
        )
    )
    jobs, time = [], 0.0
    for number, (gap, cores, requested, run) in enumerate(rows):
        time += gap if number else 0  # an episode begins with its first job
        jobs.append(Job(number, time, cores, float(requested), float(min(requested, run))))
    return jobs


def environment(jobs: list[Job], **options: object) -> BatchEnv:
    episodes = TraceEpisodes([jobs], CORES, num_jobs=len(jobs), arrivals="closed")
    return BatchEnv(episodes, CORES, num_jobs=len(jobs), **options)  # type: ignore[arg-type]


def played(gym_env: BatchEnv, *, last: bool = False) -> float:
    """Start the first possible job, or the last, until the end; return what was earned."""
    observation, _ = gym_env.reset(seed=0)
    earned, over = 0.0, False
    while not over:
        slots = observation[ACTION_MASK][:-1].nonzero()[0]
        action = slots[-1 if last else 0] if len(slots) else len(observation[ACTION_MASK]) - 1
        observation, reward, terminated, truncated, info = gym_env.step(action)
        assert not info["invalid"]
        earned += reward
        over = terminated or truncated
    return earned


@settings(max_examples=60, deadline=None)
@given(workloads())
def test_the_first_possible_job_beside_a_reservation_is_easy_backfilling(jobs: list[Job]) -> None:
    gym_env = environment(jobs, window=(len(jobs), 0), reserve_after=0.0, skip_forced=True)
    played(gym_env)
    expected = simulate(BatchCluster(jobs, CORES), EASYBackfilling("fcfs"))
    columns = ["job_id", "starting_time"]
    assert gym_env.result().jobs.select(columns).equals(expected.jobs.select(columns))


@settings(max_examples=30, deadline=None)
@given(workloads(), st.integers(0, 40))
def test_before_its_time_a_reservation_changes_nothing(jobs: list[Job], wait: int) -> None:
    plain, reserving = (environment(jobs, window=(len(jobs), 0), reserve_after=limit) for limit in (np.inf, 1e9 + wait))
    assert played(plain, last=True) == played(reserving, last=True)


@settings(max_examples=30, deadline=None)
@given(workloads(), st.sampled_from([1.0, 2.0, 4.0]), st.booleans())
def test_waiting_costs_are_sums_over_jobs(jobs: list[Job], power: float, skip: bool) -> None:
    gym_env = environment(jobs, window=(3, 2), reward=WaitingCost(7.0, power), skip_forced=skip)
    earned = played(gym_env, last=True)
    waits = gym_env.result().jobs["waiting_time"].to_numpy()
    assert len(waits) == len(jobs)
    assert earned == pytest.approx(-float(((waits / 7.0) ** power).sum()), rel=1e-9, abs=1e-9)


class Asking(WaitingCost):
    """The same cost, told of every decision; counts them."""

    counts_arrivals = False

    def __init__(self, *arguments: float) -> None:
        super().__init__(*arguments)
        self.told = 0

    def on_decision(self, answer: object) -> None:
        super().on_decision(answer)
        self.told += 1


class Spared(Asking):
    counts_arrivals = True


@settings(max_examples=40, deadline=None)
@given(
    workloads(),
    st.tuples(st.integers(1, 4), st.integers(0, 3)),
    st.sampled_from([1.0, 4.0]),
    st.sampled_from([np.inf, 4.0]),
    st.booleans(),
)
def test_questions_without_a_choice_need_not_be_asked(
    jobs: list[Job], window: tuple[int, int], power: float, limit: float, fails: bool
) -> None:
    outages = [planned_outages([Outage(5.0, 60.0, cores=[0, 1, 3]), Outage(70.0, 75.0, cores=[0, 1])])] if fails else []
    episodes = TraceEpisodes([jobs], CORES, num_jobs=len(jobs), arrivals="closed", processes=outages)
    asking, spared = Asking(7.0, power), Spared(7.0, power)
    found = []
    for reward in (asking, spared):
        gym_env = BatchEnv(episodes, CORES, window=window, reward=reward, skip_forced=True, reserve_after=limit)
        found.append(play(gym_env, Masked(3), seed=0))
        assert gym_env.result().jobs.height == len(jobs)
    assert len(found[0]) == len(found[1])
    for one, other in zip(*found, strict=True):
        assert {name: array.tobytes() for name, array in one[0].items()} == {
            name: array.tobytes() for name, array in other[0].items()
        }
        assert one[1] == pytest.approx(other[1], rel=1e-9, abs=1e-12)
        assert one[2:] == other[2:]
    assert spared.told <= asking.told


def test_few_questions_are_left_of_those_without_a_choice() -> None:
    jobs = [Job(number, float(number), 2 if number else 7, 9.0, 9.0 if number else 100.0) for number in range(40)]
    told = []
    for reward in (Asking(), Spared()):
        play(environment(jobs, window=(4, 4), reward=reward, skip_forced=True), Masked(), seed=0)
        told.append(reward.told)
    assert told[0] - told[1] > 20


def test_several_windows_share_the_slots_of_the_largest() -> None:
    jobs = [Job(number, float(number), 1 + number % CORES, 9.0, 9.0) for number in range(40)]
    gym_env = environment(jobs, window=[(2, 1), (5, 3), (0, 1)])
    assert gym_env.action_space.n == 9  # type: ignore[attr-defined]
    seen = set()
    for seed in range(30):
        observation, _ = gym_env.reset(seed=seed)
        window = gym_env.encoder.window  # type: ignore[attr-defined]
        seen.add((window.head, window.tail))
        assert observation["jobs"].shape == (8, 12)
        assert not observation["jobs"][window.size :].any()
    assert seen == {(2, 1), (5, 3), (0, 1)}


def test_bad_arguments_are_named() -> None:
    with pytest.raises(InvalidConfiguration, match="reserve_after: got -1"):
        FeatureEncoder(SplitWindow(2, 1), reserve_after=-1.0)
    with pytest.raises(InvalidConfiguration, match="at least one slot at the head for the oldest job"):
        FeatureEncoder(SplitWindow(0, 2), reserve_after=5.0)
    with pytest.raises(InvalidConfiguration, match="slots: got 2, expected at least the 3 slots"):
        FeatureEncoder(SplitWindow(2, 1), 2)
    with pytest.raises(InvalidConfiguration, match=r"power: got 0\.5"):
        WaitingCost(1.0, 0.5)
    with pytest.raises(InvalidConfiguration, match="window: got none"):
        environment([Job(0, 0.0, 1, 1.0, 1.0)], window=[])
    with pytest.raises(InvalidConfiguration, match="supports neither extra slots nor reserve_after"):
        environment([Job(0, 0.0, 1, 1.0, 1.0)], observation="flat", reserve_after=3.0)


def test_a_reserving_rule_holds_longer_jobs_back_and_shorter_ones_not() -> None:
    jobs = [
        Job(0, 0.0, 6, 10.0, 10.0),  # runs until 10
        Job(1, 1.0, 8, 20.0, 20.0),  # blocked until 10, the shortest that does not fit
        Job(2, 2.0, 2, 50.0, 50.0),  # longer, would delay it: held back
        Job(3, 3.0, 2, 15.0, 15.0),  # shorter: comes first anyway
    ]
    starts = {}
    for rule in ("shortest", "reserving"):
        table = simulate(BatchCluster(jobs, CORES), WindowRule(rule, 4)).jobs.sort("job_id")
        starts[rule] = table.select(pl.col("starting_time")).to_series().to_list()
    assert starts["shortest"] == [0.0, 52.0, 2.0, 10.0]
    assert starts["reserving"] == [0.0, 18.0, 38.0, 3.0]
