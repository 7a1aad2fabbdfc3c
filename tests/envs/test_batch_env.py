"""The batch cluster for learners: windows, features, masks and rewards, each against a plain second version."""

from __future__ import annotations

import math
from collections.abc import Iterator
from random import Random
from typing import Any

import numpy as np
import pytest
from env_cases import Masked, Unmasked, play, total
from hypothesis import given, settings
from hypothesis import strategies as st

from desim import simulate
from desim.agents.batch import SimpleBackfilling
from desim.core import Decision, Simulation
from desim.exceptions import InfeasibleAction, InvalidConfiguration
from desim.problems.batch import BatchCluster, Job, Workload
from desim.problems.batch.encoders import CLUSTER_FEATURES, JOB_FEATURES, FeatureEncoder, FlatEncoder, SplitWindow
from desim.problems.batch.env import BatchEnv, TraceEpisodes, make_encoder
from desim.processes import Outage, planned_outages
from desim.workloads import lublin

WINDOWS = st.tuples(st.integers(0, 5), st.integers(0, 5)).filter(any)


def naive_window(head: int, tail: int, queue: list[Any]) -> list[Any]:
    """Return what the slots show: the first jobs, then the last ones, the very last first; None for nothing."""
    if len(queue) <= head + tail:
        return queue + [None] * (head + tail - len(queue))
    return queue[:head] + list(reversed(queue))[:tail]


@given(window=WINDOWS, length=st.integers(0, 14))
def test_the_window_shows_the_head_and_the_tail(window: tuple[int, int], length: int) -> None:
    split = SplitWindow(*window)
    shown = naive_window(*window, list(range(length)))
    assert split.positions(length).tolist() == [position for position in shown if position is not None]
    assert [split.position(slot, length) for slot in range(split.size)] == shown


def test_impossible_windows_are_refused() -> None:
    for wrong in ((0, 0), (-1, 3), (2, -1), (1.5, 1)):
        with pytest.raises(InvalidConfiguration, match="slots"):
            SplitWindow(*wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("window", [(3, 2), np.array([3, 2]), tuple(np.array([3, 2]))])
def test_a_window_is_one_whatever_its_numbers_are(window: Any) -> None:
    env = BatchEnv(lambda rng: BatchCluster([], 4), window=window)
    assert [(one.head, one.tail) for one in env.windows] == [(3, 2)]


def random_jobs(rng: Random, num_cores: int, count: int) -> list[Job]:
    """Return jobs that come fast, so that there is a queue; some run longer than they have requested."""
    time, jobs = 0.0, []
    for job_id in rng.sample(range(200), count):
        time += rng.choice((0, 0, 1, 3, 8))
        requested = rng.choice((1, 5, 20, 20, 60))
        run = rng.choice((requested, requested, requested / 3, requested * 2))
        jobs.append(Job(job_id, time, rng.randint(1, num_cores), float(requested), run))
    return jobs


def decisions(rng: Random, encoder: Any, **cluster: Any) -> Iterator[tuple[Simulation, Decision]]:
    """Yield the decisions of a random run of random jobs, some of them while cores are down."""
    num_cores = rng.choice((2, 5, 8))
    down = rng.randrange(num_cores)
    outages = planned_outages([Outage(10.0, 30.0, cores=[down])])
    jobs = random_jobs(rng, num_cores, 25)
    problem = BatchCluster(
        jobs,
        num_cores,
        enforce_time_limit=rng.random() < 0.5,
        processes=[outages] if rng.random() < 0.3 else (),
        **cluster,
    )
    simulation = Simulation(problem)
    while (decision := simulation.advance()) is not None:
        yield simulation, decision
        possible = np.flatnonzero(encoder.encode(decision.observation)["action_mask"]).tolist()
        answer, _ = encoder.decode(decision.observation, rng.choice(possible))
        decision.answer(answer)


@given(seed=st.integers(0, 10**6), window=WINDOWS, flat=st.booleans())
@settings(max_examples=30, deadline=None)
def test_the_mask_is_what_the_cluster_accepts(seed: int, window: tuple[int, int], flat: bool) -> None:
    rng = Random(seed)
    encoder: Any = FeatureEncoder(SplitWindow(*window), slots=sum(window) + rng.randint(0, 2))
    for number, (simulation, decision) in enumerate(decisions(rng, encoder)):
        observation = decision.observation
        encoder_now = FlatEncoder(SplitWindow(*window), observation.num_cores) if flat else encoder
        mask = encoder_now.encode(observation)["action_mask"].tolist()
        shown = naive_window(*window, observation.queue.row.tolist())
        shown += [None] * (len(mask) - 1 - len(shown))
        assert encoder_now.is_forced(observation) == (sum(mask[:-1]) == 0)
        waits = observation.can_wait or not any(mask[:-1])
        assert (mask[-1], encoder_now.decode(observation, len(mask) - 1)) == (waits, (None, waits))
        for slot, row in enumerate(shown):
            answer, valid = encoder_now.decode(observation, slot)
            assert valid == bool(mask[slot])
            assert answer == (row if valid else None)
            if row is not None and number % 5 == 0:
                assert valid == is_accepted(simulation, row)
            elif row is None:
                assert not valid


def is_accepted(simulation: Simulation, row: int) -> bool:
    """Tell whether the cluster starts a job now, and that it refuses to do so otherwise."""
    fork = simulation.fork()
    started: list[tuple[float, int]] = []
    fork.problem.on("start", lambda time, execution: started.append((time, execution.row)))
    decision = fork.advance()
    assert decision is not None
    try:
        decision.answer(row)
    except InfeasibleAction as error:
        assert f"job {simulation.problem.observation.id_of(row)}" in str(error)  # type: ignore[attr-defined]
        return False
    assert started == [(fork.env.now, row)]
    return True


def test_actions_that_do_not_exist_are_refused() -> None:
    encoder = FeatureEncoder(SplitWindow(2, 1))
    simulation = Simulation(BatchCluster([Job(1, 0.0, 1, 1.0, 1.0)], 2))
    decision = simulation.advance()
    assert decision is not None
    for wrong in (-1, 4):
        with pytest.raises(InvalidConfiguration, match="an integer from 0 to 3"):
            encoder.decode(decision.observation, wrong)


# -- encoders against loops over plain lists --------------------------------------------------------


def log(value: float) -> float:
    return math.log1p(value) / 4


def slow_features(window: tuple[int, int], seen: Any) -> tuple[list[list[float]], list[float]]:
    """Return the features of jobs and cluster, written as they are described."""
    queue = list(
        zip(
            seen.queue.row.tolist(),
            seen.queue.requested_cores.tolist(),
            seen.queue.requested_time.tolist(),
            seen.queue.submission_time.tolist(),
            strict=True,
        )
    )
    running = sorted(zip(seen.running.expected_end.tolist(), seen.running.requested_cores.tolist(), strict=True))
    time, free, total = seen.time, seen.free_cores, seen.num_cores

    def free_at(moment: float) -> int:
        return free + sum(cores for end, cores in running if end <= moment)

    def time_until(cores: int) -> float:
        if cores <= free:
            return 0.0
        moments = [end for end, _ in running if free_at(end) >= cores]
        return max(min(moments) - time, 0.0) if moments else 1e7

    shown = [job for job in naive_window(*window, queue) if job is not None]
    fitting = [job for job in shown if job[1] <= free]
    blocked = [job for job in shown if job[1] > free]
    reserved = min(blocked, key=lambda job: job[2]) if blocked else None  # of equal ones the first
    rows = []
    for slot, job in enumerate(shown):
        _, cores, requested, submitted = job
        row = dict.fromkeys(JOB_FEATURES, 0.0)
        row |= {
            "present": 1.0,
            "requested_time": log(requested),
            "requested_cores": cores / total,
            "requested_cores_log": math.log1p(cores) / math.log1p(total),
            "waiting_time": log(time - submitted),
            "fits": float(job in fitting),
            "time_until_it_fits": log(time_until(cores)),
            "from_tail": float(len(queue) > sum(window) and slot >= window[0]),
        }
        if fitting:
            area = log(requested) + log(cores)
            row["share_of_free_cores"] = cores / free if job in fitting else 0.0
            row["requested_time_over_shortest"] = log(requested) - min(log(other[2]) for other in fitting)
            row["area_over_smallest"] = area - min(log(other[2]) + log(other[1]) for other in fitting)
        if reserved is not None and job in fitting:
            start = time + time_until(reserved[1])
            row["delays_reservation"] = float(
                requested > reserved[2] and time + requested > start and cores > free_at(start) - reserved[1]
            )
        rows.append(list(row.values()))
    cluster = dict.fromkeys(CLUSTER_FEATURES, 0.0)
    cluster |= {
        "free_cores": free / total,
        "queue_length": log(len(queue)),
        "invisible_jobs": log(len(queue) - len(shown)),
        "jobs_that_fit": log(len(fitting)),
        "time_to_next_end": log(max(running[0][0] - time, 0.0)) if running else 0.0,
        "running_load": log(sum(max(end - time, 0.0) * cores for end, cores in running) / total),
        "window_load": log(sum(job[1] * job[2] for job in shown) / total),
        "oldest_waiting_time": log(time - min(job[3] for job in queue)) if queue else 0.0,
    }
    if reserved is not None:
        cluster |= {
            "reserved_job": 1.0,
            "reserved_time": log(time_until(reserved[1])),
            "reserved_job_requested_time": log(reserved[2]),
            "reserved_job_requested_cores": reserved[1] / total,
        }
    return rows, list(cluster.values())


@given(seed=st.integers(0, 10**6), window=WINDOWS)
@settings(max_examples=40, deadline=None)
def test_features_are_those_that_are_described(seed: int, window: tuple[int, int]) -> None:
    encoder = FeatureEncoder(SplitWindow(*window))
    for _, decision in decisions(Random(seed), encoder):
        found = encoder.encode(decision.observation)
        rows, cluster = slow_features(window, decision.observation)
        expected = np.zeros(found["jobs"].shape)
        expected[: len(rows)] = np.array(rows).reshape(len(rows), len(JOB_FEATURES))
        np.testing.assert_allclose(found["jobs"], expected, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(found["cluster"], cluster, rtol=1e-5, atol=1e-6)


@given(seed=st.integers(0, 10**6), windows=st.lists(WINDOWS, min_size=1, max_size=4), times=st.sampled_from([1, 7, 90]))
@settings(max_examples=20, deadline=None)
def test_many_windows_at_once_show_the_same_bits(seed: int, windows: list[tuple[int, int]], times: int) -> None:
    rng, slots = Random(seed), max(map(sum, windows))
    encoders = [
        FeatureEncoder(
            SplitWindow(*each), slots, reserve_after=rng.choice((math.inf, 0.0, 5.0)) if each[0] else math.inf
        )
        for each in windows
    ]
    runs = [decisions(rng, each, ask_when_empty=rng.random() < 0.5) for each in encoders]
    for asked in zip(*runs, strict=False):
        pairs = [(each, decision.observation) for each, (_, decision) in zip(encoders, asked, strict=True)] * times
        alone = [each.encode(seen) for each, seen in pairs[: len(windows)]] * times
        found = {name: np.full((len(pairs), *array.shape), 7, array.dtype) for name, array in alone[0].items()}
        FeatureEncoder.encode_many(pairs, found)
        for row, arrays in enumerate(alone):
            assert {name: array[row].tobytes() for name, array in found.items()} == {
                name: array.tobytes() for name, array in arrays.items()
            }
        if times > 1:
            break


@given(seed=st.integers(0, 10**6), window=WINDOWS, is_sorted=st.booleans())
@settings(max_examples=30, deadline=None)
def test_the_flat_observation_is_that_of_the_paper(seed: int, window: tuple[int, int], is_sorted: bool) -> None:
    split = SplitWindow(*window)
    for _, decision in decisions(Random(seed), FeatureEncoder(split)):
        seen = decision.observation
        order: Any = "sorted" if is_sorted else "by_core"
        encoder = FlatEncoder(split, seen.num_cores, longest_time=40.0, longest_wait=30.0, order=order)
        busy = {}
        for row, end in zip(seen.running.row.tolist(), seen.running.expected_end.tolist(), strict=True):
            left, held = max(end - seen.time, 0.0), seen.core_set_of(row)
            busy |= {core: min(left / 40, 1.0) for core in range(seen.num_cores) if held >> core & 1}
        idle = seen.free_core_set
        cores = [0.0 if idle >> core & 1 else busy.get(core, 1.0) for core in range(seen.num_cores)]
        jobs = zip(
            seen.queue.requested_cores.tolist(),
            seen.queue.requested_time.tolist(),
            seen.queue.submission_time.tolist(),
            strict=True,
        )
        rows = []
        for job in naive_window(*window, list(jobs)):
            row = (0, 0, 0) if job is None else (job[0] / seen.num_cores, job[1] / 40, (seen.time - job[2]) / 30)
            rows.append([min(value, 1.0) for value in row])
        found = encoder.encode(seen)
        np.testing.assert_allclose(found["cores"], sorted(cores) if is_sorted else cores, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(found["jobs"], rows, rtol=1e-5, atol=1e-6)


def test_encoders_by_name() -> None:
    window = SplitWindow(3, 2)
    assert isinstance(make_encoder("features", window, 8), FeatureEncoder)
    for name, order in (("flat", "by_core"), ("flat-sorted", "sorted")):
        encoder = make_encoder(name, window, 8)
        assert isinstance(encoder, FlatEncoder)
        assert encoder.order == order
    other = Simulation(BatchCluster([Job(1, 0.0, 1, 1.0, 1.0)], 4)).advance()
    assert other is not None
    with pytest.raises(InvalidConfiguration, match="num_cores: the cluster has 4, the encoder expects 8"):
        encoder.encode(other.observation)


# -- rewards and episodes ---------------------------------------------------------------------------


@pytest.mark.parametrize("rule", [Masked, Unmasked])
@pytest.mark.parametrize("arrivals", ["open", "closed"])
def test_the_waiting_cost_is_all_that_jobs_have_waited(rule: type[Masked], arrivals: Any) -> None:
    gym_env = BatchEnv(num_cores=16, num_jobs=50, window=(4, 4), arrivals=arrivals)
    for seed in range(3):
        steps = play(gym_env, rule(seed), seed=seed)
        result = gym_env.result()
        waited = 0.0
        for row in result.jobs.iter_rows(named=True):
            start = row["starting_time"]
            waited += (result.info["end_time"] if start is None else start) - row["submission_time"]
        assert waited > 0
        assert -10_000 * total(steps) == pytest.approx(waited, rel=1e-9)
        metrics = result.metrics(unfinished="include")
        assert metrics["waiting_time_mean"] * len(result.jobs) == pytest.approx(waited, rel=1e-9)


WAITS = [Job(1, 0.0, 3, 10.0, 10.0), Job(2, 1.0, 2, 5.0, 5.0), Job(3, 4.0, 4, 5.0, 5.0)]


#: When a cycle is ended: share of idle cores, queue length, sum of the waiting times; None where a job starts.
# At 0 job 1 starts. At 1 job 2 has waited 0 s, at 4 jobs 2 and 3 together 3 s, on three of four cores. At 10 job 2
# starts, and job 3 has waited 6 s; at 15 it starts.
ENDS: list[tuple[float, int, float] | None] = [None, (1 / 4, 1, 0.0), (1 / 4, 2, 3.0), None, (2 / 4, 1, 6.0), None]


@pytest.mark.parametrize("name", ["paper", "scaled"])
def test_the_rewards_of_the_paper_by_hand(name: str) -> None:
    gym_env = BatchEnv(lambda rng: BatchCluster(WAITS, 4), 4, window=(2, 0), reward=name)
    gym_env.reset(seed=0)
    longest = largest = 0.0
    for end in ENDS:
        _, reward, *over, info = gym_env.step(0 if end is None else 2)
        assert not info["invalid"]
        if end is None:
            assert reward == 0
            continue
        idle, length, waited = end
        longest, largest = max(longest, length), max(largest, waited)
        relative = length / longest + (waited / largest if waited else 0.0)
        absolute = length / 50 + waited / 1e6
        assert reward == pytest.approx(-(idle + (relative if name == "paper" else absolute)) / 3)
    assert over == [True, False]


def test_a_learner_that_waits_for_ever_is_not_told_that_all_is_done() -> None:
    gym_env = BatchEnv(lambda rng: BatchCluster(WAITS, 4), 4, window=(2, 0))
    steps = play(gym_env, lambda gym_env, seen: 2, seed=0)
    assert steps[-1][2:4] == (False, True)
    assert gym_env.result().metrics()["jobs_queued"] == 3


def test_the_first_job_that_fits_is_simple_backfilling() -> None:
    jobs = lublin.generate(300, 32, seed=4, load=1.1)
    gym_env = BatchEnv(lambda rng: BatchCluster(jobs, 32), 32, window=(300, 0))
    play(gym_env, lambda gym_env, seen: int(gym_env.action_masks().argmax()), seed=0)
    starts = gym_env.result().jobs.sort("job_id")["starting_time"]
    expected = simulate(BatchCluster(jobs, 32), SimpleBackfilling("fcfs")).jobs.sort("job_id")["starting_time"]
    assert starts.to_list() == expected.to_list()


def test_an_open_episode_ends_with_a_start_and_a_closed_one_with_its_jobs() -> None:
    jobs = lublin.generate(200, 16, seed=1, load=1.0)
    for arrivals in ("open", "closed"):
        gym_env = BatchEnv(jobs, 16, num_jobs=30, arrivals=arrivals, window=(5, 5))  # type: ignore[arg-type]
        steps = play(gym_env, Masked(), seed=2)
        metrics = gym_env.result().metrics()
        assert metrics["jobs_started"] == 30
        assert steps[-1][2:4] == (arrivals == "closed", arrivals == "open")
        assert arrivals == "open" or metrics["jobs_finished"] == metrics["jobs_submitted"] == 30


def test_episodes_begin_anywhere_in_a_trace() -> None:
    jobs = lublin.generate(120, 16, seed=1, load=1.0)
    episodes = TraceEpisodes([jobs, jobs[:40]], 16, num_jobs=20, arrivals="closed")
    assert [episodes.starts(0), episodes.starts(1)] == [101, 21]
    first = [next(iter(problem.jobs)) for problem in episodes.fixed(50, seed=3)]
    assert len({job.job_id for job in first}) > 20
    assert {job.submission_time for job in first} == {0.0}
    assert first == [next(iter(problem.jobs)) for problem in episodes.fixed(50, seed=3)]
    shifted = list(episodes.at(100, 0).jobs)
    assert [job.job_id for job in shifted] == [job.job_id for job in jobs[100:120]]
    gaps = np.diff([job.submission_time for job in shifted])
    np.testing.assert_allclose(gaps, np.diff([job.submission_time for job in jobs[100:120]]), atol=1e-9)
    window = Workload.of(jobs).windows("60jobs", warm_up="10jobs")[0]  # of an episode, all jobs are measured
    assert TraceEpisodes([window], 16, num_jobs=20).at(0).jobs.window is None
    for wrong in ({"num_jobs": 0}, {"num_jobs": 41}, {"arrivals": "ajar"}):
        with pytest.raises(InvalidConfiguration, match=str(*wrong.values())):
            TraceEpisodes([jobs, jobs[:40]], 16, **{"num_jobs": 20} | wrong)  # type: ignore[arg-type]
