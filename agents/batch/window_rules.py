"""Rules without learning that see no more than a split window: the controls of every learned agent, and its experts.

Source: the window of Wang, Harwood and Rodriguez, "Deep Back-Filling", HPCC 2022.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from desim.agents.batch.node_backfilling import refuse_nodes
from desim.checks import check_choice
from desim.envs import ACTION_MASK
from desim.exceptions import InvalidConfiguration
from desim.problems.batch import BatchObservation, NodeObservation
from desim.problems.batch.encoders import (
    CLUSTER_FEATURES,
    JOB_FEATURES,
    SCALE,
    SplitWindow,
    allowed_beside_oldest,
    earliest_start,
)
from desim.reprs import NamedRepr

__all__ = ["EXPERTS", "RULES", "WindowRule", "aged", "reserving", "shortest"]

Arrays = dict[str, NDArray[Any]]

Rule = Literal["random", "shortest", "smallest", "first", "reserving", "weighing", "aged"]
RULES: tuple[Rule, ...] = ("random", "shortest", "smallest", "first", "reserving", "weighing", "aged")
"""The rules by name."""

HORIZON = 3600.0
"""Of the rule "reserving", in seconds, unless another one is asked for."""

AGE_POWER = 4.0
"""How strongly the rule "aged" prefers jobs that have waited for long."""


class WindowRule(NamedRepr):
    """Starts one job after the other of those in the window that fit, and waits only if none does.

    Parameters
    ----------
    rule : {"random", "shortest", "smallest", "first", "reserving", "weighing", "aged"}
        Which: any, with equal probabilities; the one with the least requested time; that with the least requested
        cores; or the first in the window. Of equal jobs the first. "reserving" is "shortest" with a reservation: if
        the shortest job that does not fit could start within the horizon, no longer one that would delay it starts.
        "weighing" is "reserving" with a horizon of its own for each job that would delay the reserved one: half of
        what it takes longer, by requested times.
        "aged" takes the least requested time over the fourth power of the waiting time, each plus one second, and
        once the oldest job of the queue has waited for `reserve_after`, starts nothing that would delay it.
    head : int
        Slots at the head of the queue.
    tail : int
        Slots at its tail.
    horizon : float
        Of the rule "reserving", in seconds.
    reserve_after : float
        Of the rule "aged", in seconds.

    Raises
    ------
    InvalidConfiguration
        If there is no such rule, or the window makes no sense; aged needs a slot at the head.

    Notes
    -----
    The horizon of "weighing" compares two orders. A job that takes p seconds and fits would delay the reserved one,
    which takes q < p and could start in s. If the longer one starts now, the other waits for p; if it is held back,
    they wait for s, and for s + q. The second sum is smaller if s < (p - q) / 2. What is long beside the reserved job
    is thus held back for long, and what is hardly longer hardly ever, on any scale of run times.
    """

    def __init__(
        self, rule: Rule, head: int, tail: int = 0, *, horizon: float = HORIZON, reserve_after: float = 3000.0
    ) -> None:
        check_choice("rule", rule, RULES)
        if rule == "aged" and head < 1:
            raise InvalidConfiguration("the rule 'aged' needs a slot at the head: the oldest job has a reservation")
        self.rule = rule
        self.horizon = horizon
        self.reserve_after = reserve_after
        self.window = SplitWindow(head, tail)
        self.name = f"window-{rule}-{head}-{tail}"
        if rule == "reserving" and horizon != HORIZON:
            self.name += f"@{horizon:.15g}"
        self.reset({}, np.random.default_rng(0))

    def reset(self, simulation_info: dict[str, Any], rng: np.random.Generator) -> None:
        """Take the random numbers of a new run; a rule that reserves cores on nodes is an InvalidConfiguration."""
        if self.rule in ("reserving", "weighing", "aged"):
            refuse_nodes(simulation_info, self.name, "easy-sjf")
        self._rng = rng

    def act(self, observation: BatchObservation) -> int | None:
        """Return the job to start, or None."""
        queue = observation.queue
        shown = self.window.positions(len(queue))
        if isinstance(observation, NodeObservation):
            fits = observation.fitting(shown)
        else:
            fits = queue.requested_cores[shown] <= observation.free_cores
        if self.rule in ("reserving", "weighing") and fits.any() and not fits.all():
            fits &= self._harmless(observation, shown, fits)
        elif self.rule == "aged" and fits.any() and self._oldest_has_waited(observation):
            fits = allowed_beside_oldest(observation, shown, queue.requested_cores[shown], queue.requested_time[shown])
        positions = shown[fits]
        if not len(positions):
            return None
        if self.rule == "random":
            position = positions[self._rng.integers(len(positions))]
        elif self.rule in ("shortest", "reserving", "weighing"):
            position = positions[queue.requested_time[positions].argmin()]
        elif self.rule == "aged":
            waits = observation.time - queue.submission_time[positions]
            ages = np.log1p(queue.requested_time[positions]) - AGE_POWER * np.log1p(waits)
            position = positions[ages.argmin()]
        elif self.rule == "smallest":
            position = positions[queue.requested_cores[positions].argmin()]
        else:
            position = positions[0]
        return int(queue.job_id[position])

    def _oldest_has_waited(self, observation: BatchObservation) -> bool:
        waited: float = observation.time - observation.queue.submission_time[0]
        return waited >= self.reserve_after

    def _harmless(
        self, observation: BatchObservation, shown: NDArray[np.int64], fits: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        """Tell which jobs do not delay the shortest that does not fit, or may, as it could not start soon anyway."""
        queue, time = observation.queue, observation.time
        cores, times = queue.requested_cores[shown], queue.requested_time[shown]
        blocked = int(np.where(fits, np.inf, times).argmin())
        start = earliest_start(observation, int(cores[blocked]))
        if start is None:
            return np.ones(len(shown), np.bool_)
        begin, spare = start
        horizon = self.horizon if self.rule == "reserving" else (times - times[blocked]) / 2
        harmless: NDArray[np.bool_] = (times <= times[blocked]) | (time + times <= begin) | (cores <= spare)
        return harmless | (begin - time >= horizon)


def shortest(observations: Arrays) -> NDArray[Any]:
    """Return the slots of the shortest jobs that fit, for imitation.

    Parameters
    ----------
    observations : dict of str to array, shape (B, ...)
        Flat ones or features.

    Returns
    -------
    array of int, shape (B,)
        To wait where no job fits.
    """
    mask = observations[ACTION_MASK][:, :-1].astype(bool)
    column = JOB_FEATURES.index("requested_time") if "cluster" in observations else 1
    return _least(observations["jobs"][:, :, column], mask)


def reserving(observations: Arrays, horizon: float = HORIZON) -> NDArray[Any]:
    """Return what the rule "reserving" does, for imitation.

    Parameters
    ----------
    observations : dict of str to array, shape (B, ...)
        Features.
    horizon : float
        In seconds.

    Returns
    -------
    array of int, shape (B,)
        To wait where no job fits, or all would delay the reserved one.

    Raises
    ------
    InvalidConfiguration
        If the observations are flat.
    """
    _check_features(observations, "reserving")
    jobs, cluster = observations["jobs"], observations["cluster"]
    mask = observations[ACTION_MASK][:, :-1].astype(bool)
    soon = cluster[:, CLUSTER_FEATURES.index("reserved_job")] > 0
    soon &= cluster[:, CLUSTER_FEATURES.index("reserved_time")] < SCALE * np.log1p(horizon)
    mask &= ~(soon[:, None] & (jobs[:, :, JOB_FEATURES.index("delays_reservation")] > 0))
    return _least(jobs[:, :, JOB_FEATURES.index("requested_time")], mask)


def aged(observations: Arrays) -> NDArray[Any]:
    """Return what the rule "aged" does, for imitation; the reservation for the oldest job is the environment's.

    Parameters
    ----------
    observations : dict of str to array, shape (B, ...)
        Features.

    Returns
    -------
    array of int, shape (B,)
        To wait where no job may start.

    Raises
    ------
    InvalidConfiguration
        If the observations are flat.
    """
    _check_features(observations, "aged")
    jobs = observations["jobs"].astype(float)
    mask = observations[ACTION_MASK][:, :-1].astype(bool)
    times, waits = (jobs[:, :, JOB_FEATURES.index(name)] for name in ("requested_time", "waiting_time"))
    return _least(times - AGE_POWER * waits, mask)


def _check_features(observations: Arrays, rule: str) -> None:
    if "cluster" not in observations:
        raise InvalidConfiguration(f"the rule {rule!r} needs features: use 'shortest' with the flat observation")


def _least(values: NDArray[Any], mask: NDArray[np.bool_]) -> NDArray[Any]:
    slots: NDArray[Any] = np.where(mask.any(1), np.where(mask, values, np.inf).argmin(1), mask.shape[1])
    return slots


EXPERTS = {"shortest": shortest, "reserving": reserving, "aged": aged}
"""By name: what a rule does in each of many observations, for imitation."""
