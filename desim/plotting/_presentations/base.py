"""What figures, tables and reports have to know of the results of a problem."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

from desim.result import Result
from desim.statistics import RESOURCE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["MOST_OVERLAID", "Better", "Drawing", "Figure", "Presentation", "Remarks"]

Better = Literal["lower", "higher"]
Drawing = Callable[[Mapping[str, Result]], "Axes | list[Axes]"]

#: With more runs than these, curves in one panel would hide each other.
MOST_OVERLAID = 4


class Figure(NamedTuple):
    """A figure of one run or of several.

    Attributes
    ----------
    draw : callable
        Called with the results by name.
    caption : str
        What it shows.
    """

    draw: Drawing
    caption: str


class Remarks(NamedTuple):
    """What a report says of jobs that have not finished; empty where that is nothing special.

    Attributes
    ----------
    all_finished : str
        If there are none.
    left_out : str
        What the metrics of runs with such jobs miss.
    blind : str
        The metrics that tell nothing of such jobs.
    workload : str
        Below the table of the workload.
    """

    all_finished: str = ""
    left_out: str = ""
    blind: str = ""
    workload: str = ""


@dataclass(frozen=True)
class Presentation:
    """The names, directions and figures of a problem's results.

    Attributes
    ----------
    problem : str
        Such as ``"batch"``.
    meanings : mapping of str to str
        All metrics with their meaning and unit.
    headline : tuple of str
        The few metrics of the tables on a terminal, the most important one first.
    main : tuple of str
        The metrics that a report shows first.
    kinds : mapping of str to (str, "lower" or "higher" or None)
        Beginnings of the names of metrics with the unit, and which values are better; the longest that fits counts.
    figures : mapping of str to Figure
        By the names that ``desim plot --kind`` takes.
    workload : callable
        Returns numbers about the workload of a result, by their headings; a number of seconds whose heading holds {} is
        shown in the unit that fits.
    same_workload : mapping of str to tuple of str
        Tables, and the columns in which runs of the same workload are equal, whatever the agent did; a star stands for
        any end of a name.
    size : callable
        Returns what the cluster of a result is measured in, such as cores, and how many there are.
    statuses : tuple of str
        What can have become of a job.
    left_behind : mapping of str to str
        Those of them that metrics do not cover, with the metric that counts them.
    of_finished_jobs : tuple of str
        Beginnings of the names of metrics that miss those jobs, or count them too low.
    time_unit : str
        Of the times in the tables: "s" or "slots".
    remarks : Remarks
        Sentences for a report.
    """

    problem: str
    meanings: Mapping[str, str] = field(default_factory=dict)
    headline: tuple[str, ...] = ()
    main: tuple[str, ...] = ()
    kinds: Mapping[str, tuple[str, Better | None]] = field(default_factory=dict)
    figures: Mapping[str, Figure] = field(default_factory=dict)
    workload: Callable[[Result], dict[str, float]] | None = None
    same_workload: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    size: Callable[[Result], tuple[str, int]] | None = None
    statuses: tuple[str, ...] = ()
    left_behind: Mapping[str, str] = field(default_factory=dict)
    of_finished_jobs: tuple[str, ...] = ()
    time_unit: str = "s"
    remarks: Remarks = field(default_factory=Remarks)

    @property
    def counts_left_behind(self) -> tuple[str, ...]:
        """The metrics that count jobs which the others do not cover."""
        return tuple(self.left_behind.values())

    def meaning_of(self, metric: str) -> str:
        """Return what a metric is, with its unit; nothing of one that is unknown."""
        if metric in self.meanings:
            return self.meanings[metric]
        ends = [name for name in self.meanings if name.endswith(RESOURCE)]
        found = [name for name in ends if metric.startswith(name.removesuffix(RESOURCE))]
        return self.meanings[max(found, key=len)] if found else ""

    def kind_of(self, metric: str) -> tuple[str, Better | None]:
        """Return the unit of a metric, and which values are better; nothing of one that is unknown."""
        fitting = [kind for kind in self.kinds if metric == kind or metric.startswith(f"{kind}_")]
        return self.kinds[max(fitting, key=len)] if fitting else ("", None)
