"""What a list plan does, for networks to imitate.

Some of its decisions are replaced by random ones, so that there are demonstrations of what to do behind mistakes:
Laskey, Lee, Fox, Dragan and Goldberg, "DART: noise injection for robust imitation learning", CoRL 2017.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.random import Generator
from numpy.typing import NDArray
from torch import Tensor

from desim import simulate
from desim.agents.deferrable.auxiliary import KNOWN, TARGETS, TASKS, seen_of
from desim.agents.deferrable.fitting import first_fitting
from desim.agents.deferrable.list_plan import planned_starts
from desim.agents.deferrable.score_agent import ScoreConfig
from desim.agents.learning.distributions import Distribution, Gaussian
from desim.agents.learning.experience import Arrays
from desim.problems.deferrable import DeferrableCluster, DeferrableObservation
from desim.problems.deferrable.observation import LATER

__all__ = ["EXPERT", "Demonstrator", "agreement", "demonstrations", "distance"]

Episodes = Callable[[Generator], DeferrableCluster]
"""Draws the cluster of an episode."""

EXPERT = "expert"
"""Part of an observation: the scores that lead to what the planner did."""
_STARTED, _EACH, _NEVER = 0.25, 0.05, 0.75
NOISE = (0.0, 0.05, 0.1, 0.3)


class Demonstrator:
    """A list plan that notes what is seen and what it would start, and now and then starts something else."""

    name = "demonstrator"

    def __init__(self, config: ScoreConfig, rng: Generator) -> None:
        self.encoder = config.encoder()
        self.rng = rng
        self.noise = float(rng.choice(np.array(NOISE)))
        self.noted: list[Arrays] = []
        self.last: Arrays | None = None

    def reset(self, simulation_info: Mapping[str, Any], rng: Generator) -> None:
        """Begin a run."""
        self.last = None

    def act(self, observation: DeferrableObservation) -> list[int]:
        """Return positions of the jobs to be started."""
        number = len(observation.current)
        arrays = self.encoder.encode(observation)
        if self.last is not None:
            self.last[TARGETS], self.last[KNOWN] = seen_of(arrays["history"][-1], self.encoder.num_resources)
            self.last = None
        if not number:
            return []
        waits = planned_starts(observation, "best")
        started = np.flatnonzero(waits[:number] == 0).tolist()
        scores = self._wanted(waits, number)
        nothing = np.zeros(len(TASKS), np.float32)
        self.last = arrays | {EXPERT: scores, TARGETS: nothing, KNOWN: nothing}
        self.noted.append(self.last)
        if self.rng.random() >= self.noise:
            return started
        order = self.rng.permutation(number)[self.rng.random(number) < self.rng.random()]
        room = (observation.limit - observation.used)[None, :]
        return first_fitting(observation.current, order, room, skip=True)

    def _wanted(self, waits: NDArray[np.int64], number: int) -> NDArray[np.float32]:
        """Return the scores that lead to a plan: the sooner a job is to start the higher, above 0 if now."""
        wanted = np.where(waits == LATER, -_NEVER, -np.minimum(_STARTED + _EACH * (waits - 1), _NEVER))
        wanted[waits == 0] = _STARTED
        if self.encoder.rule != "reserve":  # no job keeps its place, so it is all the same how long it waits
            wanted = np.sign(wanted) * _STARTED
        scores = np.zeros(self.encoder.num_scores, np.float32)
        room = self.encoder.max_jobs
        current, future = wanted[:number][:room], wanted[number:]
        scores[: len(current)] = current
        behind = scores[room:]
        behind[: len(future)] = future[: len(behind)]
        return scores


def demonstrations(
    config: ScoreConfig,
    episodes: Episodes,
    seeds: Sequence[np.random.SeedSequence],
    *,
    num_workers: int = 0,
) -> tuple[Arrays, NDArray[np.float32]]:
    """Return what is seen, and what a list plan does, in some episodes.

    Parameters
    ----------
    config : ScoreConfig
        Who is to imitate it: says what is seen.
    episodes : callable
        Draws the cluster of each.
    seeds : sequence of numpy.random.SeedSequence
        One for each episode, and for the noise in it.
    num_workers : int
        Processes that simulate, which changes nothing else; 0 simulates in this one.

    Returns
    -------
    tuple of dict of str to array of shape (S, ...) and array of shape (S, max_jobs)
        Encoded observations with a job to be started, and scores: above 0 for the jobs that were started.
    """
    parallel = Parallel(n_jobs=max(num_workers, 1))
    parts: list[list[Arrays]] = parallel(delayed(_demonstrated)(config, episodes, seed) for seed in seeds)
    noted = [one for part in parts for one in part]
    empty = {EXPERT: np.zeros((0, config.encoder().num_scores), np.float32)}
    arrays = {name: np.stack([one[name] for one in noted]) for name in noted[0]} if noted else empty
    return arrays, arrays.pop(EXPERT)


def _demonstrated(config: ScoreConfig, episodes: Episodes, seed: np.random.SeedSequence) -> list[Arrays]:
    """Return what was noted in an episode."""
    rng = np.random.default_rng(seed)
    demonstrator = Demonstrator(config, rng)
    simulate(episodes(rng), demonstrator)
    return demonstrator.noted


def agreement(likely: Tensor, wanted: Tensor) -> Tensor:
    """Tell in which decisions the same jobs have a score above 0, shape (B,)."""
    return ((likely > 0) == (wanted > 0)).all(1)


def distance(distribution: Distribution, wanted: Tensor) -> Tensor:
    """Return how far scores are from what the expert did, shape (B,).

    The mean scores are drawn towards a quarter above and below 0, where noise still turns some of them around: a policy
    that is sure of everything has nothing to learn from.
    """
    if not isinstance(distribution, Gaussian):
        return -distribution.log_prob(wanted)
    errors = (distribution.mean - wanted).square()
    return (errors * distribution.mask).sum(1)
