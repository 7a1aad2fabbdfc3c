"""``desim plot``: draw figures of stored runs."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from desim.checks import did_you_mean
from desim.cli.options import listed
from desim.cli.output import print_text
from desim.exceptions import InvalidConfiguration
from desim.plotting.axes import Style
from desim.plotting.files import FigureFormat, draw_figures
from desim.problem import ProblemDescriptor, kind_of
from desim.result import Result

__all__ = ["Plot", "load_named"]

#: Seconds per unit of a time range.
SECONDS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}


@dataclass(frozen=True)
class Plot:
    """Draw figures of one run, or of several runs side by side.

    Examples::

        desim plot easy
        desim plot easy sjf fcfs --out figures --kind gantt,waiting --format pdf
        desim plot easy fcfs --kind gantt --time-range 2d:3d --style paper --format pdf
    """

    directories: Annotated[Positional[tuple[Path, ...]], arg(metavar="DIR", help_behavior_hint="(one or more)")]
    """Directories of results."""
    out: Annotated[Path | None, arg(metavar="DIR", help_behavior_hint="(default: figures/ in the first result)")] = None
    """Directory for the figures; figures of the same name are replaced."""
    kind: Annotated[str | None, arg(metavar="KIND,...", help_behavior_hint="(default: all figures)")] = None
    """Figures to draw. batch: gantt, utilization, queue, waiting; dag: gantt, utilization, jobs, executors; deferrable:
    gantt, capacity, work; multiserver: allocation, reward, parts, resources."""
    format: FigureFormat = "png"
    """File format."""
    time_range: Annotated[str | None, arg(metavar="A:B", help_behavior_hint="(default: the whole runs)")] = None
    """Time range of the figures over time: seconds, or numbers followed by m, h or d; slots in deferrable and
    multiserver."""
    style: Style = "screen"
    """Use of the figures: paper fills one column of a two-column page (3.5 inches), paper-wide both (7.16 inches)."""

    def execute(self) -> int:
        """Draw the figures and print their paths."""
        results = load_named(self.directories)
        kind = kind_of(next(iter(results.values())))
        kinds = _chosen_kinds(self.kind, kind)
        if not kinds:
            raise InvalidConfiguration(f"problem {kind.name!r} has no figures")
        out = self.directories[0] / "figures" if self.out is None else self.out
        asked = None if self.kind is None else kinds
        time_range = None if self.time_range is None else _time_range(self.time_range)
        end = max(float(result.info.get("end_time", math.inf)) for result in results.values())
        if time_range is not None and time_range[0] >= end:
            raise InvalidConfiguration(
                f"--time-range: got {self.time_range!r}, after the runs end ({end:,.10g} {kind.time_unit})"
            )
        for path in draw_figures(
            results, out, kind, kinds=asked, file_format=self.format, window=time_range, style=self.style
        ):
            print_text(str(path))
        return 0


def _time_range(text: str) -> tuple[float, float]:
    """Parse a time range such as ``2d:3.5d``; return its start and end in seconds, or as given without a unit."""
    found = re.fullmatch(r"(\d+\.?\d*)([smhd]?):(\d+\.?\d*)([smhd]?)", text.strip())
    if found is None:
        raise InvalidConfiguration(f"--time-range: got {text!r}, expected two times such as 3600:7200 or 2d:3.5d")
    time_range = float(found[1]) * SECONDS[found[2]], float(found[3]) * SECONDS[found[4]]
    if time_range[0] >= time_range[1]:
        raise InvalidConfiguration(f"--time-range: got {text!r}, expected an end after the start")
    return time_range


def load_named(directories: Sequence[Path]) -> dict[str, Result]:
    """Load results of one problem under names that distinguish them.

    Parameters
    ----------
    directories : sequence of Path
        Directories of the results.

    Returns
    -------
    dict of str to Result
        Results by name, in the order of the directories.

    Raises
    ------
    InvalidConfiguration
        If there are no directories, the results are of different problems, or a directory is given twice.
    """
    if not directories:
        raise InvalidConfiguration("no results to draw; give at least one directory")
    loaded = [Result.load(directory) for directory in directories]
    problems = list(dict.fromkeys(str(result.info.get("problem", "batch")) for result in loaded))
    if len(problems) > 1:
        raise InvalidConfiguration(f"the results are of different problems: {', '.join(problems)}")
    return dict(zip(_names(loaded, directories), loaded, strict=True))


def _names(results: Sequence[Result], directories: Sequence[Path]) -> list[str]:
    """Name runs after their agents if these differ, else after agents and seeds, else after their directories."""
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
    raise InvalidConfiguration("a result is given twice")


def _chosen_kinds(asked: str | None, kind: ProblemDescriptor) -> list[str]:
    """Return the names of the requested figures.

    Parameters
    ----------
    asked : str or None
        Names separated by commas; None means all figures.
    kind : ProblemDescriptor
        Description of the problem, with its figures.

    Returns
    -------
    list of str
        Names without duplicates.

    Raises
    ------
    InvalidConfiguration
        If a name is unknown, or no name is given.
    """
    known = list(kind.figures)
    if asked is None:
        return known
    kinds = list(dict.fromkeys(listed(asked)))
    if not kinds or set(kinds) - set(known):
        there = f"expected some of {','.join(known)}" if known else f"but {kind.name} has no figures"
        near = "".join(did_you_mean(name, known) for name in kinds if name not in known)
        raise InvalidConfiguration(f"--kind: got {asked!r}{near}, {there}")
    return kinds
