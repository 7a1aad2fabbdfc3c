"""A copy of a node: one planned, running or finished execution on an executor."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from desim.problems.dag.job_state import JobState

__all__ = ["Copy", "Delivery"]


class Delivery(NamedTuple):
    """How the data of one parent came to a copy.

    Attributes
    ----------
    parent : int
        The parent.
    source : int
        The executor whose copy of the parent served, possibly the copy's own.
    begin, arrival : float
        When the data were sent and when they had arrived, in seconds.
    size : float
        Units of data.
    """

    parent: int
    source: int
    begin: float
    arrival: float
    size: float


class Copy:
    """One execution of a node; live, do not change it.

    Parameters
    ----------
    state : JobState
        The job.
    node, executor : int
        What runs, and where.
    duplicate : bool
        Whether the node had another copy when this one was assigned.
    assigned : float
        When it was assigned, in seconds.
    sequence : int
        How many copies had been assigned before, in the whole cluster.
    start, finish : float
        When it is expected to start and to finish, in seconds.
    task : int
        Which of its node's tasks it is; 0 where nodes run whole.

    Attributes
    ----------
    start, finish : float
        What is expected, and what has happened once it has.
    receiving : float
        Since when its executor has been waiting for its data; NaN before.
    has_started, has_finished : bool
        What has happened.
    inputs : dict of int to Delivery
        Where its inputs came from, by parent; complete once it has started.
    """

    __slots__ = (
        "assigned",
        "duplicate",
        "executor",
        "finish",
        "has_finished",
        "has_started",
        "inputs",
        "node",
        "receiving",
        "sequence",
        "start",
        "state",
        "task",
    )

    def __init__(
        self,
        state: JobState,
        node: int,
        executor: int,
        *,
        duplicate: bool,
        assigned: float,
        sequence: int,
        start: float,
        finish: float,
        task: int = 0,
    ) -> None:
        self.state = state
        self.node = node
        self.executor = executor
        self.duplicate = duplicate
        self.assigned = assigned
        self.sequence = sequence
        self.start = start
        self.finish = finish
        self.task = task
        self.receiving = float("nan")
        self.has_started = False
        self.has_finished = False
        self.inputs: dict[int, Delivery] = {}

    def __repr__(self) -> str:
        """Say what it is."""
        kind = "duplicate" if self.duplicate else "copy"
        return f"<{kind} of job {self.state.job.job_id} node {self.node} on executor {self.executor}>"
