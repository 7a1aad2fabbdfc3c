"""``desim plot``: draw figures of stored runs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import Positional, arg

from desim.checks import seconds_in
from desim.cli.options import listed
from desim.cli.output import print_text
from desim.cli.stored import load_shown
from desim.exceptions import InvalidConfiguration
from desim.plotting.axes import FigureFormat, Style
from desim.plotting.files import draw_figures
from desim.problem import kind_of
from desim.sweep.comparison import Comparison

__all__ = ["Plot"]


@dataclass(frozen=True)
class Plot:
    """Draw figures of one run, of several runs side by side, or of a comparison.

    Examples::

        desim plot easy
        desim plot easy sjf fcfs --out figures --kind gantt,waiting --format pdf
        desim plot easy fcfs --kind gantt --time-range 2d:3d --style paper --format pdf
        desim plot comparison --kind metrics,ranks --style paper --format pdf
    """

    directories: Annotated[Positional[tuple[Path, ...]], arg(metavar="DIR", help_behavior_hint="(one or more)")]
    """Directories of results, or one of a comparison."""
    out: Annotated[Path | None, arg(metavar="DIR", help_behavior_hint="(default: figures/ in the first result)")] = None
    """Directory for the figures; figures of the same name are replaced."""
    kind: Annotated[str | None, arg(metavar="KIND,...", help_behavior_hint="(default: all figures)")] = None
    """Figures to draw. batch: gantt, utilization, queue, waiting, on nodes also nodes, node-gantt, and with GPUs
    nodes-gpus, node-gantt-gpus; dag: gantt, utilization, jobs, executors, on pools also pools; deferrable: gantt,
    capacity, work; multiserver: allocation, reward, parts, resources. A comparison also has metrics, ranks, profiles,
    distribution, over-time."""
    format: FigureFormat = "png"
    """File format."""
    time_range: Annotated[str | None, arg(metavar="A:B", help_behavior_hint="(default: the whole runs)")] = None
    """Time range of the figures over time: seconds or such as 2d:3.5d; slots in deferrable and multiserver."""
    style: Style = "screen"
    """Use of the figures: paper fills one column of a two-column page (3.5 inches), paper-wide both (7.16 inches)."""

    def execute(self) -> int:
        """Draw the figures and print their paths."""
        shown = load_shown(self.directories)
        out = self.directories[0] / "figures" if self.out is None else self.out
        window = None if self.time_range is None else _time_range(self.time_range)
        asked = None if self.kind is None else listed(self.kind)
        look: Any = {"file_format": self.format, "window": window, "style": self.style}
        if not isinstance(shown, Comparison):
            kind = kind_of(next(iter(shown.values())))
            if not kind.figures:
                raise InvalidConfiguration(f"problem {kind.name!r} has no figures")
            end = max(float(result.info.get("end_time", math.inf)) for result in shown.values())
            if window is not None and window[0] >= end:
                raise InvalidConfiguration(
                    f"--time-range: got {self.time_range!r}, after the runs end ({end:,.10g} {kind.time_unit})"
                )
        for path in draw_figures(shown, out, kinds=asked, **look):
            print_text(str(path))
        return 0


def _time_range(text: str) -> tuple[float, float]:
    """Parse a time range such as ``2d:3.5d``; return its start and end in seconds, or as given without a unit."""
    first, _, last = text.partition(":")
    try:
        time_range = seconds_in(first), seconds_in(last)
    except ValueError:
        raise InvalidConfiguration(
            f"--time-range: got {text!r}, expected two times such as 3600:7200 or 2d:3.5d"
        ) from None
    if not 0.0 <= time_range[0] < time_range[1]:
        raise InvalidConfiguration(f"--time-range: got {text!r}, expected an end after the start")
    return time_range
