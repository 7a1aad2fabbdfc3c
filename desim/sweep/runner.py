"""Many runs (setting x agent x seed) in parallel; finished ones are stored at once and never repeated."""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass, field, is_dataclass
from pathlib import Path
from typing import Any, NamedTuple

from desim.cli.output import plain, print_note, progress
from desim.exceptions import DesimError, InvalidConfiguration, RecordError
from desim.sweep.digest import source_digest
from desim.sweep.files import HOST, StorageError, remove_leftovers
from desim.sweep.store import Store, StoredOutcome
from desim.sweep.workers import Failed, Finished, Workers, run_tasks

__all__ = ["Outcomes", "Run", "RunFunction", "SweepFailed", "SweepInterrupted", "duration", "run_all", "settings_of"]

#: Of what determines a run: outcomes that were stored under an earlier one are never found again, as some were those of
#: other files, weights or code.
IDENTITY = 2
#: Failed runs that the error names.
NAMED = 3
#: Seconds from one line about the progress to the next, where there is no terminal.
PERIOD = 30.0


@dataclass(frozen=True)
class Run:
    """One run.

    Attributes
    ----------
    setting : dataclass instance or plain value
        The system and its workload; frozen. A method ``identity()`` may return what tells it from others, in plain
        values, such as the content of files in the place of their names.
    agent : dataclass instance or plain value
        What decides; like the setting. Its attribute ``policy``, if it has one, is its name.
    seed : int
        Of workload and agent.
    """

    setting: Any
    agent: Any
    seed: int

    def __str__(self) -> str:
        """Name the run in messages."""
        return f"{self.setting}, {self.agent}, seed {self.seed}"


RunFunction = Callable[..., Mapping[str, Any]]
"""Performs a run and returns its outcome in plain values; a function of a module, so that processes find it. If records
are kept, its second argument is the directory to write them to, or None if there is no store."""


class Outcomes(dict[Run, dict[str, Any]]):
    """Outcomes by run, in the order in which runs were asked for.

    Parameters
    ----------
    found : mapping of Run to dict
        The outcomes.
    title : str
        Name of the sweep.
    performed, stored : int
        How many were performed now, and how many were stored before.
    reused : sequence of Run
        Those that were stored before.
    seconds : float
        How long all runs took, one after another, as far as that is known.
    """

    def __init__(
        self,
        found: Mapping[Run, dict[str, Any]],
        *,
        title: str,
        performed: int,
        stored: int,
        reused: Sequence[Run],
        seconds: float,
    ) -> None:
        super().__init__(found)
        self.title, self.seconds = title, seconds
        self.performed, self.stored, self.reused = performed, stored, reused


class SweepInterrupted(KeyboardInterrupt):
    """Ctrl-C during :func:`run_all`; the message says how far it had come."""


class SweepFailed(DesimError):
    """Runs have failed; the message counts them and names the first few, ``failed`` has all.

    Parameters
    ----------
    message : str
        What to tell.
    failed : sequence of Failed
        Each with its :class:`Run` as the task.
    found : Outcomes, optional
        Those of the runs that have not failed.
    """

    def __init__(self, message: str, failed: Sequence[Failed[Run]] = (), found: Outcomes | None = None) -> None:
        super().__init__(message)
        self.failed = tuple(failed)
        self.found = found


def settings_of(perform: RunFunction, run: Run) -> dict[str, Any]:
    """Return all that determines the outcome of a run.

    Parameters
    ----------
    perform : callable
        What performs it.
    run : Run
        The run.

    Returns
    -------
    dict
        Plain values, among them the digest of the code.

    Raises
    ------
    InvalidConfiguration
        If the function is one of the program itself, whose code could not be told from that of another program; or if
        setting or agent are not made of plain values.
    """
    if perform.__module__ == "__main__":
        raise InvalidConfiguration(
            f"{perform.__qualname__} performs runs: want it in a module of its own, not __main__"
        )
    agent = run.agent if isinstance(run.agent, str) else getattr(run.agent, "policy", type(run.agent).__name__)
    return {
        "identity": IDENTITY,
        "name": f"{agent}-seed-{run.seed}",
        "function": f"{perform.__module__}.{perform.__qualname__}",
        "setting": _described(run.setting),
        "agent": _described(run.agent),
        "seed": run.seed,
        "code": source_digest(perform.__module__),
    }


def _described(value: Any) -> Any:
    if hasattr(value, "identity"):
        value = {"type": type(value).__name__, **value.identity()}
    elif is_dataclass(value) and not isinstance(value, type):
        value = {"type": type(value).__name__, **asdict(value)}
    try:
        return json.loads(json.dumps(plain(value), allow_nan=False))
    except TypeError as error:
        raise InvalidConfiguration(f"{value!r} cannot tell runs apart: want plain values ({error})") from error


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
    """Perform what is not stored yet.

    Parameters
    ----------
    perform : callable
        Performs one run.
    runs : sequence of Run
        What is wanted; a run that is named twice is performed once.
    store : Store, optional
        Where outcomes are looked up and stored; nothing is kept if left out. A file that cannot be read is named and
        set aside, and its run repeated.
    workers : Workers
        Who performs them. On a cluster, outcomes come back to this process, which stores them.
    title : str
        Name of the sweep, for messages and for :meth:`Store.sweeps`.
    with_records : bool
        Whether runs write records, which are kept beside their outcomes; on a cluster, its machines need to share the
        directory of the store.
    go_on : bool
        Whether the others are performed when a run has failed.

    Returns
    -------
    Outcomes
        By run, as they are stored: numbers that are not finite are None.

    Raises
    ------
    SweepFailed
        If runs have failed. Their tracebacks are in the store, all others are stored, and they are tried again when
        they are wanted again.
    SweepInterrupted
        On Ctrl-C; what has finished is stored.
    StorageError
        At once if an outcome cannot be stored, for lack of space for example.
    InvalidConfiguration
        If the function is one of the program itself.
    """
    sweep = _Sweep(_Method(perform, store, with_records, workers.backend == "local"), title, go_on)
    sweep.look_up(runs)
    try:
        sweep.run_missing(workers)
    except KeyboardInterrupt as error:
        again = "; the same command goes on" if store is not None else ""
        raise SweepInterrupted(f"{sweep.progress()}{again}") from error
    except StorageError as error:
        raise StorageError(f"{error}; {sweep.progress()}, and the sweep has ended early") from error
    if sweep.failed:
        failures = [Failed(one.task.run, one.kind, one.message, one.trace, one.error) for one in sweep.failed.values()]
        raise SweepFailed(sweep.explanation(), failures, sweep.outcomes())
    return sweep.outcomes()


class _Job(NamedTuple):
    """A run, all that determines its outcome, and what it is known by."""

    run: Run
    settings: dict[str, Any]
    name: str


@dataclass(frozen=True)
class _Method:
    """How runs are performed, here or in another process."""

    perform: RunFunction
    store: Store | None
    with_records: bool
    is_local: bool

    def __call__(self, job: _Job) -> StoredOutcome:
        """Perform one run; store its outcome here if it is performed on the machine that asks."""
        self._check(job)
        with ExitStack() as stack:
            arguments: list[Any] = [job.run]
            if self.with_records:
                arguments.append(None if self.store is None else stack.enter_context(self.store.draft(job.settings)))
            begin = time.perf_counter()
            outcome = dict(self.perform(*arguments))
            seconds = time.perf_counter() - begin
            self._check(job)  # a file may have been replaced meanwhile
        kept = StoredOutcome(json.loads(json.dumps(plain(outcome), allow_nan=False)), seconds)
        # Stored where it was performed: if the process that asks is killed, no outcome is on its way to it.
        return self.stored(job, kept) if self.is_local else kept

    def _check(self, job: _Job) -> None:
        """Refuse a run whose outcome would be stored as that of other code or files than it is made with."""
        if not job.settings:  # it is not stored
            return
        found = settings_of(self.perform, job.run)
        if found == job.settings:
            return
        if self.is_local:
            raise InvalidConfiguration(
                f"{job.name}: code or files have changed since the run was asked for, so that its outcome is not "
                "stored; start again, in a new process if code has changed"
            )
        raise InvalidConfiguration(
            f"{HOST} has other code or files for {self.perform.__module__} ({found['code'][:12]}) than the machine "
            f"that asks ({job.settings['code'][:12]}): install the same version on both"
        )

    def stored(self, job: _Job, kept: StoredOutcome) -> StoredOutcome:
        """Store an outcome, if anywhere, and return it."""
        if self.store is not None:
            self.store.save(job.settings, kept.outcome, seconds=kept.seconds)
        return kept


@dataclass
class _Sweep:
    """Runs on their way from wanted to stored."""

    method: _Method
    title: str
    go_on: bool
    jobs: dict[str, _Job] = field(default_factory=dict)
    names: dict[Run, str] = field(default_factory=dict)
    waiting: list[_Job] = field(default_factory=list)
    done: dict[str, StoredOutcome] = field(default_factory=dict)
    failed: dict[str, Failed[_Job]] = field(default_factory=dict)
    reused: frozenset[str] = frozenset()

    def look_up(self, runs: Sequence[Run]) -> None:
        """Find what is stored and what is missing; runs that differ in nothing that matters are one."""
        method, store = self.method, self.method.store
        if store is not None:
            store.prepare()
        for number, run in enumerate(dict.fromkeys(runs)):
            settings = {} if store is None and method.is_local else settings_of(method.perform, run)
            name = str(number) if store is None else store.path(settings).name
            self.names[run] = name
            self.jobs.setdefault(name, _Job(run, settings, name))
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
        if kept is None or (self.method.with_records and not store.records(job.settings).exists()):
            return False
        self.done[job.name] = kept
        store.forget_failure(job.settings)
        return True

    def run_missing(self, workers: Workers) -> None:
        """Perform and store what is missing, whatever fails."""
        store, total = self.method.store, len(self.waiting)
        with ExitStack() as stack:
            has_company: Callable[[], bool] = bool
            if store is not None:
                print_note(f"{self.title}: {total} runs to do, {len(self.done)} stored already")
                entered = store.entered(self.title, list(self.jobs), must_be_written=total > 0)
                has_company = stack.enter_context(entered).has_company
                stack.callback(remove_leftovers, store.directory)  # of processes that are ended while they write
            if not total:
                return  # without asking for workers
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
        """Yield the runs as they end, with their outcomes as they are stored."""
        with closing(run_tasks(self.method, self._still_missing(has_company), workers)) as performed:
            for ended in performed:
                if isinstance(ended, Finished) and not self.method.is_local:
                    self.method.stored(ended.task, ended.outcome)
                yield ended

    def _still_missing(self, has_company: Callable[[], bool]) -> Iterator[_Job]:
        """Yield the runs, each just before it is performed, that no other sweep has stored meanwhile."""
        waiting = self.waiting[::-1]
        rng = random.Random(f"{HOST} {os.getpid()}")
        while waiting:
            if has_company():  # two sweeps that were started together would do the same all the time
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
                told = f"a run has failed, the others go on: {ended.task.run}: {_line(ended)} (see {path})"
                print_note(f"{self.title}: {told}")

    def outcomes(self) -> Outcomes:
        """Return what has been found of the runs that have not failed."""
        found = {run: self.done[name].outcome for run, name in self.names.items() if name in self.done}
        reused = [run for run, name in self.names.items() if name in self.reused]
        seconds = sum(kept.seconds or 0.0 for kept in self.done.values())
        return Outcomes(
            found,
            title=self.title,
            performed=len(self.waiting),
            stored=len(self.reused),
            reused=reused,
            seconds=seconds,
        )

    def progress(self) -> str:
        """Say how far it has come."""
        return f"{len(self.done)} of {len(self.jobs)} runs are {'done' if self.method.store is None else 'stored'}"

    def explanation(self) -> str:
        """Say what has failed."""
        store, failed = self.method.store, list(self.failed.values())
        lines = []
        for one in failed[:NAMED]:
            place = "" if store is None else f" (traceback: {store.failure_path(one.task.settings)})"
            lines.append(f"\n  {one.task.run}: {_line(one)}{place}")
        if len(failed) > NAMED:
            lines.append(f"\n  and {len(failed) - NAMED} more")
        there = "done" if store is None else "stored"
        told = f"{len(failed)} of {len(self.jobs)} runs of {self.title} have failed, {len(self.done)} are {there}"
        return f"{told}; the same command tries them again{''.join(lines)}"


def _aside(store: Store, job: _Job) -> Path | None:
    try:
        return store.set_aside(job.settings)
    except StorageError:  # told when the outcome cannot be stored either
        return None


def _line(failed: Failed[Any]) -> str:
    """Return the first line of an error."""
    message = failed.message.partition("\n")[0]
    return f"{failed.kind}: {message}" if message else failed.kind


@contextmanager
def _progress(title: str, total: int) -> Iterator[Callable[[int, int], None]]:
    """Tell how far runs have come, with the numbers of those that have ended and have failed: a bar, or some lines."""
    begin = last = time.monotonic()

    def tell(ended: int, failed: int) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= PERIOD and 0 < ended < total:
            last = now
            failures = f", {failed} failed" if failed else ""
            left = duration((now - begin) / ended * (total - ended))
            print_note(f"{title}: {ended} of {total} runs{failures}, about {left} left")

    with progress(title, total, "runs") as advance:
        yield tell if advance is None else lambda ended, failed: advance(ended)


def duration(seconds: float) -> str:
    """Return a duration in words, such as ``"40 s"``, ``"12 min"`` or ``"3.5 h"``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 90 * 60 else f"{seconds / 3600:.1f} h"
