"""The numbers that the paper gives in words beside ours."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from desim.experiments.beside import Beside
from desim.experiments.compare import lead_percent
from desim.experiments.lachesis.agents import DECIMA, LACHESIS, PAPER_ROWS
from desim.experiments.lachesis.report import MILLISECONDS, percentiles
from desim.experiments.lachesis.study import Panel, Study
from desim.statistics import Estimate

__all__ = ["besides"]

#: By what percentage the paper's makespans are below the best rival's at most, and its speedups above.
SHORTER: Mapping[str, float] = {"figure7": 15.3, "figure8": 26.7, "figure9": 7.4}
FASTER: Mapping[str, float] = {"figure8": 35.2}
#: The paper's largest speedup.
SPEEDUP: Mapping[str, float] = {"figure7": 6.8}
#: Milliseconds in which the paper's agent takes 98 % of its decisions.
DECISION_TIMES: Mapping[str, float] = {"figure7": 14.0, "figure8": 30.0, "figure9": 38.0}
SHARE = 0.98


def besides(study: Study) -> list[Beside]:
    """Return what the paper says of one of its figures 7 to 9, beside the same of a study.

    Parameters
    ----------
    study : Study
        With one panel.

    Returns
    -------
    list of Beside
        Rivals are the paper's: its heuristics, and Decima-DEFT.
    """
    name, (panel,) = study.options.name, study.panels
    found = []
    if name in SHORTER:
        what = "LACHESIS' makespan below that of the best rival, %, at most"
        found.append(Beside(what, SHORTER[name], _largest(study, panel, "makespan"), "more"))
    if name in FASTER:
        what = "LACHESIS' speedup above that of the best rival, %, at most"
        found.append(Beside(what, FASTER[name], _largest(study, panel, "speedup"), "more"))
    if name in SPEEDUP:
        speedups = [study.estimate(panel, column, LACHESIS, "speedup") for column in panel.columns]
        found.append(
            Beside("LACHESIS' largest speedup", SPEEDUP[name], max(speedups, key=lambda one: one.mean), "more")
        )
    if name in DECISION_TIMES:
        (seconds,) = percentiles(study, panel, LACHESIS, [SHARE])
        what = f"time of LACHESIS' decisions, {100 * SHARE:.0f} %, ms"
        found.append(Beside(what, DECISION_TIMES[name], Estimate(MILLISECONDS * seconds, math.nan, 1, 0.95), "less"))
    return found


def _largest(study: Study, panel: Panel, metric: str) -> Estimate:
    """Return the lead over the best rival of a column, in the column where it is largest."""
    rivals = [row for row in (*PAPER_ROWS, DECIMA) if row in panel.rows]
    sign = -1.0 if metric == "makespan" else 1.0
    leads = []
    for column in panel.columns:
        values = {row: study.values(panel, column, row, metric) for row in [LACHESIS, *rivals]}
        best = max(rivals, key=lambda row: sign * float(np.mean(values[row])))
        lead = lead_percent(values[LACHESIS], values[best])
        leads.append(lead._replace(mean=sign * lead.mean + 0.0))  # no negative 0
    return max(leads, key=lambda lead: lead.mean)
