"""A search over settings of a training with Optuna: values are proposed, trained with, and compared in validation.

Source: Akiba, Sano, Yanase, Ohta and Koyama, "Optuna: a next-generation hyper-parameter optimization
framework", KDD 2019; values are proposed by its tree-structured Parzen estimator. The proposal of a trial follows from
the trials before it and from a seed of its own, so that a search that was interrupted goes on as if it had not been.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from desim.agents.learning.seeds import train_seeds
from desim.checks import check_int, did_you_mean
from desim.exceptions import InvalidConfiguration, MissingDependency
from desim.records import write_atomically

if TYPE_CHECKING:
    from desim.agents.learning.settings import TrainingSettings

__all__ = ["USUAL", "Range", "Trial", "Tuned", "range_of", "tune", "with_values"]

USUAL = ("learning-rate=0.0001:0.01:log", "entropy-coef=0:0.05", "epochs=2:8", "gae-lambda=0.8:0.99")
"""What is searched over unless something else is said."""

PROPOSALS = 4
"""What the seeds of proposals begin with."""


@dataclass(frozen=True)
class Range:
    """What one setting may be.

    Attributes
    ----------
    name : str
        Of the setting.
    choices : tuple of str
        Its values as the command line takes them, if they are counted out; else it is a number.
    low, high : float
        The least and the most.
    log : bool
        Whether logarithms are spread evenly.
    is_whole : bool
        Whether the number is a whole one.
    """

    name: str
    choices: tuple[str, ...] = ()
    low: float = 0.0
    high: float = 0.0
    log: bool = False
    is_whole: bool = False


@dataclass(frozen=True)
class Trial:
    """A trial that is over.

    Attributes
    ----------
    number : int
        Its place, and the name of its folder.
    values : dict of str to (float or str)
        What was tried.
    found : float or None
        The mean of the objective over seeds; None if the settings do not go together.
    refused : str
        Why they do not.
    """

    number: int
    values: dict[str, Any]
    found: float | None
    refused: str = ""


@dataclass(frozen=True)
class Tuned:
    """What has come of a search.

    Attributes
    ----------
    objective : str
        What was compared.
    maximize : bool
        Whether more is better.
    trials : tuple of Trial
        In order.
    status : str
        ``"complete"`` or ``"interrupted"``.
    """

    objective: str
    maximize: bool
    trials: tuple[Trial, ...]
    status: str

    @property
    def best(self) -> Trial:
        """The best trial, of equal ones the first.

        Raises
        ------
        InvalidConfiguration
            If there is none.
        """
        done = [trial for trial in self.trials if trial.found is not None]
        if not done:
            why = f": {self.trials[-1].refused}" if self.trials else ""
            raise InvalidConfiguration(f"no trial has come to an end{why}")
        sign = -1.0 if self.maximize else 1.0
        return min(done, key=lambda trial: sign * (trial.found or 0.0))

    def write(self, directory: Path, settings: TrainingSettings[Any]) -> None:
        """Write ``trials.csv`` and ``best.json``, with the command that trains with the best settings.

        Parameters
        ----------
        directory : Path
            Where to.
        settings : TrainingSettings
            What the search began with.
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
    """Return what a setting may be.

    Parameters
    ----------
    settings : dataclass
        Has the setting, at any depth.
    text : str
        ``name=least:most``, ``name=least:most:log`` or ``name=one,another``; several numbers of one value are separated
        by spaces.

    Raises
    ------
    InvalidConfiguration
        If there is no such setting, or the values make no sense for it.
    """
    option, equals, wanted = text.partition("=")
    name = option.strip().removeprefix("--").replace("-", "_")
    known = dict(_leaves(settings))
    if not equals or not wanted:
        raise InvalidConfiguration(f"{text!r} is no range; want for example learning-rate=0.0001:0.01:log")
    if name not in known or name == "seed":
        near = did_you_mean(option.strip(), known)
        raise InvalidConfiguration(
            f"no setting {option.strip()!r}{near} to be searched over; there are {', '.join(known)}"
        )
    first, *rest = wanted.split(":")
    numbers = isinstance(known[name], int | float) and not isinstance(known[name], bool)
    if rest and numbers:
        try:
            low, high = float(first), float(rest[0])
        except ValueError:
            raise InvalidConfiguration(f"{text!r}: want numbers from least to most") from None
        log, is_whole = rest[1:] == ["log"], isinstance(known[name], int)
        too_low = log and low <= 0
        if not low < high or too_low or (rest[1:] and not log) or (is_whole and not low.is_integer()):
            raise InvalidConfiguration(f"{text!r}: want least:most, or least:most:log with numbers above 0")
        return Range(name, low=low, high=high, log=log, is_whole=is_whole)
    choices = tuple(part.strip() for part in wanted.split(","))
    for choice in choices:
        _value(name, known[name], choice)
    return Range(name, choices)


def with_values(settings: Any, values: dict[str, Any]) -> Any:
    """Return settings with other values.

    Parameters
    ----------
    settings : dataclass
        Nested.
    values : dict of str to object
        By name; text as on the command line, or numbers.
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
    """Yield all settings that are no dataclasses, with their values."""
    for one in fields(settings):
        value = getattr(settings, one.name)
        if is_dataclass(value):
            yield from _leaves(value)
        else:
            yield one.name, value


def _value(name: str, present: Any, text: str) -> Any:
    """Return a value that is written as on the command line, of the type that a setting has now."""
    try:
        if isinstance(present, bool):
            return {"yes": True, "no": False}[text]
        if isinstance(present, tuple):
            return tuple(_number(part) for part in text.split())
        return text if isinstance(present, str) else type(present)(text) if present is not None else float(text)
    except (KeyError, ValueError):
        kind = "yes or no" if isinstance(present, bool) else f"something like {present!r}"
        raise InvalidConfiguration(f"{name} cannot be {text!r}, want {kind}") from None


def _number(text: str) -> int | float | str:
    """Return what a part of a value stands for."""
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

    A search that was interrupted goes on, to the same trials as if it had not been; and with more trials one that is
    complete.

    Parameters
    ----------
    settings : TrainingSettings
        What is as ever; proposals follow from its seed.
    directory : Path
        Where the log of the search and the trainings of the trials go.
    trials : int
        How many.
    over : sequence of str
        Of :func:`range_of`.
    seeds : int
        How many trainings a trial has; the mean of what they reach counts.
    report : callable, optional
        Called with each trial that is over.

    Returns
    -------
    Tuned
        All trials.

    Raises
    ------
    InvalidConfiguration
        If a range makes no sense, or the directory holds another search.
    MissingDependency
        If Optuna is not installed.
    """
    check_int("trials", trials, least=1)
    ranges = [range_of(settings, text) for text in over]
    if len({one.name for one in ranges}) < len(ranges) or not ranges:
        raise InvalidConfiguration(f"a search over {list(over)!r}: want each setting once, and one at least")
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
            tell(None, "")  # so that the same is proposed again
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
    """The study of Optuna, in a journal, which several processes may not share here."""

    def __init__(
        self, directory: Path, settings: TrainingSettings[Any], ranges: list[Range], seeds: int, *, maximize: bool
    ) -> None:
        try:
            import optuna
        except ImportError as error:
            raise MissingDependency(
                f"a search over settings needs optuna: pip install 'desim[tune]' ({error})"
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
                raise InvalidConfiguration(f"{directory} holds another search: its {name} is {known[name]!r}")
            self.study.set_user_attr(name, value)
        for trial in self.study.get_trials(deepcopy=False, states=[optuna.trial.TrialState.RUNNING]):
            self.study.tell(trial.number, state=optuna.trial.TrialState.FAIL)  # its process was killed

    def trials(self) -> list[Trial]:
        """Return the trials that are over; those that were interrupted are no trials."""
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
        """Return the values of a trial, and what is to be called with what it found, or with why it was refused."""
        seed = int(np.random.SeedSequence([PROPOSALS, self.seed, number]).generate_state(1)[0])
        self.study.sampler = self.optuna.samplers.TPESampler(seed=seed)  # of its own, so that a search can go on
        trial = self.study.ask(self.distributions)

        def tell(found: float | None, refused: str) -> None:
            if refused:
                trial.set_user_attr("refused", refused)
            state = self.optuna.trial.TrialState
            self.study.tell(trial, found, state=state.FAIL if found is None else state.COMPLETE)

        return {name: trial.params[name] for name in self.distributions}, tell


def _distribution(kinds: Any, one: Range) -> Any:
    """Return the distribution of Optuna that a range stands for."""
    if one.choices:
        return kinds.CategoricalDistribution(one.choices)
    if one.is_whole:
        return kinds.IntDistribution(int(one.low), int(one.high), log=one.log)
    return kinds.FloatDistribution(one.low, one.high, log=one.log)
