"""Many runs (setting x agent x seed) in local processes; finished ones are stored at once and never repeated."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, is_dataclass
from typing import Any

from desim.cli.output import progress, remark
from desim.exceptions import DesimError, InvalidConfiguration, RecordError
from experiments.run import Perform, Run
from experiments.source import source_digest
from experiments.store import Store

__all__ = ["SweepInterrupted", "perform_all", "settings_of"]


class SweepInterrupted(KeyboardInterrupt):
    """Ctrl-C during :func:`perform_all`; the message says how far it had come."""


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
    perform: Perform, runs: Sequence[Run], store: Store, *, jobs: int = 2, title: str = "runs"
) -> dict[Run, dict[str, Any]]:
    """Perform what is not stored yet.

    Parameters
    ----------
    perform : callable
        Performs one run.
    runs : sequence of Run
        What is wanted; a run that is named twice is performed once.
    store : Store
        Where outcomes are looked up and stored. A file that cannot be read is named, and its run repeated.
    jobs : int
        Processes at a time.
    title : str
        What the progress bar says.

    Returns
    -------
    dict of Run to dict
        Outcomes in the order of the runs, as they are stored.

    Raises
    ------
    SweepInterrupted
        On Ctrl-C; what has finished is stored.
    DesimError
        The first one that a run raises; its message names the run.
    """
    wanted = list(dict.fromkeys(runs))
    done: dict[Run, dict[str, Any]] = {}
    for run in wanted:
        outcome = _find(store, settings_of(perform, run))
        if outcome is not None:
            done[run] = outcome
    missing = [run for run in wanted if run not in done]
    remark(f"{title}: {len(missing)} runs to do, {len(done)} stored already")
    reused = len(done)
    try:
        with progress(title, len(missing), "runs") as advance:
            for run, outcome in _performed(perform, missing, store, min(jobs, len(missing))):
                done[run] = outcome
                if advance is not None:
                    advance(len(done) - reused)
    except KeyboardInterrupt as error:
        raise SweepInterrupted(f"{len(done)} of {len(wanted)} runs are stored; the same command goes on") from error
    return {run: done[run] for run in wanted}


def _find(store: Store, settings: Mapping[str, Any]) -> dict[str, Any] | None:
    try:
        return store.find(settings)
    except RecordError as error:
        remark(f"{error}; the run is repeated")
        return None


def _performed(perform: Perform, runs: Sequence[Run], store: Store, jobs: int) -> Iterator[tuple[Run, dict[str, Any]]]:
    """Yield the runs as they finish."""
    if jobs <= 1:
        yield from (_perform(perform, run, store, settings_of(perform, run)) for run in runs)
        return
    from joblib import Parallel, delayed
    from joblib.externals.loky.process_executor import BrokenProcessPool

    pool = Parallel(n_jobs=jobs, backend="loky", return_as="generator_unordered", batch_size=1)
    try:
        # The settings are made here: the code that was loaded is that of the beginning, whatever is edited meanwhile.
        yield from pool(delayed(_perform)(perform, run, store, settings_of(perform, run)) for run in runs)
    except BrokenProcessPool as error:
        raise DesimError("a process has ended by itself, perhaps for lack of memory: try fewer --jobs") from error


def _perform(perform: Perform, run: Run, store: Store, settings: Mapping[str, Any]) -> tuple[Run, dict[str, Any]]:
    """Perform one run and store its outcome; called in a process of its own."""
    with _naming(run):
        store.save(settings, perform(run))
        outcome = store.find(settings)
        assert outcome is not None
        return run, outcome


@contextmanager
def _naming(run: Run) -> Iterator[None]:
    """Say in an error which run it was."""
    try:
        yield
    except DesimError as error:
        kind = DesimError if isinstance(error, RecordError) else type(error)  # arguments are not to blame
        raise kind(f"{run}: {error}") from error
