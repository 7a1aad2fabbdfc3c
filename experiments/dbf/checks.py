"""What was to be shown of split windows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from desim.experiments.checks import Check
from desim.experiments.dbf.agents import BOUND
from desim.experiments.dbf.paper import HALVED, TAIL_HELPS
from desim.experiments.dbf.report import METRIC_WORDS
from desim.experiments.dbf.study import Panel, Study

__all__ = ["beaten", "fairness_checks", "halving_checks", "tail_checks"]


def beaten(
    study: Study,
    panel: Panel,
    column: str,
    rows: Iterable[str],
    others: Iterable[str],
    *,
    metrics: Sequence[str] = ("waiting_time_mean", "queue_length_mean"),
) -> list[Check]:
    """Tell whether some agents have less of some metrics than others, paired by episode.

    Parameters
    ----------
    study : Study
        What was measured.
    panel : Panel
        One of its panels.
    column : str
        The setting.
    rows, others : iterable of str
        Who should have less, and than whom; those that are not there are left out.
    metrics : sequence of str
        Of which less is better.

    Returns
    -------
    list of Check
        It holds if the interval of the difference is below 0.
    """
    checks = []
    others = [other for other in others if study.has(panel, column, other)]
    for row in (row for row in rows if study.has(panel, column, row)):
        for other in (other for other in others if other != row):
            for metric in metrics:
                difference = study.versus(panel, column, row, other, metric)
                means = [study.estimate(panel, column, name, metric).mean for name in (row, other)]
                text = (
                    f"{panel.name}, {column}: {METRIC_WORDS[metric]}, {row} {means[0]:,.1f}, {other} {means[1]:,.1f}, "
                    f"difference {difference.mean:+,.1f} ± {difference.half_width:,.1f}"
                )
                checks.append(Check(text, difference.high < 0))
    return checks


def tail_checks(study: Study) -> list[Check]:
    """Tell whether one slot at the tail is better than none, at the sizes at which it should be.

    Parameters
    ----------
    study : Study
        Of panels whose columns are numbers of slots at the tail, named ``"M = SIZE"``.

    Returns
    -------
    list of Check
        One for each size, row and metric; paired by episode.
    """
    from desim.statistics import paired_difference

    checks = []
    for panel in _of_sizes(study, TAIL_HELPS):
        for row in panel.rows:
            if not all(study.has(panel, tail, row) for tail in ("0", "1")):
                continue
            for metric in HALVED:
                one, none = (study.values(panel, tail, row, metric) for tail in ("1", "0"))
                difference = paired_difference(one, none)
                text = (
                    f"{panel.name}, {row}: {METRIC_WORDS[metric]} with one slot at the tail {one.mean():,.1f}, "
                    f"with none {none.mean():,.1f}, difference {difference.mean:+,.1f} ± {difference.half_width:,.1f}"
                )
                checks.append(Check(text, difference.high < 0))
    return checks


def halving_checks(study: Study, size: int = 20) -> list[Check]:
    """Tell whether the best split at least halves waiting time and queue length of the window at the head.

    Parameters
    ----------
    study : Study
        As for :func:`tail_checks`.
    size : int
        Slots of the window.

    Returns
    -------
    list of Check
        One for each row and metric. The best split is that with the least mean, so ours is a little too good.
    """
    checks = []
    for panel in _of_sizes(study, (size,)):
        for row in panel.rows:
            tails = [tail for tail in panel.columns if study.has(panel, tail, row)]
            if "0" not in tails or len(tails) < 2:
                continue
            for metric, paper in HALVED.items():
                means = {tail: study.estimate(panel, tail, row, metric).mean for tail in tails}
                best = min(means, key=lambda tail: means[tail])
                saved = 1 - means[best] / means["0"]
                text = (
                    f"{panel.name}, {row}: {METRIC_WORDS[metric]} falls from {means['0']:,.1f} to {means[best]:,.1f} "
                    f"with {best} slots at the tail, by {saved:.0%}, want 50 %; the paper {paper:.0%}"
                )
                checks.append(Check(text, saved >= 0.5))
    return checks


def _of_sizes(study: Study, sizes: Sequence[int]) -> list[Panel]:
    names = {f"M = {size}" for size in sizes}
    return [panel for panel in study.panels if panel.name in names]


def fairness_checks(study: Study, panel: Panel, column: str, rows: Iterable[str]) -> list[Check]:
    """Tell whether fair agents keep the longest wait within that of EASY over FCFS, and still wait less on average.

    Parameters
    ----------
    study : Study
        What was measured.
    panel : Panel
        One of its panels.
    column : str
        The setting.
    rows : iterable of str
        The fair agents.

    Returns
    -------
    list of Check
        Of the mean over episodes of the longest wait, and of the mean wait, whose difference is paired.
    """
    checks = []
    bound = study.estimate(panel, column, BOUND, "waiting_time_max").mean
    for row in rows:
        longest = study.estimate(panel, column, row, "waiting_time_max").mean
        text = f"longest wait, mean over episodes: {row} {longest:,.0f} s, {BOUND} {bound:,.0f} s"
        checks.append(Check(text, longest <= bound))
        checks += beaten(study, panel, column, [row], [BOUND], metrics=["waiting_time_mean"])
    return checks
