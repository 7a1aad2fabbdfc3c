"""The split window: which queued jobs a learner sees, and what its actions mean.

Source: Wang, Harwood and Rodriguez, "Deep Back-Filling", HPCC 2022, sections II-B and III-B.
"""

from __future__ import annotations

import math
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from desim.envs.base import ACTION_MASK, Arrays
from desim.envs.batch.reservation import allowed_beside_oldest
from desim.exceptions import InvalidConfiguration
from desim.problems.batch import BatchObservation

__all__ = ["SplitWindow", "WindowEncoder"]


class SplitWindow:
    """A window of M = head + tail slots onto a queue.

    Slots 0 to head - 1 show the first jobs, the following ones the last jobs, the very last first. A queue of up to M
    jobs is shown in order, each job once, and the remaining slots are empty.

    Parameters
    ----------
    head : int
        Slots at the head of the queue, M_h.
    tail : int
        Slots at its tail, M_t.

    Raises
    ------
    InvalidConfiguration
        If a number is negative, or both are 0.
    """

    def __init__(self, head: int, tail: int = 0) -> None:
        if head < 0 or tail < 0 or head + tail < 1 or head != int(head) or tail != int(tail):
            raise InvalidConfiguration(f"a window of {head!r} + {tail!r} slots, want whole numbers with a sum above 0")
        self.head = int(head)
        self.tail = int(tail)
        self.size = self.head + self.tail
        self._from_head = np.arange(self.size)
        self._from_tail = -1 - np.arange(self.tail)

    def __repr__(self) -> str:
        """Show the numbers of slots."""
        return f"SplitWindow({self.head}, {self.tail})"

    def positions(self, length: int) -> NDArray[np.int64]:
        """Return the queue positions of the jobs in the window, in the order of the slots, shape (min(L, M),).

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
        """Return what picks the jobs in the window from a column of the queue: a slice, which is quicker, if it can.

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
    """What the encoders of a split window share: the actions.

    Action i in 0 to S - 1 starts the job in slot i, action S is Fwd: it ends the scheduling cycle. So does an action
    that is not possible.

    Parameters
    ----------
    window : SplitWindow
        Which jobs are seen. Another one of up to S slots may be put in its place between episodes.
    spaces : dict of str to gymnasium.Space
        Of the arrays beside the mask.
    slots : int
        Slots of the arrays, S, at least those of the window; the rest are always empty.
    reserve_after : float
        Once the oldest queued job has waited for so long, in seconds, jobs that would delay it are not possible. The
        window then needs a slot at the head.

    Raises
    ------
    InvalidConfiguration
        If the window does not fit, or shows no oldest job to reserve for.
    """

    def __init__(
        self,
        window: SplitWindow,
        spaces: dict[str, gymnasium.spaces.Space[Any]],
        slots: int,
        reserve_after: float = math.inf,
    ) -> None:
        if slots < window.size:
            raise InvalidConfiguration(f"{window!r} does not fit into {slots} slots")
        if not reserve_after >= 0 or (reserve_after < math.inf and not window.head):
            raise InvalidConfiguration(
                f"reserve_after is {reserve_after!r} with {window.head} slots at the head: want a time of at least 0, "
                "and a slot for the oldest job"
            )
        self.reserve_after = reserve_after
        self.window = window
        self.slots = slots
        mask = gymnasium.spaces.Box(0, 1, (slots + 1,), np.int8)
        self.observation_space = gymnasium.spaces.Dict({**spaces, ACTION_MASK: mask})
        self.action_space: gymnasium.Space[Any] = gymnasium.spaces.Discrete(slots + 1)

    def encode(self, observation: BatchObservation) -> Arrays:
        """Return an observation as new arrays, with the mask of the actions that are possible."""
        raise NotImplementedError

    def forced(self, observation: BatchObservation) -> bool:
        """Tell whether no job in the window fits, so that there is no choice but to wait.

        Parameters
        ----------
        observation : BatchObservation
            A decision.
        """
        queue, free = observation.queue, observation.free_cores
        length = len(queue)
        if not length or not free:
            return True
        index = self.window.index(length)
        cores = queue.requested_cores[index]
        if np.minimum.reduce(cores) > free:
            return True
        if not self._reserves(observation):
            return False
        return not self.possible(observation, self.window.positions(length), cores, queue.requested_time[index]).any()

    def _reserves(self, observation: BatchObservation) -> bool:
        """Tell whether the oldest queued job has a reservation; the queue is not empty."""
        if self.reserve_after == math.inf:
            return False
        waited: float = observation.time - observation.queue.submission_time[0]
        return waited >= self.reserve_after

    def possible(
        self,
        observation: BatchObservation,
        positions: NDArray[np.int64],
        cores: NDArray[np.int64],
        times: NDArray[np.float64],
    ) -> NDArray[np.bool_]:
        """Tell which jobs of the queue may start now, shape (n,).

        Parameters
        ----------
        observation : BatchObservation
            A decision.
        positions, cores : array of int, shape (n,)
            Queue positions and requested cores of the jobs in question.
        times : array of float, shape (n,)
            Their requested times in seconds.
        """
        if len(positions) and self._reserves(observation):
            return allowed_beside_oldest(observation, positions, cores, times)
        return cores <= observation.free_cores

    def mask(self, possible: NDArray[np.bool_]) -> NDArray[np.int8]:
        """Return the mask of possible actions, shape (S + 1,).

        Parameters
        ----------
        possible : array of bool, shape (min(L, M),)
            Which jobs in the window may start.
        """
        mask = np.zeros(self.slots + 1, np.int8)
        mask[: len(possible)] = possible
        mask[-1] = 1
        return mask

    def decode(self, observation: BatchObservation, action: Any) -> tuple[int | None, bool]:
        """Return the job that an action starts, or None to wait, and whether the action is possible.

        Parameters
        ----------
        observation : BatchObservation
            What was encoded.
        action : int
            0 to S.

        Returns
        -------
        tuple of (int or None) and bool
            An action that is not possible means waiting.

        Raises
        ------
        InvalidConfiguration
            If there is no such action.
        """
        slot = int(action)
        if not 0 <= slot <= self.slots:
            raise InvalidConfiguration(f"action {action!r} is none of 0 to {self.slots}")
        if slot == self.slots:
            return None, True
        queue = observation.queue
        position = self.window.position(slot, len(queue)) if slot < self.window.size else None
        if position is None:
            return None, False
        job = np.array([position])
        if not self.possible(observation, job, queue.requested_cores[job], queue.requested_time[job])[0]:
            return None, False
        return int(queue.job_id[position]), True
