"""Deferrable jobs, capacity and what is used of it as arrays; actions are scores of the jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import gymnasium
import numpy as np
from numpy.typing import NDArray

from desim.envs.base import ACTION_MASK, Arrays
from desim.envs.scaling import bounded, compressed
from desim.exceptions import InvalidConfiguration
from desim.problems.deferrable import DeferrableObservation

__all__ = ["CURRENT_FEATURES", "FUTURE_FEATURES", "SYSTEM_FEATURES", "ScoreEncoder"]

Floats = NDArray[np.float64]

CURRENT_FEATURES = ("present", "fits", "duration", "slots_left", "delay", "notice", "evictions")
"""The first columns of ``current``, counts compressed; what a job requests of each resource follows, over the scale."""

FUTURE_FEATURES = ("present", "slots_until_window", "window_length", "duration")
"""The first columns of ``future``; requests follow as for ``current``."""

SYSTEM_FEATURES = (
    "progress",
    "current_jobs",
    "invisible_current_jobs",
    "future_jobs",
    "invisible_future_jobs",
    "running_jobs",
)
"""The first entries of ``system``; capacity, what is used, and what is free of each resource follow, over the scale."""

_HIGHEST = 100.0


class ScoreEncoder:
    """The first jobs whose window is open, those whose window is to open, and the capacity so far.

    An action has a score for each of the ``max_jobs`` rows of ``current``. Jobs are started in order of their scores,
    the highest first and of equal scores the one that became known first, while they fit into what is free: this is how
    the OSDEC paper (Dong et al., section 4.1.2) reads the scores of its agents. The scores of rows without a job mean
    nothing. Jobs behind the last row are not started in this slot.

    Parameters
    ----------
    max_jobs : int
        How many jobs whose window is open are seen, and scored.
    num_resources : int
        Resources of the cluster, K.
    max_future_jobs : int
        How many jobs whose window is to open are seen.
    history : int
        For how many slots, this one included, capacity and use are seen.
    horizon : int
        For how many slots, this one included, it is seen what running jobs hold.
    threshold : float
        Jobs whose scores are at or below it are not started; -1 excludes none.
    rule : {"stop", "skip"}
        Whether the first job that does not fit ends the slot, as in the paper, or is passed over.
    scale : float or sequence of float
        Amounts are divided by it: one number, or one for each resource.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range.
    """

    def __init__(
        self,
        max_jobs: int = 32,
        num_resources: int = 1,
        *,
        max_future_jobs: int = 16,
        history: int = 24,
        horizon: int = 12,
        threshold: float = -1.0,
        rule: Literal["stop", "skip"] = "stop",
        scale: float | Sequence[float] = 32.0,
    ) -> None:
        sizes = (max_jobs, num_resources, max_future_jobs, history, horizon)
        if min(sizes) < 1:
            raise InvalidConfiguration(
                f"max_jobs, num_resources, max_future_jobs, history, horizon are {sizes!r}, want at least 1 of each"
            )
        if not -1 <= threshold <= 1:
            raise InvalidConfiguration(f"threshold is {threshold!r}, want a number from -1 to 1")
        if rule not in ("stop", "skip"):
            raise InvalidConfiguration(f"rule is {rule!r}, want 'stop' or 'skip'")
        self.scale: Floats = np.asarray(scale, dtype=np.float64)
        if self.scale.shape not in ((), (num_resources,)) or not ((self.scale > 0) & (self.scale < np.inf)).all():
            raise InvalidConfiguration(f"scale is {scale!r}, want a number above 0, or one for each resource")
        self.max_jobs, self.num_resources, self.max_future_jobs, self.history, self.horizon = map(int, sizes)
        self.threshold = float(threshold)
        self.rule = rule
        amounts = -_HIGHEST, _HIGHEST
        self.observation_space = gymnasium.spaces.Dict(
            {
                "current": bounded((self.max_jobs, len(CURRENT_FEATURES) + self.num_resources), *amounts),
                "future": bounded((self.max_future_jobs, len(FUTURE_FEATURES) + self.num_resources), *amounts),
                "held": bounded((self.horizon, self.num_resources), *amounts),
                "history": bounded((self.history, 1 + 2 * self.num_resources), *amounts),
                "system": bounded((len(SYSTEM_FEATURES) + 3 * self.num_resources,), *amounts),
                ACTION_MASK: gymnasium.spaces.Box(0, 1, (self.max_jobs,), np.int8),
            }
        )
        self.action_space: gymnasium.Space[Any] = gymnasium.spaces.Box(-1.0, 1.0, (self.max_jobs,), np.float32)

    def encode(self, observation: DeferrableObservation) -> Arrays:
        """Return ``current``, ``future``, ``held``, ``history``, ``system``, and the mask.

        Parameters
        ----------
        observation : DeferrableObservation
            A decision.

        Returns
        -------
        dict of str to numpy.ndarray
            The columns are :data:`CURRENT_FEATURES`, :data:`FUTURE_FEATURES` and :data:`SYSTEM_FEATURES`, then one a
            resource. Row h of ``held`` has what the jobs that run now will hold h slots from now. The rows of
            ``history`` are slots, the last one this slot: whether there was such a slot, its capacity, and what was
            used, now before any start. Rows without a job or slot are 0. The mask tells the rows of ``current`` that
            have a job.

        Raises
        ------
        InvalidConfiguration
            If the cluster has another number of resources.
        """
        if len(observation.resources) != self.num_resources:
            raise InvalidConfiguration(
                f"the cluster has {len(observation.resources)} resources, the encoder {self.num_resources}"
            )
        mask = np.zeros(self.max_jobs, np.int8)
        mask[: len(observation.current)] = 1
        return {
            "current": self._describe_current(observation),
            "future": self._describe_future(observation),
            "held": self._describe_held(observation),
            "history": self._describe_history(observation),
            "system": self._describe_system(observation),
            ACTION_MASK: mask,
        }

    def _amounts(self, amounts: Floats) -> Floats:
        """Return amounts of each resource over their scale, within bounds."""
        scaled = amounts / self.scale
        return np.minimum(np.maximum(scaled, -_HIGHEST, out=scaled), _HIGHEST, out=scaled)

    def _describe_current(self, observation: DeferrableObservation) -> NDArray[np.float32]:
        rows = np.zeros((self.max_jobs, len(CURRENT_FEATURES) + self.num_resources), np.float32)
        jobs, slot = observation.current, observation.slot
        count = min(len(jobs), self.max_jobs)
        if count:
            requests = jobs.requests[:count]
            after = observation.used + requests
            shown = rows[:count]
            shown[:, 0] = 1.0
            shown[:, 1] = ((after <= observation.limit) | (requests <= 0)).all(axis=1)
            counts = jobs.duration, jobs.latest_start - slot, slot - jobs.earliest_start, slot - jobs.submission_time
            shown[:, 2:7] = compressed(np.stack((*counts, jobs.evictions), axis=1)[:count])
            shown[:, 7:] = self._amounts(requests)
        return rows

    def _describe_future(self, observation: DeferrableObservation) -> NDArray[np.float32]:
        rows = np.zeros((self.max_future_jobs, len(FUTURE_FEATURES) + self.num_resources), np.float32)
        jobs = observation.future
        count = min(len(jobs), self.max_future_jobs)
        if count:
            earliest = jobs.earliest_start
            counts = earliest - observation.slot, jobs.latest_start - earliest + 1, jobs.duration
            shown = rows[:count]
            shown[:, 0] = 1.0
            shown[:, 1:4] = compressed(np.stack(counts, axis=1)[:count])
            shown[:, 4:] = self._amounts(jobs.requests[:count])
        return rows

    def _describe_held(self, observation: DeferrableObservation) -> NDArray[np.float32]:
        running = observation.running
        runs_on = running.finish_time > observation.slot + np.arange(self.horizon)[:, None]
        return self._amounts(runs_on @ running.requests).astype(np.float32)

    def _describe_history(self, observation: DeferrableObservation) -> NDArray[np.float32]:
        rows = np.zeros((self.history, 1 + 2 * self.num_resources), np.float32)
        count = min(self.history, observation.slot + 1)
        shown = rows[self.history - count :]
        shown[:, 0] = 1.0
        shown[:, 1 : 1 + self.num_resources] = self._amounts(observation.capacity_history[-count:])
        if count > 1:
            shown[:-1, 1 + self.num_resources :] = self._amounts(observation.used_history[1 - count :])
        shown[-1, 1 + self.num_resources :] = self._amounts(observation.used)
        return rows

    def _describe_system(self, observation: DeferrableObservation) -> NDArray[np.float32]:
        result = np.empty(len(SYSTEM_FEATURES) + 3 * self.num_resources, np.float32)
        current, future = len(observation.current), len(observation.future)
        invisible = max(current - self.max_jobs, 0), max(future - self.max_future_jobs, 0)
        result[0] = observation.slot / observation.num_slots if observation.num_slots else 0.0
        result[1:6] = compressed((current, invisible[0], future, invisible[1], len(observation.running)))
        amounts = np.stack((observation.capacity, observation.used, observation.free))
        result[6:] = self._amounts(amounts).ravel()
        return result

    def forced(self, observation: DeferrableObservation) -> bool:
        """Tell whether there is no job to be started.

        Parameters
        ----------
        observation : DeferrableObservation
            A decision.
        """
        return not len(observation.current)

    def decode(self, observation: DeferrableObservation, action: Any) -> tuple[list[int] | None, bool]:
        """Return the positions of the jobs that are started, in order, and whether the scores are numbers.

        Parameters
        ----------
        observation : DeferrableObservation
            What was encoded.
        action : array_like of shape (max_jobs,)
            Scores.

        Returns
        -------
        tuple of (list of int or None) and bool
            Scores that are not numbers start nothing.

        Raises
        ------
        InvalidConfiguration
            If there is another number of scores.
        """
        scores = np.asarray(action, dtype=np.float64)
        if scores.shape != (self.max_jobs,):
            raise InvalidConfiguration(f"the action has shape {scores.shape}, want ({self.max_jobs},)")
        scores = scores[: len(observation.current)]
        if np.isnan(scores).any():
            return None, False
        order = np.argsort(-scores, kind="stable")
        if self.threshold > -1:
            order = order[scores[order] > self.threshold]
        return self._fitting(observation, order.tolist()), True

    def _fitting(self, observation: DeferrableObservation, order: list[int]) -> list[int]:
        """Return the positions of the jobs that fit, each beside those before it."""
        if self.num_resources > 1:
            return self._all_fitting(observation, order)
        requests = observation.current.cores[: self.max_jobs].tolist()
        used, limit = observation.used.item(), observation.limit.item()
        chosen = []
        started = 0.0  # added up like this the sums are those that the problem checks
        for position in order:
            if used + (started + requests[position]) <= limit:
                started += requests[position]
                chosen.append(position)
            elif self.rule == "stop":
                break
        return chosen

    def _all_fitting(self, observation: DeferrableObservation, order: list[int]) -> list[int]:
        """Do the same for several resources; a job that requests nothing of one fits however short it is."""
        requests, used, limit = observation.current.requests, observation.used, observation.limit
        chosen = []
        started = np.zeros(self.num_resources)
        for position in order:
            request = requests[position]
            together = started + request
            if ((used + together <= limit) | (request <= 0)).all():
                started = together
                chosen.append(position)
            elif self.rule == "stop":
                break
        return chosen
