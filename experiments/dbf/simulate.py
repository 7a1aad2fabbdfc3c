"""One run of the experiments: a block of episodes, and an agent.

Episodes with a trained agent are played together, so that its network decides for all of them at once. What an agent
does is what it does in :func:`desim.simulate`. Beside the records, it is counted how often and how far the queue was
longer than the window, what was earned under several rewards, and what became of jobs of each type, that is by
requested cores and run time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from desim import Result, Simulation
from desim.agents.batch import create as create_by_name
from desim.agents.batch.split_window import SplitWindowAgent
from desim.agents.batch.window_rules import WindowRule
from desim.agents.learning.policy import to_tensors
from desim.core import Agent
from desim.experiments.dbf.workloads import TRACE, Arrivals, episode, most_episodes
from desim.experiments.measured import Choice, is_valid
from desim.problems.batch import BatchCluster
from desim.problems.batch.env import make_reward
from desim.sweep import Run

__all__ = [
    "BLOCK",
    "CORES",
    "METRICS",
    "REWARDS",
    "TIMES",
    "WIDE",
    "WIDE_METRICS",
    "Played",
    "Setting",
    "create",
    "perform",
    "perform_by_type",
    "play",
]

REWARDS = ("paper", "scaled", "waiting")
"""The rewards that are collected, see :mod:`desim.problems.batch.env`."""

#: Episodes of a run.
BLOCK = 10

ALL_JOBS = {
    "waiting_time_mean": "waiting_time_mean",
    "waiting_time_p99": "waiting_time_p99",
    "waiting_time_max": "waiting_time_max",
    "bounded_slowdown_mean": "bounded_slowdown_mean",
    "queue_length_mean": "queue_length_mean",
    "queued_load_mean": "queued_load_mean",
    "utilization": "utilization",
    "jobs_queued": "jobs_queued",
}
"""Metrics in which jobs that are still queued at the end count with their waiting time so far."""
STARTED_JOBS = {f"started_{name}": name for name in ("waiting_time_mean", "waiting_time_p99", "waiting_time_max")}
"""Metrics of the jobs that were started."""
COUNTS = ("num_decisions", "num_cycles", "invisible_jobs", "hidden_share", *(f"return_{name}" for name in REWARDS))

METRICS = (*ALL_JOBS, *STARTED_JOBS, *COUNTS)
"""What is kept of an episode, see the metrics of batch and :class:`Played`."""


@dataclass(frozen=True)
class Setting:
    """A workload, and how episodes are cut from it.

    Attributes
    ----------
    workload : str
        Of :func:`desim.experiments.dbf.workloads.present`.
    arrivals : {"open", "closed"}
        Whether jobs go on arriving until num_jobs have been started, or num_jobs arrive and all are finished.
    num_jobs : int
        Jobs of an episode.
    episodes : int
        Episodes of a run, which are simulated together.
    check : bool
        Check the records with `desim.validation`.
    """

    workload: str = TRACE
    arrivals: Arrivals = "open"
    num_jobs: int = 1_000
    episodes: int = BLOCK
    check: bool = False


def create(choice: Choice) -> Agent:
    """Return a new agent.

    Parameters
    ----------
    choice : Choice
        A name of :func:`desim.agents.batch.create`. Its parameters only tell weights apart.

    Returns
    -------
    Agent
        The agent.
    """
    return create_by_name(choice.policy)


def numbers_of(run: Run) -> list[int]:
    """Return the numbers of the episodes of a run, whose seed is that of its block; the last block may hold fewer."""
    setting: Setting = run.setting
    size, most = setting.episodes, most_episodes(setting.workload, setting.num_jobs)
    return list(range(run.seed * size, min((run.seed + 1) * size, most)))


def play_block(run: Run) -> list[Played]:
    """Simulate the episodes of a run.

    Parameters
    ----------
    run : Run
        Of a :class:`Setting` and a :class:`Choice`.

    Returns
    -------
    list of Played
        One an episode.
    """
    setting: Setting = run.setting
    numbers = numbers_of(run)
    problems = [episode(setting.workload, number, setting.num_jobs, setting.arrivals) for number in numbers]
    return play(problems, lambda: create(run.agent), numbers)


def perform(run: Run) -> dict[str, Any]:
    """Simulate and measure the episodes of a run.

    Parameters
    ----------
    run : Run
        Of a :class:`Setting` and a :class:`Choice`.

    Returns
    -------
    dict
        :data:`METRICS`, each a list with a value for each episode; ``seconds`` of wall time; ``valid``, None if
        unchecked.
    """
    started = time.perf_counter()
    played = play_block(run)
    seconds = time.perf_counter() - started
    rows = [{**_measure(one.result), **one.counts} for one in played]
    return {
        **{name: [row[name] for row in rows] for name in METRICS},
        "seconds": seconds,
        "valid": valid(played, check=run.setting.check),
    }


def _measure(result: Result) -> dict[str, float]:
    included, started = (result.metrics(unfinished=which) for which in ("include", "exclude"))
    return {
        **{name: included[metric] for name, metric in ALL_JOBS.items()},
        **{name: started[metric] for name, metric in STARTED_JOBS.items()},
    }


def valid(played: list[Played], *, check: bool) -> bool | None:
    """Check the records of all episodes if that is asked for; None if it is not."""
    if not check:
        return None
    return all(is_valid(one.result, check=True) for one in played)


# -- playing ----------------------------------------------------------------------------------------


class Played(NamedTuple):
    """An episode that is over.

    Attributes
    ----------
    result : Result
        Its records.
    counts : dict of str to float or None
        ``num_decisions``; ``num_cycles``, which the agent has ended; ``invisible_jobs``, by which the queue was longer
        than the window, and ``hidden_share`` of the decisions at which it was, means over decisions;
        ``return_REWARD``. All but the first are None for an agent without a window.
    """

    result: Result
    counts: Mapping[str, float | None]


class _Episode:
    """A simulation, its pending decision, and what is counted."""

    def __init__(self, problem: BatchCluster, seed: int, agent: Agent) -> None:
        attach = getattr(agent, "attach", None)  # agents that look ahead need forks, as in `simulate`
        self.simulation = simulation = Simulation(problem, seed=seed, log_actions=attach is not None)
        if attach is not None:
            attach(partial(simulation.fork, foresight=False))
        self.window = window = _window_of(agent)
        self.window = window
        self.rewards = {} if window is None else {name: make_reward(name) for name in REWARDS}
        for reward in self.rewards.values():
            reward.reset(self.simulation)
        self.decisions = self.cycles = self.hidden = self.invisible = 0
        self.decision = self.simulation.advance()

    def answer(self, answer: Any) -> None:
        """Answer the decision and go on to the next."""
        assert self.decision is not None
        self.decisions += 1
        if self.window is not None:
            beyond = len(self.decision.observation.queue) - self.window
            if beyond > 0:
                self.hidden += 1
                self.invisible += beyond
            self.cycles += answer is None
        self.decision.answer(answer)
        for reward in self.rewards.values():
            reward.answered(answer)  # it sees what the answer has done
        self.decision = self.simulation.advance()

    def end(self, name: str) -> Played:
        """Close the records."""
        returns = {f"return_{reward}": self.rewards[reward].collect() if self.rewards else None for reward in REWARDS}
        seen = self.window is not None
        number = max(self.decisions, 1)
        counts = {
            "num_decisions": self.decisions,
            "num_cycles": self.cycles if seen else None,
            "invisible_jobs": self.invisible / number if seen else None,
            "hidden_share": self.hidden / number if seen else None,
            **returns,
        }
        return Played(self.simulation.finish(agent=name), counts)


def play(problems: Sequence[BatchCluster], make_agent: Callable[[], Agent], seeds: Sequence[int]) -> list[Played]:
    """Let an agent act through episodes.

    Parameters
    ----------
    problems : sequence of BatchCluster
        The episodes.
    make_agent : callable
        Returns a new agent.
    seeds : sequence of int
        One for each episode, as for :func:`desim.simulate`.

    Returns
    -------
    list of Played
        In order.
    """
    agent = make_agent()
    name = getattr(agent, "name", type(agent).__name__)
    if isinstance(agent, SplitWindowAgent):
        episodes = [_Episode(problem, seed, agent) for problem, seed in zip(problems, seeds, strict=True)]
        for one in episodes:
            agent.reset(one.simulation.problem.describe(), one.simulation.stream("agent"))
        _play_together(agent, episodes)
        return [one.end(name) for one in episodes]
    played = []
    for problem, seed in zip(problems, seeds, strict=True):
        one = _Episode(problem, seed, agent)
        reset = getattr(agent, "reset", None)
        if reset is not None:
            reset(one.simulation.problem.describe(), one.simulation.stream("agent"))
        while one.decision is not None:
            one.answer(agent.act(one.decision.observation))
        played.append(one.end(name))
    return played


def _window_of(agent: Agent) -> int | None:
    """Return the size of the window that an agent sees; None if it sees the whole queue."""
    if isinstance(agent, SplitWindowAgent):
        return agent.encoder.window.size
    return agent.window.size if isinstance(agent, WindowRule) else None


def _play_together(agent: SplitWindowAgent, episodes: Sequence[_Episode]) -> None:
    """Take the most likely action in all episodes at once, again and again."""
    encoder = agent.encoder
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # batches are small, and threads that wait for them only cost
    try:
        with torch.inference_mode():
            while asking := [one for one in episodes if _goes_to_choice(agent, one)]:
                seen = [one.decision.observation for one in asking if one.decision is not None]
                encoded = [encoder.encode(observation) for observation in seen]
                batch = {key: np.stack([arrays[key] for arrays in encoded]) for key in encoded[0]}
                distribution, _ = agent.policy(to_tensors(batch))
                for one, observation, action in zip(asking, seen, distribution.mode().tolist(), strict=True):
                    one.answer(encoder.decode(observation, action)[0])
    finally:
        torch.set_num_threads(threads)


def _goes_to_choice(agent: SplitWindowAgent, one: _Episode) -> bool:
    """Wait where there is no choice; tell whether a decision is left."""
    while one.decision is not None and agent.encoder.forced(one.decision.observation):
        one.answer(None)
    return one.decision is not None


# -- types of jobs ----------------------------------------------------------------------------------

CORES = tuple(2**power for power in range(9))
"""Most cores of a type: 1, 2, 4, ... 256."""
TIMES = (*(round(10 ** (exponent / 2)) for exponent in range(1, 11)), 200_000)
"""Most seconds of a type: half a decade each."""
WIDE = 128
"""Jobs with more cores than this are wide."""

WIDE_METRICS = ("wide_submitted", "wide_started", "wide_share", "wide_waiting_time_mean", "wide_waiting_time_max")
"""Of wide jobs: how many have arrived and have started, the share of these, and waiting times of all so far."""
BASIC = ("waiting_time_mean", "waiting_time_p99", "waiting_time_max")


def perform_by_type(run: Run) -> dict[str, Any]:
    """Simulate a run and measure jobs by type.

    Parameters
    ----------
    run : Run
        Of a :class:`Setting` and a :class:`~desim.experiments.measured.Choice`.

    Returns
    -------
    dict
        ``placed`` and ``placed_waits``, nested lists of shape (types by cores, types by time), the jobs that were
        started in all episodes together and the sum of their waiting times in seconds; :data:`WIDE_METRICS` and waiting
        times of all jobs, a value for each episode; ``valid``, None if unchecked.
    """
    played = play_block(run)
    placed, waits = np.zeros((len(CORES), len(TIMES))), np.zeros((len(CORES), len(TIMES)))
    rows = []
    for one in played:
        counted, summed = by_type(one.result)
        placed, waits = placed + counted, waits + summed
        rows.append(_measure_wide(one))
    return {
        **{name: [row[name] for row in rows] for name in rows[0]},
        "placed": placed.tolist(),
        "placed_waits": waits.tolist(),
        "valid": valid(played, check=run.setting.check),
    }


def by_type(result: Result) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the number of jobs that were started, and the sum of their waiting times in seconds, by type.

    Parameters
    ----------
    result : Result
        A run.

    Returns
    -------
    tuple of array of shape (types by cores, types by time)
        A job with more cores or a longer time than all types have counts with the largest.
    """
    cores, times, waits, started = _columns(result)
    row = np.minimum(np.searchsorted(CORES, cores[started]), len(CORES) - 1)
    column = np.minimum(np.searchsorted(TIMES, times[started]), len(TIMES) - 1)
    counted, summed = np.zeros((len(CORES), len(TIMES))), np.zeros((len(CORES), len(TIMES)))
    np.add.at(counted, (row, column), 1.0)
    np.add.at(summed, (row, column), waits[started])
    return counted, summed


def _columns(result: Result) -> tuple[Any, Any, Any, Any]:
    """Return cores, requested times, waiting times so far, and whether each job was started."""
    jobs = result.jobs
    start = jobs["starting_time"].cast(float).fill_null(np.nan).to_numpy()
    started = ~np.isnan(start)
    until = np.where(started, start, result.info["end_time"])
    cores = jobs["requested_number_of_resources"].to_numpy()
    return cores, jobs["requested_time"].to_numpy(), until - jobs["submission_time"].to_numpy(), started


def _measure_wide(one: Played) -> dict[str, float | None]:
    cores, _, waits, started = _columns(one.result)
    wide = cores > WIDE
    metrics = one.result.metrics(unfinished="include")
    some = bool(wide.any())
    return {
        **{name: metrics[name] for name in BASIC},
        "wide_submitted": float(wide.sum()),
        "wide_started": float((wide & started).sum()),
        "wide_share": float(started[wide].mean()) if some else None,
        "wide_waiting_time_mean": float(waits[wide].mean()) if some else None,
        "wide_waiting_time_max": float(waits[wide].max()) if some else None,
    }
