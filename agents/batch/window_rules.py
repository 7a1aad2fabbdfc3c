"""Simple rules that see only a split window: baselines for learned agents, and experts for imitation.

Source: the window of Wang, Harwood and Rodriguez, "Deep Back-Filling", HPCC 2022.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from desim.agents.batch.cores_only import refuse_nodes
from desim.checks import check_choice
from desim.envs import ACTION_MASK
from desim.exceptions import InvalidConfiguration
from desim.problems.batch import BatchObservation
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
"""Names of the rules."""

HORIZON = 3600.0
"""Default horizon of the rule "reserving", in seconds."""

AGE_POWER = 4.0
"""Exponent of the waiting time in the rule "aged"."""


class WindowRule(NamedRepr):
    """Agent that starts one fitting job of the window at a time and waits only if none may start.

    Parameters
    ----------
    rule : {"random", "shortest", "smallest", "first", "reserving", "weighing", "aged"}
        Name of the rule; ties go to the first job in the window. "random": any job, with equal probabilities;
        "shortest": least requested time; "smallest": least requested cores; "first": first in the window.
        "reserving": as "shortest", but if the shortest job that does not fit could start within the horizon, longer
        jobs that would delay it are not started. "weighing": as "reserving", with a separate horizon for each job that
        would delay the reserved one: half of the difference of their requested times. "aged": least ratio of requested
        time to the fourth power of waiting time, each plus one second; once the oldest job of the queue has waited for
        `reserve_after`, no job that would delay it is started.
    head : int
        Number of slots of the window at the head of the queue.
    tail : int
        Number of slots of the window at the tail of the queue.
    horizon : float
        Horizon of the rule "reserving", in seconds.
    reserve_after : float
        Waiting time in seconds after which the oldest job gets a reservation in the rule "aged".

    Raises
    ------
    InvalidConfiguration
        If the rule is unknown or the window is invalid; the rule "aged" needs a slot at the head.

    Notes
    -----
    The horizon of "weighing" comes from comparing two orders. A fitting job that takes p seconds would delay the
    reserved job, which takes q < p seconds and could start in s seconds. If the longer job starts now, the shorter one
    waits for p. If the longer job is held back, the two wait for s and s + q. The second total is smaller if
    s < (p - q) / 2. So jobs much longer than the reserved one are held back for a long time, and slightly longer jobs
    hardly at all, on any scale of run times.
    """

    def __init__(
        self, rule: Rule, head: int, tail: int = 0, *, horizon: float = HORIZON, reserve_after: float = 3000.0
    ) -> None:
        check_choice("rule", rule, RULES)
        if rule == "aged" and head < 1:
            raise InvalidConfiguration("head: got 0, expected at least 1 slot for rule 'aged', which reserves there")
        self.rule = rule
        self.horizon = horizon
        self.reserve_after = reserve_after
        self.window = SplitWindow(head, tail)
        self.name = f"window-{rule}-{head}-{tail}"
        if rule == "reserving" and horizon != HORIZON:
            self.name += f"@{horizon:.15g}"
        self.reset({}, np.random.default_rng(0))

    def reset(self, simulation_info: dict[str, Any], rng: np.random.Generator) -> None:
        """Begin a run with its random generator; rules with reservations raise InvalidConfiguration on nodes."""
        if self.rule in ("reserving", "weighing", "aged"):
            refuse_nodes(simulation_info, self.name, "easy-sjf")
        self._rng = rng

    def act(self, observation: BatchObservation) -> int | None:
        """Return the job to start, or None."""
        queue = observation.queue
        shown = self.window.positions(len(queue))
        positions = observation.plan(around_reservations=False).fitting(shown)
        if self.rule in ("reserving", "weighing") and 0 < len(positions) < len(shown):
            positions = self._harmless(observation, shown)
        elif self.rule == "aged" and len(positions) and observation.time - queue.head_submission >= self.reserve_after:
            cores, times = queue.requested_cores[shown], queue.expected_time[shown]
            positions = shown[allowed_beside_oldest(observation, shown, cores, times)]
        if not len(positions):
            return None
        if self.rule == "random":
            position = positions[self._rng.integers(len(positions))]
        elif self.rule in ("shortest", "reserving", "weighing"):
            position = positions[queue.expected_time[positions].argmin()]
        elif self.rule == "aged":
            waits = observation.time - queue.submission_time[positions]
            ages = np.log1p(queue.expected_time[positions]) - AGE_POWER * np.log1p(waits)
            position = positions[ages.argmin()]
        elif self.rule == "smallest":
            position = positions[queue.requested_cores[positions].argmin()]
        else:
            position = positions[0]
        return int(queue.row[position])

    def _harmless(self, observation: BatchObservation, shown: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the fitting jobs that do not delay the shortest blocked one; all if that cannot start soon anyway."""
        queue, time = observation.queue, observation.time
        cores, times = queue.requested_cores[shown], queue.expected_time[shown]
        fits = cores <= observation.free_cores
        blocked = int(np.where(fits, np.inf, times).argmin())
        start = earliest_start(observation, int(cores[blocked]))
        if start is None:
            return shown[fits]
        begin, spare = start
        horizon = self.horizon if self.rule == "reserving" else (times - times[blocked]) / 2
        harmless: NDArray[np.bool_] = (times <= times[blocked]) | (time + times <= begin) | (cores <= spare)
        return shown[fits & (harmless | (begin - time >= horizon))]


def shortest(observations: Arrays) -> NDArray[Any]:
    """Return the slots of the shortest jobs that fit, for imitation.

    Parameters
    ----------
    observations : dict of str to array, shape (B, ...)
        Flat observations or features.

    Returns
    -------
    array of int, shape (B,)
        Chosen slots; the waiting action where no job fits.
    """
    mask = observations[ACTION_MASK][:, :-1].astype(bool)
    column = JOB_FEATURES.index("requested_time") if "cluster" in observations else 1
    return _least(observations["jobs"][:, :, column], mask)


def reserving(observations: Arrays, horizon: float = HORIZON) -> NDArray[Any]:
    """Return the actions of the rule "reserving", for imitation.

    Parameters
    ----------
    observations : dict of str to array, shape (B, ...)
        Features.
    horizon : float
        Horizon in seconds.

    Returns
    -------
    array of int, shape (B,)
        Chosen slots; the waiting action where no job fits or all would delay the reserved one.

    Raises
    ------
    InvalidConfiguration
        If the observations are not features.
    """
    _check_features(observations, "reserving")
    jobs, cluster = observations["jobs"], observations["cluster"]
    mask = observations[ACTION_MASK][:, :-1].astype(bool)
    soon = cluster[:, CLUSTER_FEATURES.index("reserved_job")] > 0
    soon &= cluster[:, CLUSTER_FEATURES.index("reserved_time")] < SCALE * np.log1p(horizon)
    mask &= ~(soon[:, None] & (jobs[:, :, JOB_FEATURES.index("delays_reservation")] > 0))
    return _least(jobs[:, :, JOB_FEATURES.index("requested_time")], mask)


def aged(observations: Arrays) -> NDArray[Any]:
    """Return the actions of the rule "aged", for imitation; the environment reserves for the oldest job.

    Parameters
    ----------
    observations : dict of str to array, shape (B, ...)
        Features.

    Returns
    -------
    array of int, shape (B,)
        Chosen slots; the waiting action where no job may start.

    Raises
    ------
    InvalidConfiguration
        If the observations are not features.
    """
    _check_features(observations, "aged")
    jobs = observations["jobs"].astype(float)
    mask = observations[ACTION_MASK][:, :-1].astype(bool)
    times, waits = (jobs[:, :, JOB_FEATURES.index(name)] for name in ("requested_time", "waiting_time"))
    return _least(times - AGE_POWER * waits, mask)


def _check_features(observations: Arrays, rule: str) -> None:
    if "cluster" not in observations:
        raise InvalidConfiguration(f"rule {rule!r}: got flat observations, expected features; try rule 'shortest'")


def _least(values: NDArray[Any], mask: NDArray[np.bool_]) -> NDArray[Any]:
    slots: NDArray[Any] = np.where(mask.any(1), np.where(mask, values, np.inf).argmin(1), mask.shape[1])
    return slots


EXPERTS = {"shortest": shortest, "reserving": reserving, "aged": aged}
"""Experts for imitation, by name: each returns the rule's actions in a batch of observations."""
