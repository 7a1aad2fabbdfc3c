"""``desim train``: an agent learns, and its weights are written."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import arg

from desim import plugins
from desim.cli.options import JsonFlag
from desim.cli.output import print_json, print_text, remark
from desim.exceptions import InvalidConfiguration

__all__ = ["Train", "train_command"]


@dataclass(frozen=True)
class Train:
    """Train an agent: `desim train PROBLEM --help` has the options.

    Examples::

        desim train batch --quick --out quick
    """

    out: Annotated[Path, arg(metavar="DIR")]
    """Where checkpoints, the log for TensorBoard and the weights go. A training that was interrupted there goes on."""
    name: str | None = None
    """Of the files with the weights; by default after the agent."""
    quick: bool = False
    """A small training of a few minutes, but for what is given otherwise."""
    as_json: JsonFlag = False
    """Print JSON only."""

    def execute(self) -> int:
        """Train; 1 if it was interrupted."""
        settings: Any = getattr(self, "settings", None)  # of the problem's own class
        if settings is None:
            raise InvalidConfiguration("what is to be learned is missing: desim train PROBLEM, for example batch")
        if self.quick:
            settings = _instead_of_defaults(settings, type(settings)(), type(settings).quick())
        begin = time.monotonic()
        result = settings.train(self.out / "checkpoint", _report)
        stem = self.out / (self.name or settings.default_name)
        if result.status != "interrupted":
            settings.write(stem, result)
        seconds = time.monotonic() - begin
        if self.as_json:
            found = {"status": result.status, "weights": str(stem), "validation": result.best}
            print_json(found | {"seconds": seconds})
        elif result.status == "interrupted":
            print_text(f"interrupted; the same command goes on from {self.out}")
        else:
            print_text(f"{result.status} after {seconds:,.0f} s")
            print_text(f"weights: {stem}.safetensors and .json")
            print_text(", ".join(f"{name} {value:,.6g}" for name, value in result.best.items()))
        return 1 if result.status == "interrupted" else 0


def train_command(problem: str) -> type[Train]:
    """Return the command that trains agents of a problem, with all its options.

    Parameters
    ----------
    problem : str
        Such as ``"batch"``.

    Returns
    -------
    type
        A dataclass for the parser.

    Raises
    ------
    InvalidConfiguration
        If there is no such problem.
    MissingDependency
        If no package trains agents of this problem.
    """
    if problem not in plugins.trainings():
        raise InvalidConfiguration(f"nothing to train {problem!r}; there are {', '.join(plugins.trainings())}")
    settings = plugins.training_settings(problem)
    made = dataclasses.make_dataclass(
        "TrainProblem", [("settings", settings, field(default_factory=settings))], bases=(Train,), frozen=True
    )
    made.__doc__ = (settings.__doc__ or "").partition("Parameters\n")[0].rstrip()
    return made


def _instead_of_defaults(given: Any, default: Any, quick: Any) -> Any:
    """Return settings with those of a quick training where nothing else was given."""
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
    """Say on standard error how far the training is."""
    if "agreement" in entry:
        remark(f"warm start: agrees with the expert in {100 * entry['agreement']:.1f} % of the decisions")
    found = entry["validation"]
    shown = ", ".join(f"{name} {value:,.5g}" for name, value in found.items() if name not in ("return", "length"))
    pace = ""
    if entry.get("throughput"):
        spent = entry["throughput"]
        seconds = sum(value for name, value in spent.items() if name != "decisions")
        pace = f", {spent['decisions'] / max(seconds, 1e-9):,.0f} decisions/s"
    remark(f"{entry['steps']:>10,} decisions, {entry['seconds']:,.0f} s{pace}: return {found['return']:,.5g}, {shown}")
