"""Tables and figures of one or several runs of a problem, for a page."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from desim.exceptions import DesimError, InvalidConfiguration
from desim.formatting import (
    MARK,
    TimeUnit,
    all_names,
    compared,
    format_value,
    heading,
    selection,
    shortened,
    time_unit,
)
from desim.plotting.colors import line_styles
from desim.plotting.page import Block, Cell, Paragraph, Picture, Table, picture_of
from desim.plotting.runs import load_runs
from desim.problem import ProblemDescriptor, kind_of
from desim.result import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Metrics", "ReportOfRuns"]

Metrics = Mapping[str, Mapping[str, float]]

#: Entries of a description that are shown in another table or column.
OUTSIDE_CONFIGURATION = ("agent", "seed", "status", "end_time", "num_cores")
#: Maximum length of a setting in characters; longer ones are shortened.
LONGEST_SETTING = 160


class ReportOfRuns:
    """Creates the blocks of a page about some results."""

    def __init__(self, results: Mapping[str, Result], kind: ProblemDescriptor | None) -> None:
        first = next(iter(results.values()), None) if isinstance(results, Mapping) else results
        self.kind = kind or kind_of(first if isinstance(first, Result) else "batch")
        self.runs = load_runs(results, self.kind.name)
        self._results = {run.name: run for run in self.runs}
        self.colors = {name: str(style.color) for name, style in line_styles(self._results).items()}
        self._number = 0

    def runs_table(self) -> Table:
        """Return a table of runs: agent, final status, and numbers of jobs by status."""
        statuses, size = self.kind.statuses, self.kind.words.size
        sizes = [size(run) for run in self.runs] if size is not None else []
        unit = TimeUnit(self.kind.time_unit, 1.0)
        if self.kind.time_unit == "s":
            unit = time_unit(max(run.span[1] for run in self.runs))
        heads = ["run", "agent", "seed", "status", *(name for name, _ in sizes[:1])]
        heads += [f"end ({unit.name})", *(f"{status} (jobs)" for status in statuses)]
        rows: list[list[str | Cell]] = []
        for index, run in enumerate(self.runs):
            status, counts = str(run.info.get("status", "unknown")), self._counts(run)
            rows.append(
                [
                    Cell(run.name, color=self.colors[run.name]),
                    str(run.info.get("agent") or "unknown"),
                    str(run.info.get("seed", "unknown")),
                    Cell(status, warn=status != "complete"),
                    *(f"{count:,}" for _, count in sizes[index : index + 1]),
                    format_value(run.span[1] / unit.seconds),
                    *(f"{counts.get(name, 0):,}" for name in statuses),
                ]
            )
        return Table("Final status of the runs and of their jobs", heads, rows, words=(1, 3))

    def _counts(self, run: Result) -> dict[str, int]:
        """Return the numbers of jobs by status."""
        return dict(run.jobs["status"].cast(str).value_counts().iter_rows()) if self.kind.statuses else {}

    @cached_property
    def left(self) -> dict[str, str]:
        """Jobs that the metrics do not cover, in words, by run."""
        left = {}
        for run in self.runs:
            counts = self._counts(run)
            behind = [name for name in self.kind.words.left_behind if name in counts]
            left[run.name] = ", ".join(f"{counts[name]:,} {name}" for name in behind)
        return {name: words for name, words in left.items() if words}

    def configuration(self) -> list[Block]:
        """Return the settings; those that all runs share are listed once."""
        infos = [run.info for run in self.runs]
        keys = [key for key in dict.fromkeys(key for info in infos for key in info) if key not in OUTSIDE_CONFIGURATION]
        settings = {key: [_setting(info.get(key)) for info in infos] for key in keys}
        settings = {key: [shortened(text, LONGEST_SETTING) for text in texts] for key, texts in settings.items()}
        shared = ", ".join(f"{key} = {texts[0]}" for key, texts in settings.items() if len(set(texts)) == 1)
        own = [key for key, texts in settings.items() if len(set(texts)) > 1]
        of = " of all runs" if len(infos) > 1 else ""
        blocks: list[Block] = [Paragraph(f"Settings{of}: {shared}.")] if shared else []
        blocks += self.in_force()
        if own:
            rows = [[run.name, *(settings[key][index] for key in own)] for index, run in enumerate(self.runs)]
            words = range(1, len(own) + 1)
            blocks.append(Table("Settings in which the runs differ", ["run", *own], rows, words=words))
        return blocks

    def in_force(self) -> list[Block]:
        """Return what there is to say about the runs, such as site policies; once if it is the same for all."""
        told = self.kind.words.in_force
        if told is None:
            return []
        said = [" ".join(told(run)) for run in self.runs]
        if len(set(said)) == 1:
            return [Paragraph(said[0])] if said[0] else []
        return [Paragraph(f"{run.name}: {text}") for run, text in zip(self.runs, said, strict=True) if text]

    def workload(self) -> list[Block]:
        """Return a description of the workload, listed once if all runs had the same."""
        measure = self.kind.words.workload
        assert measure is not None
        first, *others = (self.kind.workload_tables(run) for run in self.runs)
        same = all(other[name].equals(frame) for other in others for name, frame in first.items())
        loads = [measure(run) for run in self.runs]
        names = [run.name for run in self.runs]
        if same and all(load == loads[0] for load in loads):
            names, loads = ["all runs"] if others else names, loads[:1]
        units = {head: time_unit(max(load[head] for load in loads)) for head in loads[0] if "{}" in head}
        rows = [
            [name, *(format_value(load[head] / (units[head].seconds if head in units else 1.0)) for head in load)]
            for name, load in zip(names, loads, strict=True)
        ]
        heads = [head.format(units[head].name) if head in units else head for head in loads[0]]
        return [Table("Submitted jobs", ["jobs of", *heads], rows, note=self.kind.words.below_workload)]

    def computed(self) -> tuple[Metrics, list[Paragraph]]:
        """Return the metrics of the runs, and paragraphs about runs without metrics, such as crashed ones."""
        metrics: dict[str, Mapping[str, float]] = {}
        problems = []
        for run in self.runs:
            try:
                metrics[run.name] = run.metrics()
            except DesimError as error:
                problems.append(Paragraph(f"{run.name} has no metrics: {error}", warn=True))
        return metrics, problems

    def checked(self, metrics: Metrics) -> Metrics:
        """Return the given metrics if they are those of the runs; otherwise raise InvalidConfiguration."""
        if set(metrics) != set(self._results):
            raise InvalidConfiguration(
                f"metrics: got those of {sorted(metrics)!r}, expected those of the results {sorted(self._results)!r}"
            )
        return {name: metrics[name] for name in self._results}

    def metric_tables(self, metrics: Metrics) -> list[Table]:
        """Return a table of the main metrics, one per column, and one of all metrics, one per row; best in bold."""
        main, everything = selection(metrics, 9, self.kind), all_names(metrics.values())
        rows = {name: [Cell(*words) for words in compared(name, metrics, self.left, self.kind)] for name in everything}
        by_run = [
            [Cell(run, color=self.colors[run]), *(rows[name][position] for name in main)]
            for position, run in enumerate(metrics)
        ]
        bold = "; the best value of each column is bold" if len(metrics) > 1 else ""
        tables = [Table(f"Main metrics{bold}", ["run", *(heading(name, self.kind) for name in main)], by_run)]
        if len(everything) > len(main):
            by_metric: list[list[str | Cell]] = [[name, *rows[name], self._meaning(name)] for name in everything]
            heads = ["metric", *metrics, "meaning and unit"]
            fold, title = f"All {len(everything)} metrics", "All metrics by name"
            tables.append(Table(title, heads, by_metric, words=(len(heads) - 1,), folded=fold))
        return tables

    def _meaning(self, name: str) -> str:
        return self.kind.metrics[name].meaning or heading(name, self.kind)

    def unfinished(self, *, computed_here: bool) -> list[Paragraph]:
        """Return paragraphs on how the metrics treat unfinished jobs."""
        words = self.kind.words
        if not self.left:
            return [Paragraph(words.all_finished)] if words.all_finished else []
        left = "; ".join(f"{name}: {jobs}" for name, jobs in self.left.items())
        text = words.left_out
        if not computed_here:
            text = "The metrics were given to this page; see their source for whether they count these jobs."
        return [
            Paragraph(f"{MARK} Some jobs had not finished when the run ended ({left}).", warn=True),
            Paragraph(f"{text} Values marked {MARK} should not be compared with those of other runs."),
        ]

    def _picture(self, axes: Axes | list[Axes], caption: str) -> Picture:
        """Return a numbered figure with an alternative text."""
        drawing = (axes[0] if isinstance(axes, list) else axes).get_figure(root=True)
        assert drawing is not None
        self._number += 1
        alt = f"{caption} Runs: {', '.join(self._results)}. The numbers behind it are in the tables of this page."
        return picture_of(drawing, f"Figure {self._number}. {caption}", alt)

    def figures(self, metrics: Metrics) -> list[Block]:
        """Draw the metrics and all figures of the problem; the first of these, the largest, comes last."""
        from desim.plotting.comparison import compare_metrics

        blocks: list[Block] = []
        if len(self.runs) > 1 and len(metrics) > 1:
            marks = f"; a {MARK} marks values that do not count unfinished jobs" if self.left else ""
            bars = compare_metrics(metrics, problem=self.kind, unfinished=self.left)
            blocks.append(self._picture(bars, f"Main metrics side by side: the best value of each is bold{marks}."))
        ordered = [figure for figure in self.kind.figures.values() if figure.suits(self._results.values())]
        for figure in ordered[1:] + ordered[:1]:
            try:
                blocks.append(self._picture(figure.draw(self._results), figure.caption))
            except InvalidConfiguration as error:  # such as allocations that were not recorded
                blocks.append(Paragraph(f"Not drawn: {error}"))
        return blocks


def _setting(value: Any) -> str:
    """Return a setting as text: numbers with few digits, strings without quotation marks."""
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_setting, value))}]"
    return "none" if value is None else str(value)
