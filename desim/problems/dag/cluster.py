"""DAG jobs on heterogeneous executors, with data transfers and duplication of nodes.

Model: Luo et al., "Learning to Optimize DAG Scheduling in Heterogeneous Environment" (LACHESIS), section III.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, Literal

from desim.exceptions import InvalidConfiguration, WorkloadError
from desim.problems.base import Process
from desim.problems.dag.dynamics import DagDynamics
from desim.problems.dag.executors import Executors
from desim.problems.dag.job import Job
from desim.problems.dag.links import SharedLinks
from desim.problems.dag.tables import schemas
from desim.records import Schema

__all__ = ["DagCluster"]


class DagCluster(DagDynamics):
    """Executors that run the nodes of DAG jobs, each node whole on one executor and without interruption.

    A node can start on an executor once the data of some copy of each of its parents have arrived there. A decision is
    due when a job arrives, a node finishes or an executor changes between up and down, as long as there are executable
    nodes: those whose parents have all finished or, with ``plan_ahead``, are all assigned. The answer is an
    :class:`Assign`, a list of them, or None for nothing until the next event; after an action that leaves executable
    nodes the agent is asked again.

    Events for listeners: ``arrival`` (the subject is the Job), ``assignment``, ``start``, ``completion`` and
    ``withdrawal`` (a Copy), ``job_completion`` (the Job), ``outage`` and ``repair`` (the number of the executor).

    Parameters
    ----------
    jobs : iterable of Job
        In order of submission time. An iterator is read once, one job ahead of the clock.
    executors : Executors
        What they run on.
    plan_ahead : bool
        Nodes may be assigned as soon as their parents are, instead of after these have finished.
    transfers : {"when_finished", "when_assigned"}
        When data set out to another executor: when the parent has finished, as in the paper, so that a node finds data
        on their way that were sent before it was assigned; or not before the node is assigned.
    outages_lose_data : bool
        An executor that goes down loses the results that it holds; what is still needed of them and held nowhere else
        has to be run again. What runs and waits on it is lost in any case, and its nodes become executable again.
    links : SharedLinks, optional
        Links that transfers share, which may then arrive later than they would alone; it takes
        ``transfers="when_assigned"``. Expected times leave out what else is under way.
    processes : iterable of callables
        Extra SimPy processes, for example outages; each is called with the bound cluster.

    Raises
    ------
    InvalidConfiguration
        If an argument is not one of its choices.

    Examples
    --------
    >>> from desim.agents.dag import HEFT
    >>> from desim import simulate
    >>> job = Job(1, [2.0, 1.0, 4.0], [("a", "c", 10.0), ("b", "c", 5.0)], names="abc")
    >>> result = simulate(DagCluster([job], Executors([1.0, 2.0], 10.0), plan_ahead=True), HEFT())
    >>> result.jobs["finish_time"].to_list()
    [3.5]
    """

    name: ClassVar[str] = "dag"
    granularity: ClassVar[str] = "node"
    events: ClassVar[tuple[str, ...]] = (
        "arrival",
        "assignment",
        "start",
        "completion",
        "withdrawal",
        "job_completion",
        "outage",
        "repair",
    )

    def __init__(
        self,
        jobs: Iterable[Job],
        executors: Executors,
        *,
        plan_ahead: bool = False,
        transfers: Literal["when_finished", "when_assigned"] = "when_finished",
        outages_lose_data: bool = True,
        links: SharedLinks | None = None,
        processes: Iterable[Process] = (),
    ) -> None:
        super().__init__(processes=processes)
        if transfers not in ("when_finished", "when_assigned"):
            raise InvalidConfiguration(f"transfers is {transfers!r}, want 'when_finished' or 'when_assigned'")
        if links is not None and transfers != "when_assigned":
            raise InvalidConfiguration(
                f"transfers is {transfers!r}, want 'when_assigned' with links: a copy that is not assigned has no route"
            )
        if links is not None and links.num_executors != executors.num_executors:
            raise InvalidConfiguration(
                f"the links are for {links.num_executors} executors, there are {executors.num_executors}"
            )
        self.jobs = jobs
        self.executors = executors
        self.plan_ahead = bool(plan_ahead)
        self.transfers = transfers
        self.outages_lose_data = bool(outages_lose_data)
        self.links = links

    def describe(self) -> dict[str, Any]:
        """Return the configuration, without the jobs, as plain values."""
        return {
            "problem": self.name,
            "granularity": self.granularity,
            **self.executors.describe(),
            "plan_ahead": self.plan_ahead,
            "transfers": self.transfers,
            "outages_lose_data": self.outages_lose_data,
            "links": None if self.links is None else self.links.describe(),
        }

    def schemas(self) -> dict[str, Schema]:
        """Return the tables of jobs, nodes, edges, copies, transfers, executors, channels and outages."""
        return schemas()

    def check_replayable(self) -> None:
        """Raise InvalidConfiguration if the jobs are an iterator, which can be read only once."""
        if isinstance(self.jobs, Iterator):
            raise InvalidConfiguration("the jobs are an iterator, which can be read only once: pass a list to fork")

    def submit(self, job: Job) -> None:
        """Take a job now, as the arrival process does; a process of your own may call it, too.

        Parameters
        ----------
        job : Job
            Its submission time must not lie in the future.

        Raises
        ------
        WorkloadError
            If it does, a job of that id is in the system, or the job's run times are for other executors.
        """
        if job.submission_time > self.env.now:
            raise WorkloadError(f"job {job.job_id} cannot be submitted at {self.env.now} s: it lies in the future")
        self._take(job)

    @property
    def num_units(self) -> int:
        """How many executors can fail."""
        return self.executors.num_executors
