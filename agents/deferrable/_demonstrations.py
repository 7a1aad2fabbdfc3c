"""What a rolling horizon does, for networks to imitate.

Some of its decisions are replaced by random ones, so that there are demonstrations of what to do behind mistakes:
Laskey, Lee, Fox, Dragan and Goldberg, "DART: noise injection for robust imitation learning", CoRL 2017.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from joblib import Parallel, delayed
from numpy.random import Generator
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from agents.deferrable._training_episodes import DeferrableEpisodes
from agents.deferrable.auxiliary import KNOWN, TARGETS, TASKS, seen_of
from agents.deferrable.fitting import first_fitting
from agents.deferrable.rolling_horizon import RollingHorizon
from agents.deferrable.score_agent import ScoreConfig
from agents.learning.distributions import Distribution, Gaussian
from desim import simulate
from desim.envs.deferrable import CURRENT_FEATURES, FUTURE_FEATURES, HISTORY_FEATURES, SYSTEM_FEATURES
from desim.problems.deferrable import DeferrableObservation
from desim.records import write_atomically

__all__ = ["agreement", "demonstrations", "distance"]

Arrays = dict[str, NDArray[Any]]

EXPERT = "expert"
_STARTED = 0.5
_SHARPNESS = 4.0
_NOISE = (0.0, 0.05, 0.1, 0.3)


class _Demonstrator:
    """A rolling horizon that notes what it sees and would start, and now and then starts something else."""

    name = "demonstrator"

    def __init__(self, config: ScoreConfig, rng: Generator) -> None:
        self.expert = RollingHorizon(time_limit=60.0)
        self.encoder = config.encoder()
        self.rng = rng
        self.noise = float(rng.choice(np.array(_NOISE)))
        self.noted: list[Arrays] = []
        self.last: Arrays | None = None

    def reset(self, simulation_info: Mapping[str, Any], rng: Generator) -> None:
        """Begin a run."""
        self.expert.reset(dict(simulation_info), rng)

    def act(self, observation: DeferrableObservation) -> list[int]:
        """Return positions of the jobs to be started."""
        number = len(observation.current)
        arrays = self.encoder.encode(observation)
        if self.last is not None:
            self.last[TARGETS], self.last[KNOWN] = seen_of(arrays["history"][-1], self.encoder.num_resources)
            self.last = None
        if not number:
            return []
        started = self.expert.act(observation)
        scores = np.zeros(self.encoder.max_jobs, np.float32)
        scores[:number] = -_STARTED
        scores[[position for position in started if position < self.encoder.max_jobs]] = _STARTED
        nothing = np.zeros(len(TASKS), np.float32)
        self.last = arrays | {EXPERT: scores, TARGETS: nothing, KNOWN: nothing}
        self.noted.append(self.last)
        if self.rng.random() >= self.noise:
            return started
        order = self.rng.permutation(number)[self.rng.random(number) < self.rng.random()]
        room = (observation.limit - observation.used)[None, :]
        return first_fitting(observation.current, order, room, skip=True)


def demonstrations(
    config: ScoreConfig,
    episodes: DeferrableEpisodes,
    seeds: Sequence[np.random.SeedSequence],
    *,
    directory: Path | None = None,
    num_workers: int = 0,
) -> tuple[Arrays, NDArray[np.float32]]:
    """Return what a rolling horizon sees and does in some episodes.

    Parameters
    ----------
    config : ScoreConfig
        Who is to imitate it: says what is seen.
    episodes : DeferrableEpisodes
        Where.
    seeds : sequence of numpy.random.SeedSequence
        One for each episode, and for the noise in it.
    directory : Path, optional
        Where demonstrations are kept, so that other trainings with the same need not make them again.
    num_workers : int
        Processes that simulate, which changes nothing else; 0 simulates in this one.

    Returns
    -------
    tuple of dict of str to array of shape (S, ...) and array of shape (S, max_jobs)
        Encoded observations with a job to be started, and scores: above 0 for the jobs that were started.

    Raises
    ------
    RecordError
        If they cannot be kept.
    """
    path = None if directory is None else directory / f"demonstrations-{_key(config, episodes, seeds)}.npz"
    if path is not None and path.exists():
        with np.load(path) as stored:
            arrays = {name: stored[name] for name in stored.files}
        return arrays, arrays.pop(EXPERT)
    parallel = Parallel(n_jobs=max(num_workers, 1))
    parts: list[list[Arrays]] = parallel(delayed(_demonstrated)(config, episodes, seed) for seed in seeds)
    noted = [one for part in parts for one in part]
    empty = {EXPERT: np.zeros((0, config.max_jobs), np.float32)}
    arrays = {name: np.stack([one[name] for one in noted]) for name in noted[0]} if noted else empty
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, partial(_write, arrays))
    return arrays, arrays.pop(EXPERT)


def _demonstrated(config: ScoreConfig, episodes: DeferrableEpisodes, seed: np.random.SeedSequence) -> list[Arrays]:
    """Return what was noted in an episode."""
    rng = np.random.default_rng(seed)
    demonstrator = _Demonstrator(config, rng)
    simulate(episodes(rng), demonstrator)
    return demonstrator.noted


def _key(config: ScoreConfig, episodes: DeferrableEpisodes, seeds: Sequence[np.random.SeedSequence]) -> str:
    """Return what demonstrations depend on, as a short text."""
    encoder = config.encoder()
    told = {name: list(space.shape or ()) for name, space in encoder.observation_space.items()}
    names = [list(CURRENT_FEATURES), list(FUTURE_FEATURES), list(HISTORY_FEATURES), list(SYSTEM_FEATURES)]
    key = [told, names, TASKS, asdict(episodes), [seed.generate_state(2).tolist() for seed in seeds]]
    return hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:16]


def _write(arrays: Arrays, path: Path) -> None:
    with path.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **arrays)


def agreement(likely: Tensor, wanted: Tensor) -> Tensor:
    """Tell in which decisions the same jobs have a score above 0, shape (B,)."""
    return ((likely > 0) == (wanted > 0)).all(1)


def distance(distribution: Distribution, wanted: Tensor) -> Tensor:
    """Return how far scores are from what the expert did, shape (B,).

    Which of many equal jobs a plan starts is chance, so scores of a normal distribution are taken as the odds that a
    job is started, and cross-entropy makes them so.
    """
    if not isinstance(distribution, Gaussian):
        return -distribution.log_prob(wanted)
    odds = _SHARPNESS * torch.atanh(distribution.mean.clamp(-0.9999, 0.9999))
    errors = binary_cross_entropy_with_logits(odds, (wanted > 0).to(odds), reduction="none")
    return (errors * distribution.mask).sum(1)
