"""Preemption by quality of service (QOS): which queued jobs may preempt running jobs, and what happens to these.

A job has at most one QOS level, which defines whose jobs it may preempt. Agents decide about preemption, with the
action `StartPreempting`. A preempted job is requeued, like one interrupted by an outage, or suspended. A suspended job
keeps its work, and the preempting job borrows only its cores. Its memory, GPUs and other resources remain allocated to
it, and so do cores that the preempting job does not need; only jobs that may preempt it can use these. It resumes on
the same cores once all of them are free again, after the decisions of that instant.

The terms are those of Slurm: a QOS has a priority, a list of QOS that it preempts, a mode in which its own jobs are
preempted, and a GraceTime. See Yoo, Jette and Grondona, "SLURM: Simple Linux Utility for Resource Management", JSSPP
2003.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import simpy

from desim.checks import check_choice, check_float, did_you_mean
from desim.core import Phase, at
from desim.exceptions import InvalidConfiguration, WorkloadError
from desim.problem import Metric
from desim.problems.batch.execution import Execution
from desim.problems.batch.job import Job, StartPreempting
from desim.problems.batch.parts.base import Part, cycle_of
from desim.problems.batch.predictors import corrected_end
from desim.problems.batch.tables import job_id_column
from desim.tables import Column, Table, arrival_number

if TYPE_CHECKING:
    from desim.problems.batch.observation import BatchState
    from desim.result import Result

__all__ = ["AnnouncedPreemption", "QualityOfService"]


@dataclass(frozen=True, slots=True)
class QualityOfService:
    """QOS level: whose jobs its jobs may preempt, and how its own jobs are preempted.

    Attributes
    ----------
    name : str
        Name, not empty.
    priority : float
        Priority, at least 0; larger is more important.
    preempts : sequence of str
        Names of the QOS levels whose jobs its jobs may preempt.
    mode : {"requeue", "suspend"}
        What happens to its own jobs when they are preempted.
    grace_time : float or str
        Seconds for which its own jobs run on before they are preempted, at least 0; or the name of an attribute that
        states them for each of its jobs.

    Raises
    ------
    InvalidConfiguration
        If a value is out of range, or the level preempts itself.
    """

    name: str
    priority: float = 0.0
    preempts: Sequence[str] = ()
    mode: Literal["requeue", "suspend"] = "requeue"
    grace_time: float | str = 0.0

    def __post_init__(self) -> None:
        """Check the values."""
        if not isinstance(self.name, str) or not self.name:
            raise InvalidConfiguration(f"the name of a QOS: got {self.name!r}, expected a nonempty string")
        check_float(f"the priority of QOS {self.name!r}", self.priority, least=0)
        if not isinstance(self.grace_time, str) or not self.grace_time:
            check_float(f"the grace time of QOS {self.name!r}", self.grace_time, least=0)
        check_choice(f"the mode of QOS {self.name!r}", self.mode, ("requeue", "suspend"))
        if isinstance(self.preempts, str):
            raise InvalidConfiguration(
                f"QOS {self.name!r}: preempts: got {self.preempts!r}, expected a tuple; try ({self.preempts!r},)"
            )
        object.__setattr__(self, "preempts", tuple(self.preempts))
        if self.name in self.preempts:
            raise InvalidConfiguration(f"QOS {self.name!r} preempts itself")


class QOSTable:
    """QOS levels of a site; runs do not change them.

    Parameters
    ----------
    qos : iterable of QualityOfService
        QOS levels with unique names.
    jobs : iterable of Job
        Jobs that are known in advance.

    Attributes
    ----------
    by_name : dict of str to QualityOfService
        QOS levels by name, in the given order.
    has_grace : bool
        Whether a level grants a grace time.
    longest_grace_time : float
        Longest grace time of a level or of a job that is known in advance, in seconds.

    Raises
    ------
    InvalidConfiguration
        If a level has the wrong type, occurs twice or is unknown; or if levels preempt each other in a cycle.
    WorkloadError
        If a job has an unknown QOS, or lacks the attribute with its grace time.
    """

    def __init__(self, qos: Iterable[QualityOfService], jobs: Iterable[Job] = ()) -> None:
        self.by_name: dict[str, QualityOfService] = {}
        for one in qos:
            if not isinstance(one, QualityOfService):
                raise InvalidConfiguration(f"qos: got {one!r}, expected QualityOfService objects")
            if one.name in self.by_name:
                raise InvalidConfiguration(f"qos: the name {one.name!r} occurs twice; names must be unique")
            self.by_name[one.name] = one
        for one in self.by_name.values():
            for other in one.preempts:
                if other not in self.by_name:
                    raise InvalidConfiguration(f"QOS {one.name!r}: preempts: got {self._unknown(other)}")
        if circle := cycle_of({name: one.preempts for name, one in self.by_name.items()}):
            raise InvalidConfiguration(f"QOS levels preempt each other: {' preempts '.join(circle)}")
        stated = [one.grace_time for one in self.by_name.values()]
        self.has_grace = any(stated)
        self.longest_grace_time = max((each for each in stated if not isinstance(each, str)), default=0.0)
        for job in jobs:
            self.longest_grace_time = max(self.longest_grace_time, self.check(job))

    def _unknown(self, name: str) -> str:
        there = ", ".join(self.by_name) or "none"
        return f"{name!r}{did_you_mean(name, self.by_name)}, expected one of: {there}"

    def check(self, job: Job) -> float:
        """Return the grace time of a job; raise WorkloadError if it has an unknown QOS, or not the attribute."""
        if job.qos and job.qos not in self.by_name:
            raise WorkloadError(f"job {job.job_id}: qos: got {self._unknown(job.qos)}")
        try:
            return check_float("grace", self.grace_time(job), least=0)
        except InvalidConfiguration:
            name = self.by_name[job.qos].grace_time
            raise WorkloadError(
                f"job {job.job_id}: attribute {name!r}: got {job.group(str(name))!r}, expected the grace time that QOS "
                f"{job.qos!r} takes from it, a finite number of seconds >= 0"
            ) from None

    def of(self, job: Job) -> QualityOfService | None:
        """Return the QOS of a job; None if it has none, so that it neither preempts nor is preempted."""
        return self.by_name.get(job.qos)

    def allows(self, job: Job, victim: Job) -> bool:
        """Return whether a job may preempt another."""
        one = self.of(job)
        return one is not None and victim.qos in one.preempts

    def suspends(self, job: Job) -> bool:
        """Return whether a job is suspended when it is preempted."""
        job_qos = self.of(job)
        return job_qos is not None and job_qos.mode == "suspend"

    def grace_time(self, job: Job) -> float:
        """Return the seconds for which a job runs on before it is preempted."""
        job_qos = self.of(job)
        stated = 0.0 if job_qos is None else job_qos.grace_time
        seconds: float = job.attributes.get(stated, math.nan) if isinstance(stated, str) else stated
        return seconds

    def open_to(self, state: BatchState, job: Job, victims: Collection[int]) -> tuple[int, int]:
        """Return the cores that a queued job could use if running jobs were preempted.

        Parameters
        ----------
        state : BatchState
            Current state of the cluster.
        job : Job
            Queued job.
        victims : collection of int
            Rows of the running jobs to preempt; the queued job must be allowed to preempt them.

        Returns
        -------
        (int, int)
            Bit sets of the cores that would be free, and of those that suspended jobs would lend.
        """
        suspended = state.suspended
        running = (one.cores for each, one in state.running.items() if each not in victims)
        closed = _union(running) | _union(one.cores for one in suspended.values() if not self.allows(job, one.job))
        borrowed = _union(one.cores for one in suspended.values())
        borrowed |= _union(state.running[each].cores for each in victims if self.suspends(state.running[each].job))
        resources = state.resources
        usable = ((1 << resources.num_cores) - 1) & ~resources.down & ~closed
        return usable & ~borrowed, usable & borrowed

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """Yield the record of each QOS level."""
        for one in self.by_name.values():
            stated = None if isinstance(one.grace_time, str) else one.grace_time
            grace = (stated,) if self.has_grace else ()
            yield one.name, one.priority, list(one.preempts), one.mode, *grace


def _union(core_sets: Iterable[int]) -> int:
    return reduce(or_, core_sets, 0)


class Resumed(Execution):
    """Execution of a job that resumes after it was suspended.

    Parameters
    ----------
    *arguments : object
        Arguments of :class:`Execution`.
    done : float
        Seconds that the job has run before.
    """

    def __init__(self, *arguments: Any, done: float) -> None:
        super().__init__(*arguments)
        self.done = done

    def _end_at(self, end: float) -> None:
        """Set the end of the execution."""
        self.duration = self.work = end - self.starting_time


class Suspended(NamedTuple):
    """Suspended job.

    Attributes
    ----------
    row : int
        Row of the job.
    job : Job
        Job that is suspended.
    cores : int
        Cores that it owns and others may borrow, as a bit set.
    done : float
        Seconds of work since it last started from the beginning or from a checkpoint.
    starting_time : float
        Last start in seconds.
    length : float
        Seconds that the job is expected to run in all.
    """

    row: int
    job: Job
    cores: int
    done: float
    starting_time: float
    length: float

    @property
    def left(self) -> float:
        """Seconds that the job is expected to run when it resumes."""
        return corrected_end(self.length - self.done, 0.0)


class AnnouncedPreemption(NamedTuple):
    """Preemption that takes place when the grace time of its victims is over.

    Attributes
    ----------
    announced : float
        Time of the agent's decision, in seconds.
    time : float
        Time at which the job starts, in seconds.
    victims : tuple of int
        Ids of the jobs that it preempts, if they are still running.
    """

    announced: float
    time: float
    victims: tuple[int, ...]


class Preemption(Part):
    """Part that starts jobs by preempting others, and suspends and resumes jobs.

    Parameters
    ----------
    qos : QOSTable
        QOS levels of the site.
    """

    name = "preemption"
    constants = (QOSTable,)

    def __init__(self, qos: QOSTable) -> None:
        self.qos = qos

    def describe(self) -> dict[str, Any]:
        """Return the number of QOS levels, and the longest grace time if there is one."""
        grace = {"grace_time": self.qos.longest_grace_time} if self.qos.has_grace else {}
        return {"qos": len(self.qos.by_name)} | grace

    def begin(self) -> None:
        """Record the QOS levels."""
        self._state = self.cluster._state
        self._state.qos = self.qos
        self._tables = self.cluster.simulation.records.tables
        for row in self.qos.rows():
            self._tables["qos"].append(row)

    def outside(self) -> Mapping[int, Job]:
        """Return the suspended jobs, as they were submitted."""
        return {row: self.cluster._elsewhere.get(row, one.job) for row, one in self._state.suspended.items()}

    def explain(self, job: Job, row: int) -> str:
        """Return why a job is suspended."""
        return "it is suspended, and resumes when all of its cores are free"

    def is_due(self) -> bool:
        """Return whether a preemption is announced."""
        return bool(self._state.announced)

    def drop_future(self) -> Iterable[Callable[[Any], None]]:
        """Set the run times of suspended jobs to their expected ones; agents know announced preemptions."""
        for row, one in self._state.suspended.items():
            self._state.suspended[row] = one._replace(job=one.job.known()._replace(run_time=one.length))
        return (self._end_grace,)

    def arrived(self, job: Job, row: int) -> None:
        """Check and record the QOS of a job."""
        if job.qos:
            grace = self.qos.check(job)
            self._tables["job_qos"].append((job.job_id, job.qos, row, *((grace,) if self.qos.has_grace else ())))

    # preemption

    def carry_out(self, action: Any) -> str | None:
        """Start a job by preempting others, or announce it; return why not, "" on success, None for other actions."""
        if type(action) is not StartPreempting or action.row not in self._state.queued:
            return None
        row, job = action.row, self._state.queued[action.row]
        fault, place = self._fault(job, row, action.victims)
        if fault:
            return f"{self.cluster.named(row)} cannot start: {fault}"
        now = self.cluster.env.now
        grace = max((self.qos.grace_time(self._state.running[victim].job) for victim in action.victims), default=0.0)
        if grace and (one := self._state.announced.get(row)) is not None:
            return f"{self.cluster.named(row)} has announced its preemption already: it starts at {one.time} s"
        if grace:
            at(self.cluster.env, now + grace, Phase.ARRIVAL, row).callbacks.append(self._end_grace)
            self._state.announced[row] = AnnouncedPreemption(now, now + grace, action.victims)
        else:
            self._start(job, row, action.victims, place, now)
        return ""

    def _start(self, job: Job, row: int, victims: Collection[int], place: Any, announced: float) -> None:
        """Start a job by preempting others."""
        for victim in sorted(victims, reverse=True):
            self._take_off(self._state.running[victim], job, row, announced)
        _, borrowed = self.qos.open_to(self._state, job, ())
        self.cluster._start(job, row, self.cluster.resources.take_at(job, row, place, borrowed))
        self._state.preemptions += 1
        self.corrected()

    def started(self, execution: Execution) -> None:
        """Withdraw the announced preemption of a job that has started."""
        self._state.announced.pop(execution.row, None)

    def _end_grace(self, event: simpy.Event) -> None:
        """Carry out an announced preemption with the victims that still run; it lapses if the job cannot start."""
        row: Any = event.value
        state, now = self._state, self.cluster.env.now
        one = state.announced.get(row)
        if one is None or one.time != now:  # the job has started otherwise
            return
        del state.announced[row]
        job = state.queued[row]
        victims = tuple(
            each for each in one.victims if each in state.running and state.running[each].starting_time <= one.announced
        )
        fault, place = self._fault(job, row, victims)
        if not fault:
            self._start(job, row, victims, place, one.announced)
        self.open_cycle()

    def _fault(self, job: Job, row: int, victims: Any) -> tuple[str, Any]:
        """Return why a queued job cannot preempt the given jobs ("" if it can), and where it starts."""
        running = self._state.running
        if not isinstance(victims, tuple) or len(set(victims)) < len(victims):
            return f"victims: got {victims!r}, expected a tuple of distinct rows of jobs", None
        for victim in victims:
            if victim not in running:
                return f"row {victim}, which it would preempt, is not the row of a running job", None
            if not self.qos.allows(job, running[victim].job):
                mine, other = (repr(one.qos) if one.qos else "none" for one in (job, running[victim].job))
                name = self.cluster.named(victim)
                return f"its QOS is {mine}, which does not preempt {other}, the QOS of {name}", None
        place = self.cluster.resources.place_without(self._state, job, victims)
        if place is None:
            without = f"even without {', '.join(map(self.cluster.named, victims))}" if victims else "now"
            return f"it requests {job.requested_cores} cores, which would not be free {without}", None
        return self.cluster._objection(job, row), place

    def _take_off(self, execution: Execution, by: Job, by_row: int, announced: float) -> None:
        """Preempt a job for another: suspend it, or return it to the queue."""
        job, suspends = execution.job, self.qos.suspends(execution.job)
        record = job.job_id, by.job_id, "suspend" if suspends else "requeue", execution.row, by_row
        grace = (announced,) if self.qos.has_grace else ()
        self._tables["preemptions"].append((self.cluster.env.now, *record, *grace))
        if suspends:
            self._suspend(execution)
        else:
            self.cluster._interrupt(execution, "preempted")

    # suspension

    def _suspend(self, execution: Execution) -> None:
        """Suspend a running job, which keeps its cores."""
        cluster, row, job, now = self.cluster, execution.row, execution.job, self.cluster.env.now
        execution.callbacks.clear()
        cluster._note_cut(execution, "suspended")
        cluster.resources.record(execution, now)
        del self._state.running[row]
        done = execution.done + (now - execution.starting_time)
        length = job.requested_time
        if self._state.predictions is not None:  # corrections included
            length = execution.done + (execution.expected_end - execution.starting_time)
        self._state.suspended[row] = Suspended(row, job, execution.cores, done, execution.starting_time, length)
        self._share()
        self._state.count_usage(job, -job.requested_cores)
        execution.outcome = "suspended"
        cluster.emit("interruption", execution)

    def _end_suspension(self, row: int) -> int:
        """Remove a job from the suspended ones; return its cores."""
        cores = self._state.suspended.pop(row).cores
        self._share()
        return cores

    def _share(self) -> None:
        self.cluster.resources.set_suspended(_union(one.cores for one in self._state.suspended.values()))

    def _give_up(self, execution: Execution) -> None:
        """Release a suspended job's cores, except those another job is using."""
        cores = self._end_suspension(execution.row)
        self.cluster.resources.give_up(cores, _union(one.cores for one in self._state.running.values()))

    def cleared(self, cores: int, users: Collection[str | int]) -> None:
        """Interrupt suspended jobs whose cores fail, as if they resumed and were interrupted at once."""
        for one in reversed(list(self._state.suspended.values())):
            if one.cores & cores and one.job.user_id not in users:
                self.cluster._interrupt(self._resumed(one, 0.0), leave=self._give_up)

    def room_freed(self) -> None:
        """Resume suspended jobs at the end of this instant if their cores are free."""
        if self._state.borrowed:
            self.corrected()
            self.settled()

    def settled(self) -> None:
        """Schedule the resumption of suspended jobs after all other events of this instant and any open cycle."""
        if self._state.suspended and not self.cluster._cycling:
            env = self.cluster.env
            at(env, env.now, Phase.SLOT).callbacks.append(self._resume)

    def _resume(self, event: simpy.Event) -> None:
        """Resume suspended jobs whose cores are all free; jobs that borrowed their cores resume first."""
        if self.cluster._cycling:  # the end of the cycle schedules it again
            return
        state, cluster = self._state, self.cluster
        taken = cluster.resources.down | _union(one.cores for one in state.running.values())
        back = []
        for one in reversed(state.suspended.values()):
            if not one.cores & taken:
                back.append(one)
            taken |= one.cores
        for one in reversed(back):
            job = one.job
            execution = self._resumed(one, max(job.run_time - cluster._saved(one.row) - one.done, 0.0))
            self._end_suspension(one.row)
            state.running[one.row] = execution
            state.count_usage(job, job.requested_cores)
            if cluster.listening:
                cluster.emit("start", execution)
        if back:
            self.corrected()
            self.open_cycle()  # expected ends have changed

    def _resumed(self, one: Suspended, work: float) -> Resumed:
        """Return the execution of a resumed job, with its remaining seconds of work."""
        cluster, job, duration = self.cluster, one.job, work
        if work > job.requested_time - one.done and cluster.enforce_time_limit:
            duration = min(work, max(job.requested_time + cluster.over_time_limit - one.done, 0.0))
        expected = (job.requested_time if self._state.predictions is None else one.length) - one.done
        times, end = (work, duration, expected), cluster._on_completion
        execution = Resumed(cluster.env, one.row, job, one.cores, *times, end, done=one.done)
        cluster._expire_later(execution)
        return execution

    def corrected(self) -> None:
        """Update the expected ends of suspended jobs, and of the jobs that borrow their cores.

        Each core counts for the job that has held it longest: the suspended job at the bottom, if there is one. A
        suspended job is expected to resume when the last job on its cores is expected to end.
        """
        state = self._state
        borrowed: dict[int, tuple[int, float]] = {}
        below = 0
        for row, one in state.suspended.items():
            borrowed[row] = one.cores & ~below, 0.0
            below |= one.cores
        above = [(one.cores, one.expected_end) for one in state.running.values() if one.cores & below]
        for row, one in reversed(state.suspended.items()):  # jobs suspended later borrow from earlier ones
            ends = [end for cores, end in above if cores & one.cores]
            end = max(ends, default=state.env.now) + one.left
            borrowed[row] = borrowed[row][0], end
            above.append((one.cores, end))
        for row, execution in state.running.items():
            if execution.cores & below:
                borrowed[row] = execution.cores & ~below, execution.expected_end
        if borrowed != state.borrowed:
            state.borrowed = borrowed
            state.preemptions += 1
            if state.running_table is not None:
                state.running_table._fill(state.running_rows())
        self.cluster.resources.count_once(state)


INFO = (Column("qos", "integer", "number of QOS levels, if any", least=1, optional=True),)
"""Entries in the description of a run."""

TABLES = (
    Table(
        "qos",
        "a QOS level",
        (
            Column("qos", "text", "name of the QOS level"),
            Column("priority", "float", "priority; larger is more important", least=0),
            Column("preempts", "texts", "QOS levels whose jobs its jobs may preempt"),
            Column("mode", "text", "what happens to its own jobs when preempted", values=("requeue", "suspend")),
            Column(
                "grace_time",
                "float",
                "time for which its own jobs run on before they are preempted",
                unit="s",
                null="if an attribute of the jobs states it",
                least=0,
                only_with="grace_time",
            ),
        ),
        only_with="qos",
    ),
    Table(
        "job_qos",
        "a job with a QOS",
        (
            job_id_column(),
            Column("qos", "text", "name of its QOS level"),
            arrival_number("of the job"),
            Column(
                "grace_time",
                "float",
                "time for which the job runs on before it is preempted",
                unit="s",
                least=0,
                only_with="grace_time",
            ),
        ),
        sort_by=("arrival_number",),
        only_with="qos",
    ),
    Table(
        "preemptions",
        "a job that was preempted by another",
        (
            Column("time", "float", "time of the preemption", unit="s", least=0),
            job_id_column("identifier of the preempted job"),
            job_id_column("identifier of the job that started instead", "preempted_by"),
            Column("mode", "text", "what happened to the preempted job", values=("requeue", "suspend")),
            arrival_number("of the preempted job"),
            Column("number_preempted_by", "integer", "arrival number of the job that started", least=0),
            Column("announced", "float", "time of the decision", unit="s", least=0, only_with="grace_time"),
        ),
        sort_by=("time", "arrival_number"),
        only_with="qos",
    ),
)
"""Tables of a run."""


def sentence(result: Result) -> str:
    """Return what was in force in a run, for reports; empty if there were no QOS levels."""
    if "qos" not in result.info:
        return ""
    found = []
    for level in result.table("qos").to_dicts():
        preempts = f", preempts {', '.join(level['preempts'])}" if level["preempts"] else ""
        mode = "suspended" if level["mode"] == "suspend" else "requeued"
        seconds = level.get("grace_time", 0.0)
        grace = " after a grace time of each job" if seconds is None else f" after {seconds:g} s" if seconds else ""
        found.append(f"{level['qos']} with priority {level['priority']:g}{preempts}, {mode}{grace} when preempted")
    return f"Quality of service (QOS): {'; '.join(found)}."


METRICS = (
    Metric(
        "preemptions",
        "with QOS levels: executions preempted by another job within the observed interval",
        "executions",
        "lower",
        only_with="qos",
    ),
)
"""Metrics of runs with QOS levels."""


def measure(result: Result, observed: tuple[float, float]) -> dict[str, float]:
    """Return the metrics of a run within an observed interval, which includes the end of the run."""
    import polars as pl

    if "qos" not in result.info:
        return {}
    finish, (begin, end) = pl.col("finish_time"), observed
    cut = result.scan("interruptions").filter(pl.col("outcome").is_in(["preempted", "suspended"]))
    counted = cut.filter((finish >= begin) & ((finish < end) | (end >= result.end_time)))
    return {"preemptions": float(counted.select(pl.len()).collect().item())}
