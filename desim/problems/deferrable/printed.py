"""Encoder of OSDEC as printed in the paper: jobs by their five numbers, the capacity, and how scores are interpreted.

Source: Dong et al., "An advanced reinforcement learning framework for online scheduling of deferrable workloads in
cloud computing", sections 3.1, 4.1.1 and 4.1.2. The register of its experiments lists what the paper leaves open.
"""

from __future__ import annotations

from collections.abc import Sequence

import gymnasium
import numpy as np
from numpy.typing import NDArray

from desim.envs.base import ACTION_MASK, Arrays, bounded, log_scaled
from desim.problems.deferrable.encoder import HIGHEST, HISTORY_FEATURES, ScoreEncoder
from desim.problems.deferrable.job import JobSet
from desim.problems.deferrable.observation import DeferrableObservation

__all__ = ["JOB_FEATURES", "JOB_SETS", "PrintedEncoder"]

Floats = NDArray[np.float64]

JOB_FEATURES = ("present", "duration", "earliest_start", "latest_start", "submission_time")
"""First columns of each set of jobs, with times as slots from now; the job's request of each resource follows.

For running jobs, the duration is the remaining one.
"""

JOB_SETS = ("running", "current", "future")
"""Sets of section 4.1.1: deployed and still running, window open, window opening later."""


class PrintedEncoder(ScoreEncoder):
    """Encoder of the state of equation (2): three sets of jobs and the capacity; plus the log for the auxiliary module.

    An action has a score for each of the ``max_jobs`` rows of ``current``. Jobs are sorted by ascending score, as
    printed in the paper; ties are broken by the order in which jobs became known. Jobs start in this order until the
    first one that does not fit.

    Parameters
    ----------
    max_jobs : int
        Number of rows of each set of jobs; jobs that became known later are not encoded and do not start in this slot.
    num_resources : int
        Number of resources of the cluster.
    history : int
        Number of slots of the log that are encoded, including this one.
    scale : float
        Divisor of the amounts in the log; all other values are unscaled.
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
        """Return ``running``, ``current``, ``future``, ``capacity``, ``history``, and the action mask.

        Parameters
        ----------
        observation : DeferrableObservation
            Observation at a decision.

        Returns
        -------
        dict of str to numpy.ndarray
            Arrays; the columns of jobs are :data:`JOB_FEATURES` and one per resource, those of ``history`` as for
            :class:`~desim.problems.deferrable.encoder.ScoreEncoder`. The mask marks the rows of ``current`` that have a
            job.

        Raises
        ------
        InvalidConfiguration
            If the cluster has a different number of resources.
        """
        self._check_resources(observation)
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
        """Write the features of jobs, one per row."""
        rows[:, 0] = 1.0
        rows[:, 1] = jobs.finish_time - slot if is_running else jobs.duration
        rows[:, 2] = jobs.earliest_start - slot
        rows[:, 3] = jobs.latest_start - slot
        rows[:, 4] = jobs.submission_time - slot
        rows[:, len(JOB_FEATURES) :] = jobs.requests

    def order(self, scores: Sequence[float]) -> list[int]:
        """Return the positions of the scores in the order of starts: ascending, ties by the order of arrival.

        Parameters
        ----------
        scores : sequence of float
            Scores of the jobs with an open window.
        """
        return sorted(range(len(scores)), key=scores.__getitem__)

    def _scores_for(self, observation: DeferrableObservation, chosen: list[int]) -> NDArray[np.float32]:
        """Return scores below 0, in order, for jobs to start; of the others, the largest one comes first."""
        cores = observation.current.cores[: self.max_jobs]
        scores = np.full(self.num_scores, 0.5, np.float32)
        scores[: len(cores)] -= 0.25 * cores / max(cores.max(initial=0.0), 1.0)  # ends the slot at the largest job
        scores[chosen] = np.linspace(-0.5, -0.25, max(len(chosen), 1))[: len(chosen)]
        return scores
