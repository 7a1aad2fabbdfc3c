"""What an agent sees when it is asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from desim.problems.dag.executors import Executors
from desim.problems.dag.job_state import JobState

if TYPE_CHECKING:
    from desim.problems.dag.plan import Plan
    from desim.problems.dag.timetable import Timetable

__all__ = ["DagObservation"]


class DagObservation:
    """A live view of the cluster, valid until the decision is answered.

    Parameters
    ----------
    executors : Executors
        Of the cluster.
    plan : Plan
        What is assigned to them.

    Attributes
    ----------
    time : float
        Now, in seconds.
    executors : Executors
        Their speeds and channels.
    jobs : dict of int to JobState
        The jobs in the system, in order of arrival, by identifier.
    executable : dict of int to (JobState, int)
        The nodes that may be assigned: a job and a node of it, by a running number that tells when it became
        executable. A node that is withdrawn from an executor that fails gets a new number.
    num_revealed : int
        How many running numbers have been given. An agent that remembers it finds in ``executable`` what is new by
        looking up the numbers since.
    """

    def __init__(self, executors: Executors, plan: Plan) -> None:
        self.time = 0.0
        self.executors = executors
        self.jobs: dict[int, JobState] = {}
        self.executable: dict[int, tuple[JobState, int]] = {}
        self.num_revealed = 0
        self._plan = plan

    @property
    def available_times(self) -> NDArray[np.float64]:
        """When each executor will have run all that is assigned to it, in seconds; now if that has passed.

        An expectation; infinite for an executor that is down.
        """
        self._plan.refresh()
        times: NDArray[np.float64] = np.maximum(self._plan.available, self.time)
        return times

    @property
    def last_gap_ends(self) -> NDArray[np.float64]:
        """Where the last idle time before an assigned copy ends on each executor, in seconds; -inf without one."""
        self._plan.refresh()
        return self._plan.last_gap_ends

    @property
    def timetables(self) -> Mapping[int, Timetable]:
        """What waits on each executor, with the times at which it is expected to start and to finish."""
        self._plan.refresh()
        return self._plan.timetables
