"""One run of the experiments: a block of episodes, and an agent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from desim import Result, simulate
from desim.agents.batch import create
from desim.experiments.dbf.workloads import TRACE, Arrivals, episode, num_episodes
from desim.experiments.study import is_valid
from desim.problems.batch import BatchCluster
from desim.sweep import Run

ALL_JOBS = (
    "waiting_time_mean",
    "waiting_time_p99",
    "waiting_time_max",
    "bounded_slowdown_mean",
    "slowdown_mean",
    "queue_length_mean",
    "queued_load_mean",
    "utilization",
)
"""Metrics that include jobs still queued at the end, with their waiting time so far."""
STARTED_JOBS = ("waiting_time_mean", "bounded_slowdown_mean", "slowdown_mean")
"""Metrics that are also measured over started (or ended) jobs only."""

CORES = tuple(2**power for power in range(9))
"""Largest numbers of cores of the job types: 1, 2, 4, ... 256."""
TIMES = (*(round(10 ** (exponent / 2)) for exponent in range(1, 11)), 200_000)
"""Largest requested times of the job types, in seconds: half a decade each."""
WIDE = 128
"""Number of cores above which a job is wide."""


@dataclass(frozen=True)
class Setting:
    """Workload, and the episodes that are cut from it.

    Attributes
    ----------
    workload : str
        Name of a workload of :func:`desim.experiments.dbf.workloads.present`.
    arrivals : {"open", "closed"}
        Whether jobs keep arriving until num_jobs have started, or num_jobs arrive and all of them finish.
    num_jobs : int
        Number of jobs per episode.
    episodes : int
        Number of episodes per run.
    check : bool
        Whether to check the records with `desim.validation`.
    """

    workload: str = TRACE
    arrivals: Arrivals = "open"
    num_jobs: int = 1_000
    episodes: int = 5
    check: bool = False


def perform(run: Run) -> dict[str, Any]:
    """Simulate a block of episodes; its number is the seed of the run.

    Parameters
    ----------
    run : Run
        Run of a :class:`Setting` and a :class:`~desim.experiments.frame.Choice`.

    Returns
    -------
    dict
        Means over the episodes of :data:`ALL_JOBS`, and, prefixed with ``started_``, of :data:`STARTED_JOBS`; for
        agents with a window, means over decisions: ``invisible_jobs`` beyond the window, ``hidden_share`` of decisions
        with such jobs, and ``seen_queue_length``; ``wide_share``, the share of wide jobs that started, and
        ``wide_waiting_time_max``; ``valid``, None if unchecked. Curves by type, numbered by cores and then by time:
        number of ``placed`` jobs, and the sum of their ``waits``.
    """
    setting: Setting = run.setting
    first, most = run.seed * setting.episodes, num_episodes(setting.workload, setting.num_jobs)
    rows, valid = [], True
    types = np.zeros((2, len(CORES) * len(TIMES)))
    for number in range(first, min(first + setting.episodes, most)):
        problem = episode(setting.workload, number, setting.num_jobs, setting.arrivals)
        result, counts = play(problem, create(run.agent.policy), number)
        rows.append({**_measure(result), **counts})
        types += by_type(result)
        valid = valid and is_valid(result, check=setting.check) is not False
    placed = types[0].nonzero()[0].tolist()
    return {
        **{name: _mean([row[name] for row in rows]) for name in rows[0]},
        "valid": valid if setting.check else None,
        "by type": {
            "placed": {place: float(types[0, place]) for place in placed},
            "waits": {place: float(types[1, place]) for place in placed},
        },
    }


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def _measure(result: Result) -> dict[str, float | None]:
    included, started = (result.metrics(unfinished=which) for which in ("include", "exclude"))
    cores, _, waits, is_started = _columns(result)
    wide = cores > WIDE
    return {
        **{name: included[name] for name in ALL_JOBS},
        **{f"started_{name}": started[name] for name in STARTED_JOBS},
        "wide_share": float(is_started[wide].mean()) if wide.any() else None,
        "wide_waiting_time_max": float(waits[wide].max()) if wide.any() else None,
    }


class Watched:
    """Agent that answers as another one does, whose properties it has, and remembers the lengths of the queue.

    Parameters
    ----------
    agent : Agent
        The other agent.
    """

    def __init__(self, agent: Any) -> None:
        self.agent = agent
        self.lengths: list[int] = []

    def __getattr__(self, name: str) -> Any:
        """Return a property of the other agent."""
        return getattr(self.agent, name)

    def act(self, observation: Any) -> Any:
        """Return the answer of the other agent."""
        self.lengths.append(len(observation.queue))
        return self.agent.act(observation)


def play(problem: BatchCluster, agent: Any, seed: int) -> tuple[Result, dict[str, float | None]]:
    """Simulate an episode, and count jobs of the queue that the agent cannot see.

    Parameters
    ----------
    problem : BatchCluster
        Episode to simulate.
    agent : Agent
        Agent, with a window or with a view of the whole queue.
    seed : int
        Seed of the simulation.
    """
    watched = Watched(agent)
    result = simulate(problem, watched, seed=seed)
    window = getattr(getattr(agent, "encoder", agent), "window", None)
    lengths = watched.lengths
    counts: dict[str, float | None] = dict.fromkeys(("invisible_jobs", "hidden_share", "seen_queue_length"))
    if window is not None and lengths:
        beyond = np.maximum(np.array(lengths) - window.size, 0)
        figures = (beyond.mean(), (beyond > 0).mean(), np.mean(lengths))
        counts = dict(zip(counts, map(float, figures), strict=True))
    return result, counts


def by_type(result: Result) -> NDArray[np.float64]:
    """Return the number of started jobs, and the sum of their waiting times in seconds, by job type.

    Parameters
    ----------
    result : Result
        Result of a run.

    Returns
    -------
    array of shape (2, types)
        Types by cores and then by time; a job that exceeds all types counts with the largest.
    """
    cores, times, waits, started = _columns(result)
    row = np.minimum(np.searchsorted(CORES, cores[started]), len(CORES) - 1)
    column = np.minimum(np.searchsorted(TIMES, times[started]), len(TIMES) - 1)
    found = np.zeros((2, len(CORES) * len(TIMES)))
    np.add.at(found[0], row * len(TIMES) + column, 1.0)
    np.add.at(found[1], row * len(TIMES) + column, waits[started])
    return found


def _columns(result: Result) -> tuple[Any, Any, Any, Any]:
    """Return cores, requested times, waiting times so far, and whether each job started."""
    jobs = result.jobs
    start = jobs["starting_time"].cast(float).fill_null(np.nan).to_numpy()
    started = ~np.isnan(start)
    until = np.where(started, start, result.info["end_time"])
    cores = jobs["requested_number_of_resources"].to_numpy()
    return cores, jobs["requested_time"].to_numpy(), until - jobs["submission_time"].to_numpy(), started
