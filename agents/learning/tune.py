"""Hyper-parameter search with Optuna over the settings of a training, compared in validation.

Source: Akiba, Sano, Yanase, Ohta and Koyama, "Optuna: a next-generation hyper-parameter optimization framework", KDD
2019. Its tree-structured Parzen estimator proposes the values. Each proposal depends on the earlier trials and on its
own seed, so an interrupted search resumes with exactly the same results.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from desim.agents.learning.seeds import train_seeds
from desim.checks import check_int, did_you_mean
from desim.exceptions import InvalidConfiguration, MissingDependency
from desim.files import write_atomically

if TYPE_CHECKING:
    from desim.agents.learning.settings import TrainingSettings

__all__ = ["USUAL", "Range", "Trial", "Tuned", "range_of", "tune", "with_values"]

USUAL = ("learning-rate=0.0001:0.01:log", "entropy-coef=0:0.05", "epochs=2:8", "gae-lambda=0.8:0.99")
"""Ranges that are searched by default."""

PROPOSALS = 4
"""First part of the seeds of proposals."""


@dataclass(frozen=True)
class Range:
    """Search range of one setting.

    Attributes
    ----------
    name : str
        Name of the setting.
    choices : tuple of str
        Possible values, written as on the command line; empty for a numeric range.
    low, high : float
        Bounds of a numeric range.
    log : bool
        Whether the range is logarithmic.
    is_whole : bool
        Whether the number is an integer.
    """

    name: str
    choices: tuple[str, ...] = ()
    low: float = 0.0
    high: float = 0.0
    log: bool = False
    is_whole: bool = False


@dataclass(frozen=True)
class Trial:
    """A finished trial.

    Attributes
    ----------
    number : int
        Index of the trial, which is also part of its folder's name.
    values : dict of str to (float or str)
        Values tried, by setting.
    found : float or None
        Mean of the objective over seeds; None if the combination of settings is invalid.
    refused : str
        Reason why the combination is invalid.
    """

    number: int
    values: dict[str, Any]
    found: float | None
    refused: str = ""


@dataclass(frozen=True)
class Tuned:
    """Result of a hyper-parameter search.

    Attributes
    ----------
    objective : str
        Name of the measure that was compared.
    maximize : bool
        Whether larger values are better.
    trials : tuple of Trial
        Finished trials in order.
    status : str
        Status of the search: ``"complete"`` or ``"interrupted"``.
    """

    objective: str
    maximize: bool
    trials: tuple[Trial, ...]
    status: str

    @property
    def best(self) -> Trial:
        """Best trial; ties go to the earliest.

        Raises
        ------
        InvalidConfiguration
            If no trial has a result.
        """
        done = [trial for trial in self.trials if trial.found is not None]
        if not done:
            why = f": {self.trials[-1].refused}" if self.trials else ""
            raise InvalidConfiguration(f"no trial has a result{why}")
        sign = -1.0 if self.maximize else 1.0
        return min(done, key=lambda trial: sign * (trial.found or 0.0))

    def write(self, directory: Path, settings: TrainingSettings[Any]) -> None:
        """Write ``trials.csv``, and ``best.json`` with the command that trains with the best settings.

        Parameters
        ----------
        directory : Path
            Directory of the files.
        settings : TrainingSettings
            Settings that the search started from.
        """
        text = StringIO()
        names = list(self.trials[0].values)
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(["trial", self.objective, *names, "refused"])
        for trial in self.trials:
            writer.writerow([trial.number, trial.found, *(trial.values[name] for name in names), trial.refused])
        write_atomically(directory / "trials.csv", lambda path: path.write_text(text.getvalue()))
        best = self.best
        document = {"trial": best.number, self.objective: best.found, "settings": best.values}
        document["command"] = with_values(settings, best.values).command()
        lines = json.dumps(document, indent=1) + "\n"
        write_atomically(directory / "best.json", lambda path: path.write_text(lines))


def range_of(settings: Any, text: str) -> Range:
    """Return the search range that a text describes.

    Parameters
    ----------
    settings : dataclass
        Settings that contain the one to search over, at any depth.
    text : str
        Range: ``name=least:most``, ``name=least:most:log`` or ``name=one,another``. If one value is several numbers,
        they are separated by spaces.

    Raises
    ------
    InvalidConfiguration
        If the setting is unknown, or the values do not fit it.
    """
    option, equals, wanted = text.partition("=")
    name = option.strip().removeprefix("--").replace("-", "_")
    known = dict(_leaves(settings))
    if not equals or not wanted:
        raise InvalidConfiguration(f"range: got {text!r}, expected for example learning-rate=0.0001:0.01:log")
    if name not in known or name == "seed":
        near = did_you_mean(option.strip(), known)
        raise InvalidConfiguration(f"cannot search over {option.strip()!r}{near}; expected one of {', '.join(known)}")
    first, *rest = wanted.split(":")
    numbers = isinstance(known[name], int | float) and not isinstance(known[name], bool)
    if rest and numbers:
        try:
            low, high = float(first), float(rest[0])
        except ValueError:
            raise InvalidConfiguration(f"range: got {text!r}, expected numbers on both sides of the colon") from None
        log, is_whole = rest[1:] == ["log"], isinstance(known[name], int)
        too_low = log and low <= 0
        if not low < high or too_low or (rest[1:] and not log) or (is_whole and not low.is_integer()):
            raise InvalidConfiguration(f"range: got {text!r}, expected least:most, or least:most:log with least > 0")
        return Range(name, low=low, high=high, log=log, is_whole=is_whole)
    choices = tuple(part.strip() for part in wanted.split(","))
    for choice in choices:
        _value(name, known[name], choice)
    return Range(name, choices)


def with_values(settings: Any, values: Mapping[str, Any]) -> Any:
    """Return settings with some values replaced.

    Parameters
    ----------
    settings : dataclass
        Settings, possibly nested.
    values : mapping of str to object
        New values by name: text as on the command line, or numbers.
    """
    changes: dict[str, Any] = {}
    for one in fields(settings):
        present = getattr(settings, one.name)
        if is_dataclass(present):
            changes[one.name] = with_values(present, values)
        elif one.name in values:
            given = values[one.name]
            changes[one.name] = _value(one.name, present, given) if isinstance(given, str) else given
    return replace(settings, **changes)


def _leaves(settings: Any) -> Iterator[tuple[str, Any]]:
    """Yield name and value of all settings that are not dataclasses themselves."""
    for one in fields(settings):
        value = getattr(settings, one.name)
        if is_dataclass(value):
            yield from _leaves(value)
        else:
            yield one.name, value


def _value(name: str, present: Any, text: str) -> Any:
    """Return a value written as on the command line, converted to the type of the setting's present value."""
    try:
        if isinstance(present, bool):
            return {"yes": True, "no": False}[text]
        if isinstance(present, tuple):
            return tuple(_number(part) for part in text.split())
        return text if isinstance(present, str) else type(present)(text) if present is not None else float(text)
    except (KeyError, ValueError):
        kind = "yes or no" if isinstance(present, bool) else f"a value such as {present!r}"
        raise InvalidConfiguration(f"{name}: got {text!r}, expected {kind}") from None


def _number(text: str) -> int | float | str:
    """Return a text as a number if it is one, otherwise unchanged."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def tune(
    settings: TrainingSettings[Any],
    directory: Path,
    trials: int,
    *,
    over: Sequence[str] = USUAL,
    seeds: int = 1,
    report: Callable[[Trial], None] | None = None,
) -> Tuned:
    """Search for the settings whose weights are best in validation.

    An interrupted search resumes with the same trials. A complete search can be extended by a larger ``trials``.

    Parameters
    ----------
    settings : TrainingSettings
        Settings that stay fixed; their seed determines the proposals.
    directory : Path
        Directory of the search log and the trainings of all trials.
    trials : int
        Number of trials.
    over : sequence of str
        Ranges to search; see :func:`range_of`.
    seeds : int
        Number of trainings per trial, whose mean objective counts.
    report : callable, optional
        Function that is called with each finished trial.

    Returns
    -------
    Tuned
        Result with all trials.

    Raises
    ------
    InvalidConfiguration
        If a range is invalid, or the directory holds another search.
    MissingDependency
        If Optuna is not installed.
    """
    check_int("trials", trials, least=1)
    ranges = [range_of(settings, text) for text in over]
    if len({one.name for one in ranges}) < len(ranges) or not ranges:
        raise InvalidConfiguration(f"over: got {list(over)!r}, expected one or more ranges, each setting at most once")
    task = settings.task()
    log = _Log(directory, settings, ranges, seeds, maximize=task.maximize)
    done = log.trials()
    while len(done) < trials:
        number = len(done)
        values, tell = log.ask(number)
        folder = directory / f"trial-{number}"
        try:
            found = train_seeds(with_values(settings, values), folder, seeds)
        except InvalidConfiguration as error:
            tell(None, str(error))
            done.append(Trial(number, values, None, str(error)))
        except BaseException:
            tell(None, "")  # the next search then proposes the same values again
            raise
        else:
            if found.status == "interrupted":
                tell(None, "")
                return Tuned(task.objective, task.maximize, tuple(done), "interrupted")
            if seeds > 1:
                found.write(folder)
            tell(found.final.mean, "")
            done.append(Trial(number, values, found.final.mean))
        if report is not None:
            report(done[-1])
    return Tuned(task.objective, task.maximize, tuple(done[:trials]), "complete")


class _Log:
    """Optuna study stored in a journal file; only one process at a time may use it."""

    def __init__(
        self, directory: Path, settings: TrainingSettings[Any], ranges: list[Range], seeds: int, *, maximize: bool
    ) -> None:
        try:
            import optuna
        except ImportError as error:
            raise MissingDependency(
                f"a hyper-parameter search needs optuna: pip install 'desim[tune]' ({error})"
            ) from error
        from optuna.storages import JournalStorage
        from optuna.storages.journal import JournalFileBackend

        self.optuna, self.seed = optuna, settings.training.seed
        self.distributions = {one.name: _distribution(optuna.distributions, one) for one in ranges}
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        directory.mkdir(parents=True, exist_ok=True)
        storage = JournalStorage(JournalFileBackend(str(directory / "search.log")))
        direction: Literal["maximize", "minimize"] = "maximize" if maximize else "minimize"
        self.study = optuna.create_study(study_name="desim", storage=storage, direction=direction, load_if_exists=True)
        wanted = {"command": settings.command(), "over": [repr(one) for one in ranges], "seeds": seeds}
        known = self.study.user_attrs
        for name, value in wanted.items():
            if known.get(name, value) != value:
                raise InvalidConfiguration(
                    f"{directory} holds another search: {name}: got {known[name]!r}, expected {value!r}; try another "
                    "directory"
                )
            self.study.set_user_attr(name, value)
        for trial in self.study.get_trials(deepcopy=False, states=[optuna.trial.TrialState.RUNNING]):
            self.study.tell(trial.number, state=optuna.trial.TrialState.FAIL)  # its process was killed

    def trials(self) -> list[Trial]:
        """Return the finished trials, without interrupted ones."""
        complete = self.optuna.trial.TrialState.COMPLETE
        over = [
            one
            for one in self.study.get_trials(deepcopy=False)
            if one.state == complete or one.user_attrs.get("refused")
        ]
        return [
            Trial(
                number,
                {name: one.params[name] for name in self.distributions},
                one.value if one.state == complete else None,
                one.user_attrs.get("refused", ""),
            )
            for number, one in enumerate(over)
        ]

    def ask(self, number: int) -> tuple[dict[str, Any], Callable[[float | None, str], None]]:
        """Return the values of a trial, and a function to call with its objective or the reason for refusal."""
        seed = int(np.random.SeedSequence([PROPOSALS, self.seed, number]).generate_state(1)[0])
        self.study.sampler = self.optuna.samplers.TPESampler(seed=seed)  # a seed per trial, so that a search can resume
        trial = self.study.ask(self.distributions)

        def tell(found: float | None, refused: str) -> None:
            if refused:
                trial.set_user_attr("refused", refused)
            state = self.optuna.trial.TrialState
            self.study.tell(trial, found, state=state.FAIL if found is None else state.COMPLETE)

        return {name: trial.params[name] for name in self.distributions}, tell


def _distribution(kinds: Any, one: Range) -> Any:
    """Return the Optuna distribution of a range."""
    if one.choices:
        return kinds.CategoricalDistribution(one.choices)
    if one.is_whole:
        return kinds.IntDistribution(int(one.low), int(one.high), log=one.log)
    return kinds.FloatDistribution(one.low, one.high, log=one.log)
