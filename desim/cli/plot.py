"""``desim plot``: figures of stored runs."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from desim.cli.figures import FigureFormat, chosen_kinds, draw_figures
from desim.cli.output import print_text
from desim.exceptions import InvalidConfiguration
from desim.plotting.axes import Style
from desim.problem import kind_of
from desim.result import Result

__all__ = ["Plot", "load_named"]

#: Units of a time range.
SECONDS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}


@dataclass(frozen=True)
class Plot:
    """Draw one run, or several side by side.

    Examples::

        desim plot easy
        desim plot easy sjf fcfs --out figures --kind gantt,waiting --format pdf
        desim plot easy fcfs --kind gantt --time-range 2d:3d --style paper --format pdf
    """

    directories: Annotated[Positional[tuple[Path, ...]], arg(metavar="DIR")]
    """Results."""
    out: Annotated[Path | None, arg(metavar="DIR", help_behavior_hint="(default: figures/ in the first result)")] = None
    """Where to write the figures; those of the same name are replaced."""
    kind: Annotated[str | None, arg(metavar="KIND,...", help_behavior_hint="(default: all that there are)")] = None
    """What to draw. batch: gantt, utilization, queue, waiting; dag: gantt, utilization, jobs, executors; deferrable:
    gantt, capacity, work; multiserver: allocation, reward, parts, resources."""
    format: FigureFormat = "png"
    """Kind of file."""
    time_range: Annotated[str | None, arg(metavar="A:B", help_behavior_hint="(default: the whole runs)")] = None
    """From when to when figures over time go: seconds, or with m, h or d behind a number; slots in deferrable and
    multiserver."""
    style: Style = "screen"
    """What figures are for: paper is one column of a page with two, 3.5 inches wide, paper-wide both, 7.16 inches."""

    def execute(self) -> int:
        """Draw, and say where the figures are."""
        results = load_named(self.directories)
        kind = kind_of(next(iter(results.values())))
        kinds = chosen_kinds(self.kind, kind)
        if not kinds:
            raise InvalidConfiguration(f"desim has no figures of problem {kind.name!r}")
        out = self.directories[0] / "figures" if self.out is None else self.out
        asked = None if self.kind is None else kinds
        time_range = None if self.time_range is None else _time_range(self.time_range)
        end = max(float(result.info.get("end_time", math.inf)) for result in results.values())
        if time_range is not None and time_range[0] >= end:
            raise InvalidConfiguration(
                f"--time-range is {self.time_range!r}, and all is over at {end:,.10g} {kind.time_unit}"
            )
        for path in draw_figures(
            results, out, kind, kinds=asked, file_format=self.format, window=time_range, style=self.style
        ):
            print_text(str(path))
        return 0


def _time_range(text: str) -> tuple[float, float]:
    """Read a span of time such as ``2d:3.5d``."""
    found = re.fullmatch(r"(\d+\.?\d*)([smhd]?):(\d+\.?\d*)([smhd]?)", text.strip())
    if found is None:
        raise InvalidConfiguration(f"--time-range is {text!r}, want two times such as 3600:7200 or 2d:3.5d")
    time_range = float(found[1]) * SECONDS[found[2]], float(found[3]) * SECONDS[found[4]]
    if time_range[0] >= time_range[1]:
        raise InvalidConfiguration(f"--time-range is {text!r}, which does not end after it begins")
    return time_range


def load_named(directories: Sequence[Path]) -> dict[str, Result]:
    """Load results of one problem, by names that tell them apart.

    Parameters
    ----------
    directories : sequence of Path
        Where they are.

    Returns
    -------
    dict of str to Result
        In this order.

    Raises
    ------
    InvalidConfiguration
        If there are none, they are of different problems, or one is named twice.
    """
    if not directories:
        raise InvalidConfiguration("no result to draw: name at least one directory")
    loaded = [Result.load(directory) for directory in directories]
    problems = list(dict.fromkeys(str(result.info.get("problem", "batch")) for result in loaded))
    if len(problems) > 1:
        raise InvalidConfiguration(f"the results are of different problems: {', '.join(problems)}")
    return dict(zip(_names(loaded, directories), loaded, strict=True))


def _names(results: Sequence[Result], directories: Sequence[Path]) -> list[str]:
    """Call runs after their agents, where that tells them apart, else also after their seeds or directories."""
    agents = [
        str(result.info.get("agent") or directory.name) for result, directory in zip(results, directories, strict=True)
    ]
    choices: list[Callable[[int], str]] = [
        lambda at: agents[at],
        lambda at: f"{agents[at]}, seed {results[at].info.get('seed')}",
        lambda at: directories[at].name or str(directories[at]),
        lambda at: str(directories[at]),
    ]
    for choice in choices:
        names = [choice(at) for at in range(len(results))]
        if max(Counter(names).values()) == 1:
            return names
    raise InvalidConfiguration("a result is named twice")
