"""``desim train``: an agent learns, and its weights are written."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
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
    as_json: JsonFlag = False
    """Print JSON only."""

    def execute(self) -> int:
        """Train; 1 if it was interrupted."""
        options: Any = getattr(self, "options", None)  # of the problem's own class
        if options is None:
            raise InvalidConfiguration("what is to be learned is missing: desim train PROBLEM, for example batch")
        begin = time.monotonic()
        found = options.train(self.out, _report)
        if self.as_json:
            print_json(found | {"seconds": time.monotonic() - begin})
        elif found["status"] == "interrupted":
            print_text(f"interrupted; the same command goes on from {self.out}")
        else:
            print_text(f"{found['status']} after {time.monotonic() - begin:,.0f} s")
            print_text(f"weights: {found['weights']}.safetensors and .json")
            print_text(", ".join(f"{name} {value:,.6g}" for name, value in found["validation"].items()))
        return 1 if found["status"] == "interrupted" else 0


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
    options = plugins.training_options(problem)
    made = dataclasses.make_dataclass(
        "TrainProblem", [("options", options, field(default_factory=options))], bases=(Train,), frozen=True
    )
    made.__doc__ = options.__doc__
    return made


def _report(entry: Mapping[str, Any]) -> None:
    """Say on standard error how far the training is."""
    if "agreement" in entry:
        remark(f"warm start: agrees with the rule in {100 * entry['agreement']:.1f} % of the decisions")
        return
    found = entry["validation"]
    shown = ", ".join(f"{name} {value:,.5g}" for name, value in found.items() if name not in ("return", "length"))
    pace = ""
    if entry.get("throughput"):
        spent = entry["throughput"]
        seconds = sum(value for name, value in spent.items() if name != "decisions")
        pace = f", {spent['decisions'] / max(seconds, 1e-9):,.0f} decisions/s"
    remark(f"{entry['steps']:>10,} decisions, {entry['seconds']:,.0f} s{pace}: return {found['return']:,.5g}, {shown}")
