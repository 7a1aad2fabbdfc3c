"""The few numbers of the paper beside ours."""

from __future__ import annotations

import math

from desim.experiments.beside import Beside
from desim.experiments.dbf.agents import LEARNED
from desim.experiments.dbf.paper import HALVED, QUEUE_LENGTH, SLOWDOWN
from desim.experiments.dbf.study import Panel, Study
from desim.statistics import Estimate

__all__ = ["bars_beside", "windows_beside"]

WORDS = {"waiting_time_mean": "waiting time", "queue_length_mean": "queue length"}


def bars_beside(study: Study, panel: Panel, long: str, short: str) -> list[Beside]:
    """Return the queue of a window of 20 slots, and the slowdowns of SJF with and without SchedInspector.

    Parameters
    ----------
    study : Study
        What was measured.
    panel : Panel
        Of figure 4.
    long, short : str
        The columns of the paper's episodes, and of those in which SchedInspector is trained.

    Returns
    -------
    list of Beside
        About those rows that there are.
    """
    found = []
    for row in panel.rows:
        if row.startswith("DBF M20 ") and study.has(panel, long, row):
            ours = study.estimate(panel, long, row, "queue_length_mean")
            found.append(Beside(f"mean queue length of {row}, jobs", QUEUE_LENGTH, ours, "less"))
    for row, paper in SLOWDOWN.items():
        if row in panel.rows and study.has(panel, short, row):
            ours = study.estimate(panel, short, row, "bounded_slowdown_mean")
            found.append(Beside(f"mean bounded slowdown of {row}, {short}", paper, ours, "less"))
    return found


def windows_beside(study: Study, size: int = 20) -> list[Beside]:
    """Return by how much the best split of a window is below the window at the head.

    Parameters
    ----------
    study : Study
        Of panels named ``"M = SIZE"`` whose columns are numbers of slots at the tail.
    size : int
        Slots of the window.

    Returns
    -------
    list of Beside
        One a metric, of the learned agents, in percent; ratios of means, without intervals.
    """
    found = []
    for panel in (panel for panel in study.panels if panel.name == f"M = {size}"):
        tails = [tail for tail in panel.columns if study.has(panel, tail, LEARNED)]
        if "0" not in tails or len(tails) < 2:
            continue
        for metric, paper in HALVED.items():
            means = {tail: study.estimate(panel, tail, LEARNED, metric).mean for tail in tails}
            saved = Estimate(
                100.0 * (1.0 - min(means.values()) / means["0"]), math.nan, study.options.num_episodes, 0.95
            )
            what = f"{WORDS[metric]} of the best split of {size} slots below that of {size} at the head, %"
            found.append(Beside(what, 100.0 * paper, saved, "more"))
    return found
