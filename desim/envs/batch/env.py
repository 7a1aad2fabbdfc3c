"""The batch cluster as a Gymnasium environment."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, cast

import numpy as np

from desim import plugins
from desim.envs.base import Encoder, Episodes, Reward, SchedulingEnv
from desim.envs.batch.episodes import TraceEpisodes
from desim.envs.batch.feature_encoder import FeatureEncoder
from desim.envs.batch.flat_encoder import FlatEncoder
from desim.envs.batch.rewards import make_reward
from desim.envs.batch.window import SplitWindow, WindowEncoder
from desim.exceptions import InvalidConfiguration
from desim.problem import Problem
from desim.problems.batch import Job

__all__ = ["BatchEnv", "make_encoder"]


class BatchEnv(SchedulingEnv):
    """``desim/Batch-v0``: which job in a split window starts next, or none.

    The action space is Discrete(M + 1): a slot of the window, or M, which ends the scheduling cycle.

    Parameters
    ----------
    jobs : sequence of Job, or callable, optional
        A trace that episodes are cut from, or what makes the problem of an episode from a random generator. By
        default, jobs of the Lublin-Feitelson model are drawn once for the environment, at an offered load of 1, see
        :func:`desim.workloads.episodes.batch`.
    num_cores : int
        Cores of the cluster.
    window : tuple of two ints, or sequence of such tuples
        Slots at the head and at the tail of the queue. Of several windows, each episode has one, at random; the arrays
        have as many slots as the largest.
    observation : {"features", "flat"} or Encoder
        What is seen: features of jobs and cluster, or the observation of the DBF paper.
    reward : {"waiting", "paper", "scaled"} or Reward
        What is earned.
    num_jobs : int
        Jobs of an episode.
    arrivals : {"open", "closed"}
        Whether jobs go on arriving until num_jobs have been started, or num_jobs arrive and all are finished.
    until : float
        An episode is truncated at this time, in seconds.
    max_decisions : int, optional
        And after so many decisions; by default, 20 times num_jobs.
    skip_forced : bool
        Do not ask where no job in the window may start.
    reserve_after : float
        Once the oldest queued job has waited for so long, in seconds, jobs that would delay it are not possible; for
        features.
    workload_seed : int
        Of the default jobs.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range.
    MissingDependency
        If there is no package that makes the default jobs.
    """

    def __init__(
        self,
        jobs: Sequence[Job] | Episodes | None = None,
        num_cores: int = 256,
        *,
        window: tuple[int, int] | Sequence[tuple[int, int]] = (16, 16),
        observation: str | Encoder = "features",
        reward: str | Reward = "waiting",
        num_jobs: int = 1_000,
        arrivals: Literal["open", "closed"] = "open",
        until: float = math.inf,
        max_decisions: int | None = None,
        skip_forced: bool = False,
        reserve_after: float = math.inf,
        workload_seed: int = 0,
    ) -> None:
        if jobs is None:
            make = plugins.episode_workload("batch")
            rng = np.random.default_rng(workload_seed)
            jobs = cast(list[Job], make(rng, num_jobs=10 * num_jobs, num_cores=num_cores, load=1.0))
        if not callable(jobs):
            jobs = TraceEpisodes([jobs], num_cores, num_jobs=num_jobs, arrivals=arrivals)
        self._workload = jobs
        self.windows = _windows(window)
        slots = max(one.size for one in self.windows)
        if isinstance(observation, str):
            observation = make_encoder(
                observation, self.windows[0], num_cores, slots=slots, reserve_after=reserve_after
            )
        super().__init__(
            self._episode,
            observation,
            make_reward(reward),
            until=until,
            max_decisions=20 * num_jobs if max_decisions is None else max_decisions,
            skip_forced=skip_forced,
        )

    def _episode(self, rng: np.random.Generator) -> Problem:
        """Choose a window, if there are several, and the jobs."""
        if len(self.windows) > 1:
            self.encoder.window = self.windows[int(rng.integers(len(self.windows)))]  # type: ignore[attr-defined]
        return self._workload(rng)


def _windows(window: tuple[int, int] | Sequence[tuple[int, int]]) -> list[SplitWindow]:
    if not window:
        raise InvalidConfiguration("there is no window: want slots at the head and at the tail")
    given = [window] if isinstance(window[0], int) else window
    return [SplitWindow(*one) for one in given]  # type: ignore[misc]  # either is a sequence of pairs now


def make_encoder(
    observation: str,
    window: SplitWindow,
    num_cores: int,
    *,
    slots: int | None = None,
    reserve_after: float = math.inf,
) -> WindowEncoder:
    """Return an encoder by its name.

    Parameters
    ----------
    observation : str
        ``"features"``, ``"flat"`` or ``"flat-sorted"``.
    window : SplitWindow
        Which jobs are seen.
    num_cores : int
        Cores of the cluster.
    slots : int, optional
        Slots of the arrays, for features; as many as the window has if left out.
    reserve_after : float
        When the oldest job gets a reservation, in seconds of waiting, for features.

    Returns
    -------
    WindowEncoder
        To be used by any number of environments and agents.

    Raises
    ------
    InvalidConfiguration
        If there is none of this name, or it is bound to its window and more slots are wanted.
    """
    if observation == "features":
        return FeatureEncoder(window, slots, reserve_after=reserve_after)
    if slots not in (None, window.size) or reserve_after < math.inf:
        raise InvalidConfiguration(f"the observation {observation!r} is for one window, and knows no reservation")
    if observation == "flat":
        return FlatEncoder(window, num_cores)
    if observation == "flat-sorted":
        return FlatEncoder(window, num_cores, order="sorted")
    raise InvalidConfiguration(f"no observation {observation!r}; there are features, flat, flat-sorted")
