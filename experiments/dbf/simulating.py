"""One run of the experiments: a block of episodes, and an agent."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from desim import Result
from desim.agents.batch import create as create_by_name
from desim.core import Agent
from desim.experiments.dbf.playing import REWARDS, Played, play
from desim.experiments.dbf.workloads import TRACE, Arrivals, episode
from desim.experiments.run import Choice, is_valid
from desim.sweep import Run

__all__ = ["BLOCK", "METRICS", "Choice", "Setting", "create", "numbers_of", "perform", "play_block"]

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
"""What is kept of an episode, see the metrics of batch and :class:`desim.experiments.dbf.playing.Played`."""


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
    """Return the numbers of the episodes of a run, whose seed is that of its block."""
    size: int = run.setting.episodes
    return list(range(run.seed * size, (run.seed + 1) * size))


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
