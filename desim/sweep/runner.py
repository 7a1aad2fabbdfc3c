"""Parallel execution of many runs (setting x agent x seed); finished runs are stored at once and never repeated."""

from __future__ import annotations

import json
import math
import os
import random
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass, field, is_dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from desim.exceptions import DesimError, InvalidConfiguration, RecordError
from desim.files import HOST, StorageError, remove_leftovers
from desim.notes import plain, print_note, progress
from desim.result import Result
from desim.sweep.digest import one_moment, source_digest
from desim.sweep.recording import change_of, recording
from desim.sweep.store import Store, StoredOutcome
from desim.sweep.workers import Failed, Finished, Workers, run_tasks

__all__ = ["Outcomes", "Run", "RunFunction", "SweepFailed", "duration", "run_all", "settings_of"]

#: Version of what identifies a run. Outcomes stored under an earlier version are never reused, because some of them
#: belonged to other files, weights or code.
IDENTITY = 3
CHANGED = (
    "code or files have changed since the run was requested, so its outcome is not stored; start again, in a new "
    "process if code has changed"
)
#: Number of failed runs that the error message names.
NAMED = 3
#: Seconds between two lines about the progress, without a terminal.
PERIOD = 30.0


@dataclass(frozen=True)
class Run:
    """One run: what is asked for and, when it is done, what came of it.

    Attributes
    ----------
    setting : dataclass instance or plain value
        System and workload; frozen. A method ``identity()`` may return plain values that identify the setting, such as
        the content of files instead of their names; an attribute ``files`` lists these files, and ``modules`` names
        modules whose code is used besides that of the function.
    agent : dataclass instance or plain value
        Agent, described like the setting. Its attribute ``policy``, if it has one, is its name.
    seed : int
        Seed of workload and agent, or number of the window.
    outcome : dict
        Outcome as it is stored; empty before the run.
    records : Path or None
        Directory of the records, if they were stored.
    reused : bool
        Whether the run was stored before.
    """

    setting: Any
    agent: Any
    seed: int
    outcome: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)
    records: Path | None = field(default=None, compare=False, repr=False)
    reused: bool = field(default=False, compare=False, repr=False)

    @property
    def policy(self) -> str:
        """Name of the agent."""
        name = self.agent if isinstance(self.agent, str) else getattr(self.agent, "policy", type(self.agent).__name__)
        return str(name)

    @cached_property
    def metrics(self) -> dict[str, float]:
        """Metrics by name, of a run that a problem measures; NaN where they are not finite."""
        return {name: math.nan if value is None else value for name, value in self.outcome["metrics"].items()}

    @property
    def validation(self) -> dict[str, Any]:
        """Outcome of the validation, with ``valid``, ``counts`` and ``violations``."""
        return dict(self.outcome["validation"])

    @property
    def workload(self) -> str:
        """Digest of the data that do not depend on the agent; empty if unknown."""
        return str(self.outcome.get("workload", ""))

    @property
    def stalled(self) -> str:
        """Reason why the run stalled; empty if it did not."""
        return str(self.outcome.get("stalled", ""))

    @property
    def window(self) -> tuple[float, ...]:
        """Window of a log, empty if the run is of none.

        Its number, begin of its warm-up, start and end of the measured interval, and end of its cool-down, as far as
        known.
        """
        return tuple(self.outcome.get("window", ()))

    def load(self) -> Result:
        """Return the stored run; raise InvalidConfiguration if its records were not stored."""
        if self.records is None:
            raise InvalidConfiguration("records of runs were not stored; use compare(..., out=DIRECTORY)")
        return Result.load(self.records)

    def __str__(self) -> str:
        """Return a name of the run for messages."""
        return f"{self.setting}, {self.agent}, seed {self.seed}"


RunFunction = Callable[..., Mapping[str, Any]]
"""Function that performs a run and returns its outcome as plain values. It must be defined in a module, so that other
processes can import it. If records are kept, its second argument is the directory for them, None without a store."""


class Outcomes(dict[Run, dict[str, Any]]):
    """Outcomes by run, in the order in which the runs were requested; each run knows its own, too.

    Parameters
    ----------
    found : mapping of Run to dict
        Outcomes by run.
    title : str
        Name of the sweep.
    performed, stored : int
        Number of runs performed now, and number of runs stored before.
    seconds : float
        Total duration of all runs, as far as known.
    """

    def __init__(
        self, found: Mapping[Run, dict[str, Any]], *, title: str, performed: int, stored: int, seconds: float
    ) -> None:
        super().__init__(found)
        self.title, self.performed, self.stored, self.seconds = title, performed, stored, seconds


class SweepFailed(DesimError):
    """Some runs failed; the message states their number and names a few; ``failed`` contains all of them.

    Parameters
    ----------
    message : str
        Message.
    failed : sequence of Failed
        Failed runs, each with its :class:`Run` as the task.
    found : Outcomes, optional
        Outcomes of the other runs.
    """

    def __init__(self, message: str, failed: Sequence[Failed[Run]] = (), found: Outcomes | None = None) -> None:
        super().__init__(message)
        self.failed = tuple(failed)
        self.found = found


def settings_of(perform: RunFunction, run: Run) -> dict[str, Any]:
    """Return everything that a run asks for.

    Parameters
    ----------
    perform : callable
        Function that performs the run.
    run : Run
        The run.

    Returns
    -------
    dict
        Plain values.

    Raises
    ------
    InvalidConfiguration
        If the function is defined in ``__main__``, whose code cannot be distinguished from that of another program, or
        if setting or agent do not consist of plain values.
    """
    if perform.__module__ == "__main__":
        raise InvalidConfiguration(
            f"{perform.__qualname__} performs runs, so it must be defined in an importable module, not in __main__"
        )
    return {
        "identity": IDENTITY,
        "name": f"{run.policy}-seed-{run.seed}",
        "function": f"{perform.__module__}.{perform.__qualname__}",
        "setting": _described(run.setting),
        "agent": _described(run.agent),
        "seed": run.seed,
    }


def _modules(perform: RunFunction, run: Run) -> tuple[str, ...]:
    """Return the modules whose code a run uses, as far as that is known before."""
    parts = (run.setting, run.agent)
    return perform.__module__, *(name for part in parts for name in getattr(part, "modules", ()))


def _described(value: Any) -> Any:
    if hasattr(value, "identity"):
        value = {"type": type(value).__name__, **value.identity()}
    elif is_dataclass(value) and not isinstance(value, type):
        value = {"type": type(value).__name__, **asdict(value)}
    try:
        return json.loads(json.dumps(plain(value), allow_nan=False))
    except TypeError as error:
        raise InvalidConfiguration(f"{value!r} cannot identify runs: expected plain values ({error})") from error


def run_all(
    perform: RunFunction,
    runs: Sequence[Run],
    store: Store | None = None,
    *,
    workers: Workers = Workers(),  # noqa: B008 - it is frozen
    title: str = "runs",
    with_records: bool = False,
    go_on: bool = True,
) -> Outcomes:
    """Perform all runs that are not stored yet.

    Parameters
    ----------
    perform : callable
        Performs one run.
    runs : sequence of Run
        Runs to perform; duplicates are performed once.
    store : Store, optional
        Store to look up and store outcomes; None stores nothing. An unreadable file is reported and set aside, and its
        run is repeated.
    workers : Workers
        Where to perform the runs. On a cluster, outcomes return to this process, which stores them.
    title : str
        Name of the sweep, for messages and for :meth:`Store.sweeps`.
    with_records : bool
        Whether runs write records, which are kept beside their outcomes; the machines of a cluster must then share the
        directory of the store.
    go_on : bool
        Whether to continue with the other runs after one has failed.

    Returns
    -------
    Outcomes
        Outcomes by run, as they are stored: numbers that are not finite become None.

    Raises
    ------
    SweepFailed
        If runs failed. Their tracebacks are in the store, other outcomes are stored, and failed runs are tried again
        the next time.
    KeyboardInterrupt
        On Ctrl-C; the message states the progress, and finished runs are stored.
    StorageError
        If an outcome cannot be stored, for example because the disk is full; raised at once.
    InvalidConfiguration
        If the function is defined in ``__main__``.
    """
    sweep = _Sweep(_Method(perform, store, with_records, workers.backend == "local"), title, go_on)
    sweep.look_up(runs)
    try:
        sweep.run_missing(workers)
    except KeyboardInterrupt:  # not a subclass, with which a script would not end as one does by Ctrl-C
        again = "; run the same command again to continue" if store is not None else ""
        raise KeyboardInterrupt(f"{sweep.progress()}{again}") from None
    except StorageError as error:
        raise StorageError(f"{error}; {sweep.progress()}, and the sweep ended early") from error
    if sweep.failed:
        failures = [Failed(one.task.run, one.kind, one.message, one.trace, one.error) for one in sweep.failed.values()]
        raise SweepFailed(sweep.explanation(), failures, sweep.outcomes())
    return sweep.outcomes()


class _Job(NamedTuple):
    """A run, what it asks for, its name in the store, and the digest of its code; empty if nothing is recorded."""

    run: Run
    settings: dict[str, Any]
    name: str
    code: str


@dataclass(frozen=True)
class _Method:
    """How runs are performed, in this or another process."""

    perform: RunFunction
    store: Store | None
    with_records: bool
    is_local: bool

    def __call__(self, job: _Job) -> StoredOutcome:
        """Perform one run; store its outcome here if that happens on the machine of the sweep."""
        modules = _modules(self.perform, job.run)
        if job.code:
            self._check(job, source_digest(*modules))
        with ExitStack() as stack:
            arguments: list[Any] = [job.run]
            draft = None
            if self.with_records:
                draft = None if self.store is None else stack.enter_context(self.store.draft(job.settings))
                arguments.append(draft)
            begin = time.perf_counter()
            if not job.code:
                return StoredOutcome(_plainly(self.perform(*arguments)), time.perf_counter() - begin)
            with recording() as seen:
                outcome = _plainly(self.perform(*arguments))
            seconds = time.perf_counter() - begin
            if settings_of(self.perform, job.run) != job.settings:  # a file was replaced in the meantime
                raise InvalidConfiguration(f"{job.name}: {CHANGED}")
            used = seen.used(modules, getattr(job.run.setting, "files", ()))
            records = None
            if self.store is not None and draft is not None:
                records = self.store.keep_records(job.settings, used, draft)
            kept = StoredOutcome(outcome, seconds, used, records)
            # Stored in the worker process, so that no outcome is lost if the main process is killed.
            return self.stored(job, kept) if self.is_local else kept

    def _check(self, job: _Job, found: str) -> None:
        """Raise if a run would be performed with other code than that of the main process."""
        if found != job.code:
            where = f"this process of {HOST}" if self.is_local else HOST
            raise InvalidConfiguration(
                f"{where} has other code for {self.perform.__module__} ({found[:12]}) than the main process "
                f"({job.code[:12]}); install the same version on all machines, or start again in a new process"
            )

    def stored(self, job: _Job, kept: StoredOutcome) -> StoredOutcome:
        """Store an outcome, if there is a store, and return it."""
        return kept if self.store is None else self.store.save(job.settings, kept)


def _plainly(outcome: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(plain(dict(outcome)), allow_nan=False))
    return found


@dataclass
class _Sweep:
    """Progress of the runs of a sweep, from requested to stored."""

    method: _Method
    title: str
    go_on: bool
    jobs: dict[str, _Job] = field(default_factory=dict)
    names: dict[Run, str] = field(default_factory=dict)
    waiting: list[_Job] = field(default_factory=list)
    done: dict[str, StoredOutcome] = field(default_factory=dict)
    failed: dict[str, Failed[_Job]] = field(default_factory=dict)
    reused: frozenset[str] = frozenset()

    @one_moment()
    def look_up(self, runs: Sequence[Run]) -> None:
        """Find stored and missing runs; runs with the same identity are merged."""
        method, store = self.method, self.method.store
        if store is not None:
            store.prepare()
        for number, run in enumerate(dict.fromkeys(runs)):
            settings, code = {}, ""
            if store is not None or not method.is_local:
                settings = settings_of(method.perform, run)
                code = source_digest(*_modules(method.perform, run), as_in_files=True)
            name = str(number) if store is None else store.path(settings).name
            self.names[run] = name
            self.jobs.setdefault(name, _Job(run, settings, name, code))
        self.waiting = [job for job in self.jobs.values() if not self._is_stored(job)]
        self.reused = frozenset(self.done)

    def _is_stored(self, job: _Job) -> bool:
        store = self.method.store
        if store is None:
            return False
        try:
            kept = store.recall(job.settings)
        except RecordError as error:
            aside = "" if (path := _aside(store, job)) is None else f", and the file is kept as {path.name}"
            print_note(f"{error}; the run is repeated{aside}")
            return False
        if kept is None or (self.method.with_records and not (kept.records and kept.records.exists())):
            return False
        self.done[job.name] = kept
        store.forget_failure(job.settings)
        return True

    def run_missing(self, workers: Workers) -> None:
        """Perform and store the missing runs, even if some fail."""
        store, total = self.method.store, len(self.waiting)
        with ExitStack() as stack:
            has_company: Callable[[], bool] = bool
            if store is not None:
                print_note(f"{self.title}: {total} runs to do, {len(self.done)} already stored")
                entered = store.entered(self.title, self.jobs, self.done.keys(), must_be_written=total > 0)
                has_company = stack.enter_context(entered).has_company
                stack.callback(remove_leftovers, store.directory)  # of processes that end while writing
            if not total:
                return  # without starting workers
            performed = stack.enter_context(closing(self._performed(workers, has_company)))
            tell = stack.enter_context(_progress(self.title, total))
            for ended in performed:
                self._take(ended)
                tell(len(self.done) - len(self.reused) + len(self.failed), len(self.failed))
                if self.failed and not self.go_on:
                    return

    def _performed(
        self, workers: Workers, has_company: Callable[[], bool]
    ) -> Generator[Finished[_Job, StoredOutcome] | Failed[_Job], None, None]:
        """Yield the runs as they end, with their outcomes as stored."""
        with closing(run_tasks(self.method, self._still_missing(has_company), workers)) as performed:
            for ended in performed:
                if isinstance(ended, Finished) and not self.method.is_local:
                    ended = self._checked(ended)  # noqa: PLW2901
                yield ended

    def _checked(self, ended: Finished[_Job, StoredOutcome]) -> Finished[_Job, StoredOutcome] | Failed[_Job]:
        """Store what another machine has found, unless it used other code or files than there are here."""
        if not (changed := change_of(ended.outcome.used)):
            return Finished(ended.task, self.method.stored(ended.task, ended.outcome))
        error = InvalidConfiguration(f"{ended.task.name}: {changed} differs between the machine that ran it and {HOST}")
        return Failed(ended.task, type(error).__name__, str(error), f"{error}\n", error)

    def _still_missing(self, has_company: Callable[[], bool]) -> Iterator[_Job]:
        """Yield each run just before it is performed, unless another sweep has stored it in the meantime."""
        waiting = self.waiting[::-1]
        rng = random.Random(f"{HOST} {os.getpid()}")
        while waiting:
            if has_company():  # two sweeps started together would otherwise always do the same run
                place = rng.randrange(len(waiting))
                waiting[place], waiting[-1] = waiting[-1], waiting[place]
            job = waiting.pop()
            if not self._is_stored(job):
                yield job

    def _take(self, ended: Finished[_Job, StoredOutcome] | Failed[_Job]) -> None:
        store = self.method.store
        if isinstance(ended, Finished):
            self.done[ended.task.name] = ended.outcome
            if store is not None:
                store.forget_failure(ended.task.settings)
            return
        if isinstance(ended.error, StorageError):
            raise ended.error
        self.failed[ended.task.name] = ended
        if store is not None:
            path = store.save_failure(ended.task.settings, ended)
            if len(self.failed) == 1 and self.go_on:
                told = f"a run failed, the others continue: {ended.task.run}: {_line(ended)} (see {path})"
                print_note(f"{self.title}: {told}")

    def outcomes(self) -> Outcomes:
        """Return the outcomes of the runs that did not fail."""
        found: dict[Run, dict[str, Any]] = {}
        for run, name in self.names.items():
            if (kept := self.done.get(name)) is not None:
                there = replace(run, outcome=kept.outcome, records=kept.records, reused=name in self.reused)
                found[there] = kept.outcome
        seconds = sum(kept.seconds or 0.0 for kept in self.done.values())
        counts = {"performed": len(self.waiting), "stored": len(self.reused)}
        return Outcomes(found, title=self.title, seconds=seconds, **counts)

    def progress(self) -> str:
        """Return the progress in words."""
        return f"{len(self.done)} of {len(self.jobs)} runs are {'done' if self.method.store is None else 'stored'}"

    def explanation(self) -> str:
        """Return a message about the failed runs."""
        store, failed = self.method.store, list(self.failed.values())
        lines = []
        for one in failed[:NAMED]:
            place = "" if store is None else f" (traceback: {store.failure_path(one.task.settings)})"
            lines.append(f"\n  {one.task.run}: {_line(one)}{place}")
        if len(failed) > NAMED:
            lines.append(f"\n  and {len(failed) - NAMED} more")
        there = "done" if store is None else "stored"
        told = f"{len(failed)} of {len(self.jobs)} runs of {self.title} failed, {len(self.done)} are {there}"
        return f"{told}; run the same command again to retry them{''.join(lines)}"


def _aside(store: Store, job: _Job) -> Path | None:
    try:
        return store.set_aside(job.settings)
    except StorageError:  # reported when the outcome cannot be stored, either
        return None


def _line(failed: Failed[Any]) -> str:
    """Return the first line of an error."""
    message = failed.message.partition("\n")[0]
    return f"{failed.kind}: {message}" if message else failed.kind


@contextmanager
def _progress(title: str, total: int) -> Iterator[Callable[[int, int], None]]:
    """Show the progress of runs, given the numbers of ended and failed runs, as a bar or as lines."""
    last, first = time.monotonic(), (0.0, 0)

    def tell(ended: int, failed: int) -> None:
        nonlocal last, first
        now = time.monotonic()
        begin, before = first = first if first[1] else (now, ended)  # what comes before the first end is not repeated
        if now - last >= PERIOD and 0 < ended < total:
            last = now
            failures = f", {failed} failed" if failed else ""
            rate = (now - begin) / max(ended - before, 1)
            left = f", about {duration(rate * (total - ended))} left" if ended > before else ""
            print_note(f"{title}: {ended} of {total} runs{failures}{left}")

    with progress(title, total, "runs") as advance:
        yield tell if advance is None else lambda ended, failed: advance(ended)


def duration(seconds: float) -> str:
    """Return a duration in words, such as ``"40 s"``, ``"12 min"`` or ``"3.5 h"``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 90 * 60 else f"{seconds / 3600:.1f} h"
