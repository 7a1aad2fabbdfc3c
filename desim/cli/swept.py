"""``desim compare`` with several values of an option: one comparison per value, and a table and figure over all."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from desim.cli.compare import Compare, print_warnings
from desim.cli.output import print_json, print_table, print_text
from desim.formatting import heading
from desim.notes import print_note
from desim.plotting.files import write_figures
from desim.records import make_directory
from desim.sweep.comparison import Comparison, write_csv
from desim.sweep.options import options_in
from desim.sweep.study_file import write_study
from desim.sweep.tables import cell

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from desim.plotting.axes import FigureFormat, Style

__all__ = ["Point", "Swept", "points_of", "write_sweep"]


@dataclass(frozen=True)
class Point:
    """One value of each swept option.

    Attributes
    ----------
    values : dict of str to str
        Values by option, as given.
    arguments : tuple of str
        Command line with these values.
    """

    values: dict[str, str]
    arguments: tuple[str, ...]

    def __str__(self) -> str:
        """Return the point as text for messages and directory names."""
        return ",".join(f"{name}={value}" for name, value in self.values.items())


def points_of(arguments: Sequence[str], options: type[Any]) -> list[Point]:
    """Return one command line per combination of values of the options that list several values.

    Parameters
    ----------
    arguments : sequence of str
        Arguments after ``desim compare PROBLEM``.
    options : type
        Dataclass of the command, with the problem's options. Numbers, choices, and names without commas can be swept.

    Returns
    -------
    list of Point
        Points in the order of the values, the last option changing fastest; empty if no option lists several values.
    """
    several = {name: one for name, one in options_in(options).items() if one.is_sweepable}
    known = {f"--{name}".replace("_", "-"): one.path[-1].replace("_", "-") for name, one in several.items()}
    given: dict[str, list[str]] = {}
    places: dict[str, int] = {}
    words = [part for word in arguments for part in (word.split("=", 1) if word.startswith("--") else [word])]
    for place, word in enumerate(words[:-1]):
        values = [value.strip() for value in words[place + 1].split(",")]
        if word in known and len(values) > 1 and all(values):
            given[known[word]], places[known[word]] = values, place + 1
    points = []
    for chosen in product(*given.values()) if given else ():
        line = list(words)
        for name, value in zip(given, chosen, strict=True):
            line[places[name]] = value
        points.append(Point(dict(zip(given, chosen, strict=True)), tuple(line)))
    return points


@dataclass(frozen=True)
class Swept:
    """Comparisons for each value of an option, or for each combination of values of several options.

    Attributes
    ----------
    points : tuple of (Point, Compare)
        Points with their commands.
    """

    points: tuple[tuple[Point, Compare], ...]

    def execute(self) -> int:
        """Run all comparisons, print and write the results; return 1 if one failed or was interrupted."""
        found: list[tuple[Point, Comparison]] = []
        first = self.points[0][1]
        for point, command in self.points:
            if not first.as_json:
                print_text(f"-- {', '.join(f'--{name} {value}' for name, value in point.values.items())}", "bold")
            out = None if first.out is None else first.out / str(point).replace("/", "_")
            compared = dataclasses.replace(command, out=out).compared()
            found.append((point, compared))
        files = [] if first.out is None else write_sweep(found, first.out, first.style, first.format)
        if first.out is not None:
            files.append(write_study(_study_of(found), first.out))
        if first.as_json:
            print_json([{"values": point.values, **compared.described} for point, compared in found])
        else:
            _print_sweep(found)
            for path in files:
                print_text(f"written: {path}")
        statuses = [print_warnings(compared) for _, compared in found]
        return max(statuses)


def _study_of(found: Sequence[tuple[Point, Comparison]]) -> dict[str, Any]:
    """Return the options of all comparisons, with all values of those that are swept."""
    names = [name.replace("-", "_") for name in found[0][0].values]
    return {**found[0][1].study} | {name: list(dict.fromkeys(one.study[name] for _, one in found)) for name in names}


def _print_sweep(comparisons: Sequence[tuple[Point, Comparison]]) -> None:
    """Print the ranking metric with one row per agent and one column per point."""
    first, comparison = comparisons[0]
    name = comparison.main_metric
    heads = [f"agent \\ {' '.join(first.values)}", *("\n".join(point.values.values()) for point, _ in comparisons)]
    agents = dict.fromkeys(agent for _, one in comparisons for agent in one.means)
    rows = [
        [agent, *(cell(one, name, agent) if agent in one.means else "failed" for _, one in comparisons)]
        for agent in agents
    ]
    count, title = len(comparison.seeds), heading(name, comparison.kind)
    title += f": means over {count} {comparison.pair}s; * best" if count > 1 else ""
    print_table(heads, rows, title=title)


def write_sweep(
    comparisons: Sequence[tuple[Point, Comparison]],
    directory: Path,
    style: Style = "screen",
    file_format: FigureFormat = "png",
) -> list[Path]:
    """Write a table of all metrics, and a figure of the ranking metric.

    Parameters
    ----------
    comparisons : sequence of (Point, Comparison)
        Results at each point.
    directory : Path
        Directory for ``sweep.csv`` and the figure ``sweep``.
    style : {"screen", "paper", "paper-wide"}
        Width of the figure.
    file_format : {"png", "svg", "pdf"}
        File format of the figure.

    Returns
    -------
    list of Path
        Paths of the files; no figure if several options are swept or the values are not numbers.

    Raises
    ------
    RecordError
        If a file cannot be written.
    """
    import polars as pl

    make_directory(directory)
    columns = ["agent", "metric", "seeds", "mean", "low", "high"]
    table = pl.concat(
        comparison.table.select(*(pl.lit(value).alias(name) for name, value in point.values.items()), *columns)
        for point, comparison in comparisons
    )
    path = write_csv(table, directory / "sweep.csv")
    figures = {} if (draw := _drawing(comparisons)) is None else {"sweep": draw}
    return [path, *write_figures(figures, directory, style=style, file_format=file_format)]


def _drawing(comparisons: Sequence[tuple[Point, Comparison]]) -> Callable[[], Axes] | None:
    """Return a function that draws the ranking metric against the option, if its values are numbers."""
    from desim.plotting import metric_lines

    option, *others = comparisons[0][0].values
    try:
        places = [float(point.values[option]) for point, _ in comparisons]
    except ValueError:
        places = []
    if others or not places:
        print_note("desim: no figure of the sweep: expected one option with numeric values")
        return None
    name, kind = comparisons[0][1].main_metric, comparisons[0][1].kind
    samples: dict[str, dict[float, list[float]]] = {}
    for place, (_, comparison) in zip(places, comparisons, strict=True):
        for agent, row in comparison.metrics.items():
            samples.setdefault(agent, {})[place] = row[name]
    limits = kind.metrics[name].least, kind.metrics[name].most
    return partial(metric_lines, samples, xlabel=option.replace("-", " "), ylabel=heading(name, kind), limits=limits)
