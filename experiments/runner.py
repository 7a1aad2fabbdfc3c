"""Many runs (setting x agent x seed) in parallel; finished ones are stored at once and never repeated."""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field, is_dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from desim.cli.output import plain, remark
from desim.cli.transcript import keep
from desim.exceptions import DesimError, InvalidConfiguration, RecordError
from desim.experiments.files import HOST, StorageError
from desim.experiments.ledger import Entry, entered
from desim.experiments.progress import runs_progress
from desim.experiments.run import Perform, Run
from desim.experiments.source import source_digest
from desim.experiments.store import Kept, Store
from desim.parallel import Failed, Finished, Workers, perform_tasks

__all__ = ["SweepFailed", "SweepInterrupted", "perform_all", "settings_of"]

#: Failed runs that the error names.
NAMED = 3


class SweepInterrupted(KeyboardInterrupt):
    """Ctrl-C during :func:`perform_all`; the message says how far it had come."""


class SweepFailed(DesimError):
    """Runs have failed while the others went on; the message counts them and names the first few."""


def settings_of(perform: Perform, run: Run) -> dict[str, Any]:
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
        If the function is one of the program itself: its code could not be told from that of another program.
    """
    if perform.__module__ == "__main__":
        raise InvalidConfiguration(
            f"{perform.__qualname__} performs runs: want it in a module of its own, not __main__"
        )
    return {
        "name": f"{getattr(run.agent, 'policy', type(run.agent).__name__)}-seed-{run.seed}",
        "function": f"{perform.__module__}.{perform.__qualname__}",
        "setting": _described(run.setting),
        "agent": _described(run.agent),
        "seed": run.seed,
        "code": source_digest(perform.__module__),
    }


def _described(value: Any) -> dict[str, Any]:
    assert is_dataclass(value), value
    assert not isinstance(value, type), value
    return {"type": type(value).__name__, **asdict(value)}


def perform_all(
    perform: Perform,
    runs: Sequence[Run],
    store: Store,
    *,
    workers: Workers = Workers(),  # noqa: B008 - it is frozen
    title: str = "runs",
) -> dict[Run, dict[str, Any]]:
    """Perform what is not stored yet.

    Parameters
    ----------
    perform : callable
        Performs one run.
    runs : sequence of Run
        What is wanted; a run that is named twice is performed once.
    store : Store
        Where outcomes are looked up and stored. A file that cannot be read is named and set aside, and its run
        repeated.
    workers : Workers
        Who performs them. On a cluster, outcomes come back to this process, which stores them.
    title : str
        Name of the sweep, for messages and for :meth:`Store.sweeps`.

    Returns
    -------
    dict of Run to dict
        Outcomes in the order of the runs, as they are stored.

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
    sweep = _Sweep(perform, store, title, {run: settings_of(perform, run) for run in dict.fromkeys(runs)})
    sweep.look_up()
    missing = len(sweep.waiting)
    remark(f"{title}: {missing} runs to do, {len(sweep.done)} stored already")
    names = [path.name for path in sweep.jobs]
    try:
        with entered(store.directory, title, names, must_be_written=missing > 0) as entry:
            sweep.perform_missing(workers, entry)
    except KeyboardInterrupt as error:
        raise SweepInterrupted(f"{sweep.progress()}; the same command goes on") from error
    except StorageError as error:
        raise StorageError(f"{error}; {sweep.progress()}, and the sweep has ended early") from error
    if sweep.failed:
        raise SweepFailed(sweep.explanation())
    with keep("runs", title=title, performed=missing, stored=len(sweep.jobs) - missing, seconds=sweep.seconds):
        return {run: sweep.done[store.path(settings)].outcome for run, settings in sweep.wanted.items()}


class _Job(NamedTuple):
    """A run, all that determines its outcome, and where that is stored."""

    run: Run
    settings: dict[str, Any]
    path: Path


@dataclass
class _Sweep:
    """Runs on their way from wanted to stored."""

    perform: Perform
    store: Store
    title: str
    wanted: dict[Run, dict[str, Any]]
    jobs: dict[Path, _Job] = field(default_factory=dict)
    waiting: list[_Job] = field(default_factory=list)
    done: dict[Path, Kept] = field(default_factory=dict)
    failed: dict[Path, Failed[_Job]] = field(default_factory=dict)

    def look_up(self) -> None:
        """Find what is stored and what is missing."""
        self.store.prepare()
        for run, settings in self.wanted.items():
            path = self.store.path(settings)
            self.jobs.setdefault(path, _Job(run, settings, path))  # runs that differ in nothing that matters are one
        self.waiting = [job for job in self.jobs.values() if not self._is_stored(job)]

    def _is_stored(self, job: _Job) -> bool:
        try:
            kept = self.store.recall(job.settings)
        except RecordError as error:
            aside = "" if (path := _aside(self.store, job)) is None else f", and the file is kept as {path.name}"
            remark(f"{error}; the run is repeated{aside}")
            return False
        if kept is not None:
            self._note(job, kept)
        return kept is not None

    def _note(self, job: _Job, kept: Kept) -> None:
        self.done[job.path] = kept
        self.store.forget_failure(job.settings)

    def perform_missing(self, workers: Workers, entry: Entry) -> None:
        """Perform and store what is missing, whatever fails."""
        if not self.waiting:
            return  # without asking for workers
        performed = _performed(self.perform, self._still_missing(entry), self.store, workers)
        reused = len(self.done)
        with runs_progress(self.title, len(self.waiting)) as tell, closing(performed):
            for ended in performed:
                self._take(ended)
                tell(len(self.done) - reused + len(self.failed), len(self.failed))

    def _still_missing(self, entry: Entry) -> Iterator[_Job]:
        """Yield the runs, each just before it is performed, that no other sweep has stored meanwhile."""
        waiting = self.waiting[::-1]
        rng = random.Random(f"{HOST} {os.getpid()}")
        while waiting:
            if entry.has_company():  # two sweeps that were started together would do the same all the time
                place = rng.randrange(len(waiting))
                waiting[place], waiting[-1] = waiting[-1], waiting[place]
            job = waiting.pop()
            if not self._is_stored(job):
                yield job

    def _take(self, ended: Finished[_Job, Kept] | Failed[_Job]) -> None:
        if isinstance(ended, Finished):
            self._note(ended.task, ended.outcome)
            return
        if isinstance(ended.error, StorageError):
            raise ended.error
        path = self.store.save_failure(ended.task.settings, ended)
        if not self.failed:
            remark(f"{self.title}: a run has failed, the others go on: {ended.task.run}: {_line(ended)} (see {path})")
        self.failed[ended.task.path] = ended

    @property
    def seconds(self) -> float:
        """How long all runs took, one after another, as far as that is known."""
        return sum(kept.seconds or 0.0 for kept in self.done.values())

    def progress(self) -> str:
        """Say how far it has come."""
        return f"{len(self.done)} of {len(self.jobs)} runs are stored"

    def explanation(self) -> str:
        """Say what has failed."""
        failures = [
            f"\n  {failed.task.run}: {_line(failed)} (traceback: {self.store.failure_path(failed.task.settings)})"
            for failed in list(self.failed.values())[:NAMED]
        ]
        more = len(self.failed) - len(failures)
        return (
            f"{len(self.failed)} of {len(self.jobs)} runs of {self.title} have failed, {len(self.done)} are stored; "
            f"the same command tries them again{''.join(failures)}{f'{chr(10)}  and {more} more' if more else ''}"
        )


def _aside(store: Store, job: _Job) -> Path | None:
    try:
        return store.set_aside(job.settings)
    except StorageError:  # told when the outcome cannot be stored either
        return None


def _line(failed: Failed[Any]) -> str:
    """Return the first line of an error."""
    message = failed.message.partition("\n")[0]
    return f"{failed.kind}: {message}" if message else failed.kind


def _performed(
    perform: Perform, jobs: Iterator[_Job], store: Store, workers: Workers
) -> Generator[Finished[_Job, Kept] | Failed[_Job], None, None]:
    """Yield the runs as they end, with their outcomes as they are stored."""
    if workers.backend == "local":
        # Stored where it was performed: if this process is killed, no outcome is on its way to it.
        yield from perform_tasks(partial(_perform_and_store, perform, store), jobs, workers)
        return
    with closing(perform_tasks(partial(_perform_elsewhere, perform), jobs, workers)) as performed:
        for ended in performed:
            if isinstance(ended, Finished):
                yield Finished(ended.task, _stored(store, ended.task, ended.outcome))
            else:
                yield ended


def _perform_and_store(perform: Perform, store: Store, job: _Job) -> Kept:
    """Perform one run and store its outcome; called in a process of its own."""
    return _stored(store, job, _timed(perform, job.run))


def _timed(perform: Perform, run: Run) -> Kept:
    begin = time.perf_counter()
    outcome = dict(perform(run))
    return Kept(outcome, time.perf_counter() - begin)


def _stored(store: Store, job: _Job, kept: Kept) -> Kept:
    store.save(job.settings, kept.outcome, seconds=kept.seconds)
    found = store.recall(job.settings)
    assert found is not None
    return found


def _perform_elsewhere(perform: Perform, job: _Job) -> Kept:
    """Perform one run on another machine."""
    code = source_digest(perform.__module__)
    if code != job.settings["code"]:
        raise InvalidConfiguration(
            f"{HOST} has other code for {perform.__module__} ({code[:12]}) than the machine that asks "
            f"({job.settings['code'][:12]}): install the same version on both"
        )
    kept = _timed(perform, job.run)
    return kept._replace(outcome=json.loads(json.dumps(plain(kept.outcome), allow_nan=False)))
