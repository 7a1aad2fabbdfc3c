"""Observation encoders of the split window: which queued jobs a learner sees, and what its actions mean.

Source: Wang, Harwood and Rodriguez, "Deep Back-Filling", HPCC 2022, sections II-B and III-B. A reservation for the
oldest queued job prevents a learned agent from starving any job: as in EASY backfilling (Lifka, "The ANL/IBM SP
scheduling system", JSSPP 1995), other jobs may then start only if, by requested times, they do not delay that job.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import gymnasium
import numpy as np
from numpy.typing import NDArray

from desim.checks import check_action, check_choice, check_float, check_int
from desim.envs.base import ACTION_MASK, Arrays, bounded
from desim.exceptions import InvalidConfiguration
from desim.problems.batch import BatchObservation, WaitForCores, WaitUntil
from desim.problems.batch.features import CLUSTER_FEATURES, JOB_FEATURES, NEVER, SCALE, Windows, scaled_log

__all__ = [
    "CLUSTER_FEATURES",
    "JOB_FEATURES",
    "SCALE",
    "FeatureEncoder",
    "FlatEncoder",
    "SplitWindow",
    "WindowEncoder",
    "allowed_beside_oldest",
    "earliest_start",
]


def allowed_beside_oldest(
    observation: BatchObservation, positions: NDArray[np.int64], cores: NDArray[np.int64], times: NDArray[np.float64]
) -> NDArray[np.bool_]:
    """Return which jobs may start without delaying the first job of the queue.

    Parameters
    ----------
    observation : BatchObservation
        Observation of a decision; the queue is not empty.
    positions, cores : array of int, shape (n,)
        Queue positions and requested cores of the candidate jobs.
    times : array of float, shape (n,)
        Requested times of these jobs in seconds.

    Returns
    -------
    array of bool, shape (n,)
        False for a job that requests more cores than are free. If the first job fits, no other job may start that
        would take its cores.
    """
    fits = cores <= observation.free_cores
    start = earliest_start(observation, observation.queue.head_cores)
    if start is None:  # the first job cannot be planned, so nothing can delay it
        return fits
    begin, spare = start
    allowed: NDArray[np.bool_] = (observation.time + times <= begin) | (cores <= spare) | (positions == 0)
    return allowed & fits


def _refuse_nodes(observation: BatchObservation) -> None:
    """Raise an error if the cluster has nodes, where enough free cores do not mean that a job fits."""
    if observation.nodes is not None:
        raise InvalidConfiguration("observation: the cluster has nodes, but this encoder shows counted cores only")


def earliest_start(observation: BatchObservation, cores: int) -> tuple[float, int] | None:
    """Return when a job could start if no other job started before, and how many cores it would leave free then.

    Parameters
    ----------
    observation : BatchObservation
        Observation of a decision.
    cores : int
        Number of cores that the job requests.

    Returns
    -------
    tuple of float and int, or None
        Start time in seconds, by requested times, and the cores left free; None if the job needs cores that are down,
        whose time of repair is unknown.
    """
    free, running = observation.free_cores, observation.running
    if cores <= free:
        return observation.time, free - cores
    released = running.requested_cores.cumsum() + free
    place = int(released.searchsorted(cores))
    if place == len(released):
        return None
    begin = max(float(running.expected_end[place]), observation.time)
    return begin, int(released[int(running.expected_end.searchsorted(begin, "right")) - 1]) - cores


class SplitWindow:
    """Window of M = head + tail slots onto a queue.

    Slots 0 to head - 1 show the first jobs of the queue. The other slots show the last jobs, starting with the very
    last. A queue of up to M jobs is shown in order, each job once; the remaining slots are empty.

    Parameters
    ----------
    head : int
        Number of slots for the head of the queue, M_h.
    tail : int
        Number of slots for its tail, M_t.

    Raises
    ------
    InvalidConfiguration
        If a number is negative or not an integer, or both are 0.
    """

    def __init__(self, head: int, tail: int = 0) -> None:
        if head < 0 or tail < 0 or head + tail < 1 or head != int(head) or tail != int(tail):
            raise InvalidConfiguration(f"window: got ({head!r}, {tail!r}), expected numbers of slots >= 0, not both 0")
        self.head = int(head)
        self.tail = int(tail)
        self.size = self.head + self.tail
        self._from_head = np.arange(self.size)
        self._from_tail = -1 - np.arange(self.tail)

    def __repr__(self) -> str:
        """Return the constructor call with the numbers of slots."""
        return f"SplitWindow({self.head}, {self.tail})"

    def positions(self, length: int) -> NDArray[np.int64]:
        """Return the queue positions of the jobs in the window in slot order, shape (min(L, M),).

        Parameters
        ----------
        length : int
            Number of queued jobs, L.
        """
        if length <= self.size:
            return self._from_head[:length]
        positions = self._from_head.copy()
        positions[self.head :] = self._from_tail + length
        return positions

    def index(self, length: int) -> slice | NDArray[np.int64]:
        """Return an index of the jobs in the window for columns of the queue: a slice if possible, which is faster.

        Parameters
        ----------
        length : int
            Number of queued jobs, L.
        """
        return slice(length) if length <= self.size else self.positions(length)

    def position(self, slot: int, length: int) -> int | None:
        """Return the queue position of the job in a slot, or None if the slot is empty.

        Parameters
        ----------
        slot : int
            0 to M - 1.
        length : int
            Number of queued jobs, L.
        """
        if slot >= length:
            return None
        if length <= self.size or slot < self.head:
            return slot
        return length - 1 - (slot - self.head)


class WindowEncoder:
    """Base class of the encoders of a split window, which defines their actions.

    Action i from 0 to S - 1 starts the job in slot i. Action S (Fwd in the paper) ends the scheduling cycle, and so
    does an infeasible action. Action S is infeasible if a job can start and nothing else can happen any more, see
    :attr:`BatchObservation.can_wait <desim.problems.batch.BatchObservation.can_wait>`.

    Parameters
    ----------
    window : SplitWindow
        Window onto the queue. It may be replaced between episodes by another window of up to S slots.
    spaces : mapping of str to gymnasium.Space
        Spaces of the arrays other than the action mask.
    slots : int
        Number of slots of the arrays, S, at least the number of slots of the window; the others are always empty.
    reserve_after : float
        Seconds of waiting after which the oldest queued job gets a reservation: jobs that would delay it are then
        infeasible. The window then needs a slot at the head.
    choices : int
        Number of actions per slot, for encoders with several ways to start a job.

    Raises
    ------
    InvalidConfiguration
        If the window does not fit, or has no slot for the oldest job although a reservation is requested.
    """

    def __init__(
        self,
        window: SplitWindow,
        spaces: Mapping[str, gymnasium.spaces.Space[Any]],
        slots: int,
        reserve_after: float = math.inf,
        *,
        choices: int = 1,
    ) -> None:
        if slots < window.size:
            raise InvalidConfiguration(f"slots: got {slots}, expected at least the {window.size} slots of {window!r}")
        if not reserve_after >= 0 or (reserve_after < math.inf and not window.head):
            raise InvalidConfiguration(
                f"reserve_after: got {reserve_after!r} with {window.head} slots at the head, expected a time >= 0 s "
                "and at least one slot at the head for the oldest job"
            )
        self.reserve_after = reserve_after
        self.window = window
        self.slots, self.choices = slots, choices
        self.last = slots * choices  # the action that waits
        mask = gymnasium.spaces.Box(0, 1, (self.last + 1,), np.int8)
        self.observation_space = gymnasium.spaces.Dict({**spaces, ACTION_MASK: mask})
        self.action_space: gymnasium.Space[Any] = gymnasium.spaces.Discrete(self.last + 1)

    def encode(self, observation: BatchObservation) -> Arrays:
        """Return an observation as new arrays, with the mask of feasible actions."""
        raise NotImplementedError

    def is_forced(self, observation: BatchObservation) -> bool:
        """Return whether no job in the window can start, so that waiting is the only choice.

        Parameters
        ----------
        observation : BatchObservation
            Observation of a decision.
        """
        queue = observation.queue
        length = len(queue)
        if not length or self.awaited_cores(observation):
            return True
        if not self._reserves(observation):
            return False
        index = self.window.index(length)
        cores, times = queue.requested_cores[index], queue.requested_time[index]
        return not self.possible(observation, self.window.positions(length), cores, times).any()

    def awaited_cores(self, observation: BatchObservation) -> int:
        """Return how many cores must be free before a job in the window fits; 0 if one fits now or none is queued.

        Parameters
        ----------
        observation : BatchObservation
            Observation of a decision.
        """
        queue, window = observation.queue, self.window
        length = len(queue)
        if not length:
            return 0
        if length <= window.size:
            least = queue.least_cores(length)
        else:
            least = int(queue.requested_cores[window.positions(length)].min())
        return least if least > observation.free_cores else 0

    def _reserves(self, observation: BatchObservation) -> bool:
        """Return whether the oldest job of a nonempty queue has a reservation."""
        if self.reserve_after == math.inf:
            return False
        waited: float = observation.time - observation.queue.head_submission
        return waited >= self.reserve_after

    def possible(
        self,
        observation: BatchObservation,
        positions: NDArray[np.int64],
        cores: NDArray[np.int64],
        times: NDArray[np.float64],
    ) -> NDArray[np.bool_]:
        """Return which queued jobs may start now, shape (n,).

        Parameters
        ----------
        observation : BatchObservation
            Observation of a decision.
        positions, cores : array of int, shape (n,)
            Queue positions and requested cores of the candidate jobs.
        times : array of float, shape (n,)
            Requested times of these jobs in seconds.
        """
        if len(positions) and self._reserves(observation):
            return allowed_beside_oldest(observation, positions, cores, times)
        return cores <= observation.free_cores

    def may_wait(self, observation: BatchObservation) -> bool:
        """Return whether waiting is feasible: something may still happen, or no job in the window can start.

        Parameters
        ----------
        observation : BatchObservation
            Observation of a decision.
        """
        return observation.can_wait or self.is_forced(observation)

    def mask(self, observation: BatchObservation, possible: NDArray[np.bool_]) -> NDArray[np.int8]:
        """Return the action mask, shape (S + 1,), or with C choices per slot (S C + 1,).

        Parameters
        ----------
        observation : BatchObservation
            Observation of a decision.
        possible : array of bool, shape (min(L, M),) or (min(L, M) C,)
            Whether each job in the window may start, in each way.
        """
        mask = np.zeros(self.last + 1, np.int8)
        mask[: len(possible)] = possible
        mask[-1] = observation.can_wait or not possible.any()
        return mask

    def decode(self, observation: BatchObservation, action: Any) -> tuple[Any, bool]:
        """Return what an action starts, or None to wait, and whether the action is feasible.

        Parameters
        ----------
        observation : BatchObservation
            Encoded observation.
        action : int
            Action, 0 to S, or with C choices per slot 0 to S C.

        Returns
        -------
        tuple of (int, object or None) and bool
            Row of a job, another action that starts it, or None; and feasibility. An infeasible action means waiting.

        Raises
        ------
        InvalidConfiguration
            If the action is out of range.
        """
        number = check_action(action, self.last + 1)
        if number == self.last:
            return None, self.may_wait(observation)
        slot, choice = divmod(number, self.choices)
        position = self.window.position(slot, len(observation.queue)) if slot < self.window.size else None
        start = None if position is None else self._start(observation, position, choice)
        return start, start is not None

    def _start(self, observation: BatchObservation, position: int, choice: int) -> Any:
        """Return what starts the job at a position of the queue in one of the ways; None if that is infeasible."""
        row, cores, time = observation.queue.job_at(position)
        fits = cores <= observation.free_cores
        if fits and self._reserves(observation):
            fits = bool(allowed_beside_oldest(observation, *map(np.atleast_1d, (position, cores, time)))[0])
        return row if fits else None

    def encode_action(self, observation: BatchObservation, answer: Any) -> int | None:
        """Return the action of this encoder that is closest to an agent's answer.

        Parameters
        ----------
        observation : BatchObservation
            Observation that the agent answered.
        answer : object
            Answer of the agent. Of a list, the first job shown in the window counts; of several nodes, the first one.

        Returns
        -------
        int or None
            The last action if the agent waits. None if it starts only jobs that the window does not show, or a job that
            this encoder considers infeasible.
        """
        rows = observation.queue.row[self.window.index(len(observation.queue))].tolist()
        answers = answer if isinstance(answer, list) else [answer]
        starts = [one for one in answers if not (one is None or isinstance(one, WaitForCores | WaitUntil))]
        if not starts:
            return self.last
        for start in starts:
            row = getattr(start, "row", start)
            if row in rows:
                choice = self._choice(observation, start, row)
                action = None if choice is None else rows.index(row) * self.choices + choice
                return action if action is not None and self.decode(observation, action)[1] else None
        return None

    def _choice(self, observation: BatchObservation, start: Any, row: int) -> int | None:
        """Return which of the ways to start a job an agent has chosen; None if there is none."""
        return 0


class FeatureEncoder(WindowEncoder):
    """Encoder that shows features of each job in the window and a summary of the cluster.

    A network that scores all jobs with the same weights can use these features for windows and clusters of any
    size. "Reserved" is the shortest job in the window that does not fit. A longer job delays it if it would still
    run when that job could start, on cores that it needs (as in EASY backfilling with the shortest job first).

    Parameters
    ----------
    window : SplitWindow
        Window onto the queue.
    slots : int, optional
        Number of slots of the arrays, S (default: the number of slots of the window, M).
    reserve_after : float
        Seconds of waiting after which the oldest queued job gets a reservation: jobs that would delay it are then
        infeasible and shown as jobs that do not fit.
    """

    def __init__(self, window: SplitWindow, slots: int | None = None, *, reserve_after: float = math.inf) -> None:
        slots = window.size if slots is None else slots
        shapes = {"jobs": (slots, len(JOB_FEATURES)), "cluster": (len(CLUSTER_FEATURES),)}
        spaces = {name: bounded(shape, -100.0, 100.0) for name, shape in shapes.items()}
        super().__init__(window, spaces, slots, reserve_after)

    def encode(self, observation: BatchObservation) -> Arrays:
        """Return ``jobs``, shape (S, 12), ``cluster``, shape (12,), and the mask, shape (S + 1,).

        Parameters
        ----------
        observation : BatchObservation
            Observation of a decision.

        Returns
        -------
        dict of str to numpy.ndarray
            Arrays with the columns :data:`~desim.problems.batch.features.JOB_FEATURES` and
            :data:`~desim.problems.batch.features.CLUSTER_FEATURES`; empty slots are 0.

        Raises
        ------
        InvalidConfiguration
            If the cluster has nodes.
        """
        _refuse_nodes(observation)
        # The compiled encoder of vector_steps takes 4 us instead of 40. It is not used here: numba is optional and
        # rounds logarithms differently, so observations would depend on what is installed, and this code would stay.
        queue, time, free, total = observation.queue, observation.time, observation.free_cores, observation.num_cores
        length, size = len(queue), self.window.size
        index, positions = self.window.index(length), self.window.positions(length)
        count = len(positions)
        cores, times = queue.requested_cores[index], queue.requested_time[index]
        waits = time - queue.submission_time[index]
        fits = self.possible(observation, positions, cores, times)
        fitting = fits.nonzero()[0]
        running = observation.running
        ends, released = running.expected_end, running.requested_cores.cumsum()
        remaining = _remaining(ends, time)
        load = float(remaining[:-1] @ running.requested_cores)
        released += free
        until = remaining[released.searchsorted(cores)]  # time until each job fits if nothing else starts
        until[fits] = 0.0
        logs = np.empty((4, count))
        logs[0], logs[1], logs[2], logs[3] = times, cores, waits, until
        np.log1p(logs, out=logs)
        logs *= SCALE
        rows = np.zeros((len(JOB_FEATURES), self.slots), np.float32)
        shown = rows[:, :count]
        shown[0] = 1.0
        shown[1] = logs[0]
        shown[2] = cores / total
        shown[3] = logs[1] * (1.0 / (SCALE * math.log1p(total)))
        shown[4] = logs[2]
        shown[5] = fits
        shown[7] = logs[3]
        if len(fitting):
            areas = logs[0] + logs[1]
            shown[6] = fits * (cores / free)
            shown[8] = logs[0] - np.minimum.reduce(logs[0, fitting])
            shown[9] = areas - np.minimum.reduce(areas[fitting])
        reservation = [0.0, 0.0, 0.0, 0.0]
        if len(fitting) < count:
            blocked = int(np.where(fits, np.inf, times).argmin())
            reserved = time + until[blocked]
            spare = released[int(ends.searchsorted(reserved, "right")) - 1] if len(ends) else free
            late = fits & (times > times[blocked]) & (time + times > reserved)
            shown[10] = late & (cores > spare - cores[blocked])
            reservation = [1.0, logs[3, blocked], logs[0, blocked], cores[blocked] / total]
        if length > size:
            shown[11, self.window.head :] = 1.0
        cluster = [
            free / total,
            scaled_log(length),
            scaled_log(max(length - size, 0)),
            scaled_log(len(fitting)),
            scaled_log(max(ends[0] - time, 0.0)) if len(ends) else 0.0,
            scaled_log(load / total),
            scaled_log(float(times @ cores) / total),
            scaled_log(time - queue.submission_time[0]) if length else 0.0,
            *reservation,
        ]
        return {
            "jobs": np.ascontiguousarray(rows.T),
            "cluster": np.array(cluster, np.float32),
            ACTION_MASK: self.mask(observation, fits),
        }

    @staticmethod
    def encode_many(asked: Sequence[tuple[FeatureEncoder, BatchObservation]], into: Arrays) -> None:
        """Write several observations into arrays, one row per observation.

        Parameters
        ----------
        asked : sequence of tuple of FeatureEncoder and BatchObservation
            Encoders with the same number of slots and the observations to encode; windows may differ.
        into : dict of str to numpy.ndarray
            Arrays as :meth:`encode` returns them, with a leading axis of the number of observations.
        """
        seen = [observation for _, observation in asked]
        windows = Windows([encoder.window for encoder, _ in asked], seen)
        fits = windows.fitting()
        for place, (encoder, one) in enumerate(asked):
            count = windows.counts[place]
            if encoder.reserve_after < math.inf and count and encoder._reserves(one):
                positions = encoder.window.positions(len(one.queue))
                cores, times = windows.cores[place, :count], windows.times[place, :count]
                fits[place, :count] = allowed_beside_oldest(one, positions, cores, times)
        windows.describe(fits, into["jobs"], into["cluster"])
        mask, width = into[ACTION_MASK], fits.shape[1]
        mask[:, :width] = fits
        mask[:, width:-1] = 0
        mask[:, -1] = np.logical_or([one.can_wait for one in seen], ~fits.any(axis=1))


def _remaining(ends: NDArray[np.float64], time: float) -> NDArray[np.float64]:
    """Return the seconds until each expected end, followed by the value that stands for never."""
    remaining = np.empty(len(ends) + 1)
    remaining[-1] = NEVER
    np.maximum(np.subtract(ends, time, out=remaining[:-1]), 0.0, out=remaining[:-1])
    return remaining


class FlatEncoder(WindowEncoder):
    """Encoder that shows the remaining time of each core, and cores, requested and waiting time of jobs in the window.

    Source: Wang, Harwood and Rodriguez, HPCC 2022, section III-A. The formula of the paper uses the time for which a
    core has been busy, its text the time until the core is free. This class uses the latter, by requested times. All
    values are divided by constants and clipped at 1.

    Parameters
    ----------
    window : SplitWindow
        Window onto the queue.
    num_cores : int
        Number of cores of the cluster.
    longest_time : float
        Requested time that is scaled to 1, in seconds; by default the longest run time of the paper's workload.
    longest_wait : float
        Waiting time that is scaled to 1, in seconds.
    order : {"by_core", "sorted"}
        Order of the remaining times: by core id, or ascending. The latter is cheaper, and equal for clusters that
        differ only in the numbering of their cores.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range.
    """

    def __init__(
        self,
        window: SplitWindow,
        num_cores: int,
        *,
        longest_time: float = 124_707.0,
        longest_wait: float = 500_000.0,
        order: Literal["by_core", "sorted"] = "by_core",
    ) -> None:
        self.num_cores = check_int("num_cores", num_cores, least=1)
        self.longest_time = check_float("longest_time", longest_time, above=0)
        self.longest_wait = check_float("longest_wait", longest_wait, above=0)
        self.order = check_choice("order", order, ("by_core", "sorted"))
        spaces = {"cores": bounded((num_cores,), highest=1.0), "jobs": bounded((window.size, 3), highest=1.0)}
        super().__init__(window, spaces, window.size)

    def encode(self, observation: BatchObservation) -> Arrays:
        """Return ``cores``, shape (N,), ``jobs``, shape (M, 3), and the mask, shape (M + 1,).

        Parameters
        ----------
        observation : BatchObservation
            Observation of a decision in a cluster of N cores.

        Returns
        -------
        dict of str to numpy.ndarray
            Arrays in which empty slots are 0.

        Raises
        ------
        InvalidConfiguration
            If the cluster has nodes or a different number of cores.
        """
        _refuse_nodes(observation)
        if observation.num_cores != self.num_cores:
            raise InvalidConfiguration(
                f"num_cores: the cluster has {observation.num_cores}, the encoder expects {self.num_cores}"
            )
        queue = observation.queue
        positions = self.window.positions(len(queue))
        cores = queue.requested_cores[positions]
        jobs = np.zeros((self.window.size, 3), np.float32)
        shown = jobs[: len(positions)]
        shown[:, 0] = cores / self.num_cores
        shown[:, 1] = queue.requested_time[positions] / self.longest_time
        shown[:, 2] = (observation.time - queue.submission_time[positions]) / self.longest_wait
        np.minimum(shown, 1.0, out=shown)
        mask = self.mask(observation, cores <= observation.free_cores)
        return {"cores": self._cores(observation), "jobs": jobs, ACTION_MASK: mask}

    def _cores(self, observation: BatchObservation) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
        """Return the scaled remaining times of all cores, shape (N,)."""
        if self.order == "by_core":
            remaining = observation.remaining_times()
        else:
            running = observation.running
            busy = np.repeat(running.expected_end - observation.time, running.requested_cores)
            remaining = np.full(self.num_cores, np.inf)  # what is not overwritten below belongs to cores that are down
            remaining[: observation.free_cores] = 0.0
            remaining[observation.free_cores : observation.free_cores + len(busy)] = np.maximum(busy, 0.0)
        return np.minimum(remaining / self.longest_time, 1.0).astype(np.float32)
