"""``desim train``: train an agent and write its weights; ``desim tune``: search for the best training settings."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import arg

from desim import plugins
from desim.checks import check_int, did_you_mean
from desim.cli.options import JsonFlag
from desim.cli.output import print_json, print_table, print_text
from desim.exceptions import InvalidConfiguration
from desim.notes import print_note, progress

__all__ = ["Train", "Tune", "train_command"]


@dataclass(frozen=True)
class Train:
    """Train an agent; `desim train PROBLEM --help` lists the options.

    Examples::

        desim train batch --quick --out quick
        desim train batch --seeds 5 --out five
    """

    out: Annotated[Path, arg(metavar="DIR")]
    """Directory for checkpoints, the TensorBoard log and the weights. An interrupted training there is continued."""
    name: Annotated[str | None, arg(help_behavior_hint="(default: the agent's name)")] = None
    """Base name of the weight files."""
    seeds: int = 1
    """Number of trainings, one per seed, in folders seed-0, seed-1 and so on; learning curves of all are drawn."""
    quick: bool = False
    """Train for a few minutes with small settings; explicit options still apply."""
    as_json: JsonFlag = False
    """Print JSON only."""

    def execute(self) -> int:
        """Train; return 1 if interrupted."""
        settings = _settings_of(self)
        check_int("seeds", self.seeds, least=1)
        return self._train(settings) if self.seeds == 1 else self._train_seeds(settings)

    def _train(self, settings: Any) -> int:
        begin = time.monotonic()
        with progress("training", settings.training.total_steps, "decisions") as bar:
            result = settings.train(self.out / "checkpoint", _report, bar)
        stem = self.out / (settings.default_name if self.name is None else self.name)
        if result.status != "interrupted":
            settings.write(stem, result)
        stands = [] if result.status == "interrupted" else settings.compare_with_rules(result.weights)
        seconds = time.monotonic() - begin
        if self.as_json:
            found = {"status": result.status, "weights": str(stem), "validation": result.best}
            rules = {one.rule: {"mean": one.mean, "difference": one.difference._asdict()} for one in stands}
            print_json(found | {"seconds": seconds, "rules": rules})
        elif result.status == "interrupted":
            print_text(f"interrupted; run the same command again to continue from {self.out}")
        else:
            print_text(f"{result.status} after {seconds:,.0f} s")
            print_text(f"weights: {stem}.safetensors and .json")
            print_text(", ".join(f"{name} {value:,.6g}" for name, value in result.best.items()))
            for one in stands:
                print_text(f"{one}, over the {one.difference.num_values} validation episodes that chose the weights")
        return 1 if result.status == "interrupted" else 0

    def _train_seeds(self, settings: Any) -> int:
        begin = time.monotonic()
        found = settings.train_seeds(self.out, self.seeds, name=self.name, report=_report)
        if found.status != "interrupted":
            found.write(self.out)
        final, seconds = found.final, time.monotonic() - begin
        if self.as_json:
            print_json(
                {
                    "status": found.status,
                    "weights": found.stems,
                    "validation": [result.best for result in found.results],
                    found.objective: {"mean": final.mean, "low": final.low, "high": final.high},
                    "seconds": seconds,
                }
            )
        elif found.status == "interrupted":
            print_text(f"interrupted; run the same command again to continue from {self.out}")
        else:
            rows = [
                [str(seed), f"{result.best[found.objective]:,.6g}", str(stem)]
                for seed, result, stem in zip(found.seeds, found.results, found.stems, strict=True)
            ]
            print_table(["seed", found.objective, "weights"], rows, words=[2])
            print_text(f"{found.objective} in validation: {final} (95 % interval over {self.seeds} seeds)")
            print_text(f"curves: {self.out / 'curves.png'} and .csv")
        return 1 if found.status == "interrupted" else 0


@dataclass(frozen=True)
class Tune:
    """Search over training settings with Optuna; `desim tune PROBLEM --help` lists the options.

    The options include those of `desim train`. Run the same command again to continue an interrupted search.

    Examples::

        desim tune batch --quick --trials 20 --out search
        desim tune batch --over learning-rate=0.0001:0.01:log "hidden=64 32,128 64" --seeds 3 --out search
    """

    out: Annotated[Path, arg(metavar="DIR")]
    """Directory for the search log, the trainings of all trials, and the best settings."""
    trials: int = 20
    """Number of settings to try."""
    over: Annotated[tuple[str, ...], arg(help_behavior_hint="(default: four settings, chosen by the problem)")] = ()
    """Settings to search over, each as NAME=LEAST:MOST, NAME=LEAST:MOST:log or NAME=ONE,ANOTHER."""
    seeds: int = 1
    """Number of trainings per trial; the mean of their results counts."""
    quick: bool = False
    """Train for a few minutes with small settings; explicit options still apply."""
    as_json: JsonFlag = False
    """Print JSON only."""

    def execute(self) -> int:
        """Search; return 1 if interrupted."""
        settings = _settings_of(self)
        found = settings.tune(self.out, self.trials, over=self.over, seeds=self.seeds, report=_report_trial)
        if found.status == "interrupted":
            print_text(f"interrupted after {len(found.trials)} trials; run the same command again to continue")
            return 1
        found.write(self.out, settings)
        best = found.best
        if self.as_json:
            document = {"status": found.status, "trials": found.trials, "best": best}
            print_json(document | {"command": settings.with_values(best.values).command()})
            return 0
        heads = ["trial", found.objective, *best.values]
        rows = [[str(one.number), _outcome(one), *map(_shown, one.values.values())] for one in found.trials]
        print_table(heads, rows)
        print_text(f"best: trial {best.number}, {found.objective} {best.found:,.6g} in validation")
        print_text(settings.with_values(best.values).command())
        return 0


def _settings_of(command: Train | Tune) -> Any:
    """Return the training settings of a command, an object of the problem's settings class."""
    settings: Any = getattr(command, "settings", None)
    if settings is None:
        what = type(command).__name__.lower()
        raise InvalidConfiguration(f"PROBLEM is missing: try desim {what} batch")
    return _instead_of_defaults(settings, type(settings)(), type(settings).quick()) if command.quick else settings


def _outcome(trial: Any) -> str:
    """Return the result of a trial as text."""
    return "refused" if trial.found is None else f"{trial.found:,.6g}"


def _shown(value: Any) -> str:
    """Return the value of a setting as text for a table."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def train_command(problem: str, name: str = "train") -> type[Train | Tune]:
    """Return the command that trains agents of a problem, or that searches over training settings, with all options.

    Parameters
    ----------
    problem : str
        Name of the problem, such as ``"batch"``.
    name : {"train", "tune"}
        Name of the command.

    Returns
    -------
    type
        A dataclass for the parser.

    Raises
    ------
    InvalidConfiguration
        If the problem is unknown.
    MissingDependency
        If no installed package trains agents of this problem.
    """
    if problem not in plugins.trainings():
        near = did_you_mean(problem, plugins.trainings())
        raise InvalidConfiguration(
            f"no training for {problem!r}{near}; expected one of {', '.join(plugins.trainings())}"
        )
    settings, base = plugins.training_settings(problem), Tune if name == "tune" else Train
    # the docstring of the settings is that of the command
    described: Any = Annotated[settings, arg(help="Settings of the training.")]
    made = dataclasses.make_dataclass(
        base.__name__, [("settings", described, field(default_factory=settings))], bases=(base,), frozen=True
    )
    of_problem = (settings.__doc__ or "").partition("Parameters\n")[0].rstrip()
    made.__doc__ = of_problem if base is Train else base.__doc__
    return made


def _instead_of_defaults(given: Any, default: Any, quick: Any) -> Any:
    """Return settings in which the values of a quick training replace all values left at their defaults."""
    names = [one.name for one in fields(given)]
    triples = {name: (getattr(given, name), getattr(default, name), getattr(quick, name)) for name in names}
    return replace(
        given,
        **{
            name: _instead_of_defaults(*triple) if is_dataclass(triple[0]) else triple[2]
            for name, triple in triples.items()
            if is_dataclass(triple[0]) or triple[0] == triple[1]
        },
    )


def _report(entry: Mapping[str, Any]) -> None:
    """Print the progress of a training on standard error."""
    if "agreement" in entry:
        print_note(f"warm start: agrees with the expert in {100 * entry['agreement']:.1f} % of the decisions")
    found, seed = entry["validation"], f"seed {entry['seed']}: " if "seed" in entry else ""
    shown = ", ".join(f"{name} {value:,.5g}" for name, value in found.items() if name not in ("return", "length"))
    pace = ""
    if entry.get("throughput"):
        spent = entry["throughput"]
        seconds = sum(value for name, value in spent.items() if name != "decisions")
        pace = f", {spent['decisions'] / max(seconds, 1e-9):,.0f} decisions/s (engine {entry['engine']})"
    done = f"{seed}{entry['steps']:>10,} decisions, {entry['seconds']:,.0f} s{pace}"
    print_note(f"{done}: return {found['return']:,.5g}, {shown}")


def _report_trial(trial: Any) -> None:
    """Print the result of a trial on standard error."""
    why = f" ({trial.refused})" if trial.refused else ""
    print_note(
        f"trial {trial.number}: {_outcome(trial)}{why}, "
        + ", ".join(f"{name} {_shown(v)}" for name, v in trial.values.items())
    )
