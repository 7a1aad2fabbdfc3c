"""What OSDEC sees and how its scores are read, as the paper prints it: jobs by their five numbers, and the capacity.

Source: Dong et al., "An advanced reinforcement learning framework for online scheduling of deferrable workloads in
cloud computing", sections 3.1, 4.1.1 and 4.1.2. What the paper leaves open is a row of the register of its experiments.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from desim.envs.base import ACTION_MASK, Arrays, bounded, log_scaled
from desim.exceptions import InvalidConfiguration
from desim.problems.deferrable.encoder import HIGHEST, HISTORY_FEATURES, ScoreEncoder
from desim.problems.deferrable.job import JobSet
from desim.problems.deferrable.observation import DeferrableObservation

__all__ = ["JOB_FEATURES", "JOB_SETS", "PrintedEncoder"]

Floats = NDArray[np.float64]

JOB_FEATURES = ("present", "duration", "earliest_start", "latest_start", "submission_time")
"""The first columns of each set of jobs, times as slots from now; what a job requests of each resource follows.

The duration of a running job is what is left of it.
"""

JOB_SETS = ("running", "current", "future")
"""The sets of section 4.1.1: deployed and still running, window open, window yet to open."""


class PrintedEncoder(ScoreEncoder):
    """The state of equation (2): three sets of jobs and the capacity; with the log that the auxiliary module reads.

    An action has a score for each of the ``max_jobs`` rows of ``current``. Jobs are sorted by their scores, the lowest
    first as the paper prints it, and of equal scores the one that became known first; as many from the beginning of
    this list are started as fit together, and none behind them.

    Parameters
    ----------
    max_jobs : int
        Rows of each set of jobs; those that became known later are not seen, and not started in this slot.
    num_resources : int
        Resources of the cluster.
    history : int
        For how many slots, this one included, the log is seen.
    scale : float
        Cores of the log are divided by it; all else is as it is.
    """

    def __init__(self, max_jobs: int = 32, num_resources: int = 1, *, history: int = 12, scale: float = 32.0) -> None:
        super().__init__(max_jobs, num_resources, max_future_jobs=max_jobs, history=history, scale=scale)
        width = len(JOB_FEATURES) + self.num_resources
        amounts = (-HIGHEST, HIGHEST)
        self.observation_space = gymnasium.spaces.Dict(
            {
                **{name: bounded((self.max_jobs, width), *amounts) for name in JOB_SETS},
                "capacity": bounded((self.num_resources,), *amounts),
                "history": bounded((self.history, len(HISTORY_FEATURES) + 4 * self.num_resources), *amounts),
                ACTION_MASK: gymnasium.spaces.Box(0, 1, (self.num_scores,), np.int8),
            }
        )

    def encode(self, observation: DeferrableObservation) -> Arrays:
        """Return ``running``, ``current``, ``future``, ``capacity``, ``history``, and the mask.

        Parameters
        ----------
        observation : DeferrableObservation
            A decision.

        Returns
        -------
        dict of str to numpy.ndarray
            The columns of the jobs are :data:`JOB_FEATURES` and then one a resource; those of ``history`` as for
            :class:`~desim.problems.deferrable.encoder.ScoreEncoder`. The mask tells the rows of ``current`` that have a
            job.

        Raises
        ------
        InvalidConfiguration
            If the cluster has another number of resources.
        """
        if len(observation.resources) != self.num_resources:
            raise InvalidConfiguration(
                f"the cluster has {len(observation.resources)} resources, the encoder {self.num_resources}"
            )
        arrays: Arrays = {}
        for name in JOB_SETS:
            rows = np.zeros((self.max_jobs, len(JOB_FEATURES) + self.num_resources))
            jobs = JobSet(getattr(observation, name).rows[: self.max_jobs])
            if len(jobs):
                self._write(rows[: len(jobs)], jobs, observation.slot, name == "running")
            arrays[name] = np.clip(rows, -HIGHEST, HIGHEST).astype(np.float32)
        arrays["capacity"] = np.minimum(observation.capacity, HIGHEST).astype(np.float32)
        history = np.zeros((self.history, len(HISTORY_FEATURES) + 4 * self.num_resources))
        count = self._describe_history(history, observation)
        first = len(HISTORY_FEATURES)
        history[:, first:] = np.minimum(
            history[:, first:] / np.tile(np.broadcast_to(self.scale, self.num_resources), 4), HIGHEST
        )
        history[-count:, 1:first] = log_scaled(history[-count:, 1:first])
        arrays["history"] = history.astype(np.float32)
        arrays[ACTION_MASK] = np.zeros(self.num_scores, np.int8)
        arrays[ACTION_MASK][: len(observation.current)] = 1
        return arrays

    def _write(self, rows: Floats, jobs: JobSet, slot: int, is_running: bool) -> None:
        """Write the numbers that tell of jobs, one a row."""
        rows[:, 0] = 1.0
        rows[:, 1] = jobs.finish_time - slot if is_running else jobs.duration
        rows[:, 2] = jobs.earliest_start - slot
        rows[:, 3] = jobs.latest_start - slot
        rows[:, 4] = jobs.submission_time - slot
        rows[:, len(JOB_FEATURES) :] = jobs.requests

    def order(self, scores: Sequence[float]) -> list[int]:
        """Return in which order jobs are started: the lowest score first, of equal ones the job known first.

        Parameters
        ----------
        scores : sequence of float
            Of the jobs whose window is open.
        """
        return sorted(range(len(scores)), key=scores.__getitem__)

    def encode_action(self, observation: DeferrableObservation, answer: Any) -> NDArray[np.float32] | None:
        """Return scores with which the same jobs start as those that an agent answers, as the base class does.

        Parameters
        ----------
        observation : DeferrableObservation
            What the agent saw.
        answer : sequence of int, or None
            Its answer: positions of the jobs to be started.

        Returns
        -------
        numpy.ndarray or None
            None if the rows show too few jobs or others would start, too, since all that are left fit.
        """
        chosen = [] if answer is None else [int(position) for position in answer]
        if any(position >= self.max_jobs for position in chosen):
            return None
        cores = observation.current.cores[: self.max_jobs]
        scores = np.full(self.num_scores, 0.5, np.float32)
        scores[: len(cores)] -= 0.25 * cores / max(cores.max(initial=0.0), 1.0)  # the largest ends the slot
        scores[chosen] = np.linspace(-0.5, -0.25, max(len(chosen), 1))[: len(chosen)]
        started = self.decode(observation, scores)[0]
        return scores if sorted(started or []) == sorted(chosen) else None
