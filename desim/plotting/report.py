"""Reports: one HTML file that holds the tables and figures of one or several runs of a problem."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from desim.plotting._named_results import problem_of
from desim.plotting._presentations import presentation_of
from desim.problem import kind_of
from desim.result import Result

if TYPE_CHECKING:
    from desim.statistics import Profile, Ranking

__all__ = ["Comparison", "ReportTable", "report"]


class ReportTable(NamedTuple):
    """A table of a report, as text.

    Attributes
    ----------
    title : str
        What stands above it.
    heads : sequence of str
        Heads of the columns.
    rows : sequence of sequence of str
        The first cell of each row names it.
    words : sequence of int
        Columns, besides the first, that hold words, which stand on the left; numbers stand on the right.
    note : str
        What stands below it.
    """

    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: Sequence[int] = ()
    note: str = ""


class Comparison(NamedTuple):
    """What a report says about which agents differ.

    Attributes
    ----------
    tables : sequence of ReportTable
        Means, differences, tests and the like.
    ranking : Ranking or None
        Of :func:`desim.statistics.rank_agents`; drawn with its critical difference.
    profile : Profile or None
        Of :func:`desim.statistics.performance_profile`; drawn.
    metric : str
        What both are about, in words.
    """

    tables: Sequence[ReportTable] = ()
    ranking: Ranking | None = None
    profile: Profile | None = None
    metric: str = ""


def report(
    results: Mapping[str, Result],
    path: str | os.PathLike[str],
    *,
    title: str = "Simulation report",
    metrics: Mapping[str, Mapping[str, float]] | None = None,
    notes: str | Sequence[str] = (),
    comparison: Comparison | None = None,
) -> Path:
    """Write a report on one or several runs of a problem.

    The file needs nothing else: styles and figures are inside, and it has no date, so that the
    same runs make the same file. A figure is a vector graphic unless its pixels are much smaller.

    Parameters
    ----------
    results : mapping of str to Result
        Runs by name.
    path : path
        The HTML file; it appears only once it is complete, and takes the place of one that is there.
    title : str
        Heading of the report.
    metrics : mapping of str to mapping of str to float, optional
        The metrics of every run; by default :meth:`desim.Result.metrics` computes them.
    notes : str or sequence of str
        Paragraphs for the beginning of the report, as plain text.
    comparison : Comparison, optional
        Which agents differ, over more than the runs that are drawn.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    InvalidConfiguration
        If the results are not all of one problem, or the names of the metrics are not theirs.
    RecordError
        If the file cannot be written.
    """
    from desim.plotting._report_page import write_report

    presentation = presentation_of(kind_of(problem_of(results, "batch")))
    texts = [notes] if isinstance(notes, str) else list(notes)
    return write_report(
        results, Path(path), presentation, title=title, metrics=metrics, notes=texts, comparison=comparison
    )
