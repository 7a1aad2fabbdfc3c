"""The numbers of the paper's tables beside ours."""

from __future__ import annotations

from desim.experiments.beside import Beside
from desim.experiments.compare import lead_percent
from desim.experiments.osdec.agents import OSDEC
from desim.experiments.osdec.paper import CASES, TABLE_1, TABLE_2, TABLE_4
from desim.experiments.osdec.study import Panel, Study

__all__ = ["cases_beside", "table_beside", "windows_beside"]


def table_beside(study: Study, panel: Panel, column: str) -> list[Beside]:
    """Return total rewards of table 1, and by how many percent they are above FIFO's.

    Parameters
    ----------
    study : Study
        What was measured.
    panel : Panel
        One of its panels.
    column : str
        The default workload.

    Returns
    -------
    list of Beside
        For each row of the paper that there is.
    """
    first = study.reference
    found = []
    for row, (*_, total) in TABLE_1.items():
        if row not in panel.rows:
            continue
        ours = study.estimate(panel, column, row, "total_reward")
        found.append(Beside(f"{row}: total reward, core-slots", total, ours, "more"))
        if row != first:
            lead = 100.0 * (total / TABLE_1[first][-1] - 1.0)
            ours = study.lead(panel, column, row, "total_reward")
            found.append(Beside(f"{row}: total reward above that of {first}, %", lead, ours, "more"))
    return found


def windows_beside(study: Study, panel: Panel) -> list[Beside]:
    """Return utilizations of table 2, and by how many percent windows raise them.

    Parameters
    ----------
    study : Study
        What was measured.
    panel : Panel
        Its two columns are those of the table.

    Returns
    -------
    list of Beside
        For each row of the paper that there is.
    """
    found = []
    first, second = panel.columns
    for row, (windows, real_time) in TABLE_2.items():
        if row not in panel.rows:
            continue
        pair = [study.values(panel, column, row, "utilization") for column in (first, second)]
        ours = study.estimate(panel, first, row, "utilization")
        found.append(Beside(f"{row}: utilization with windows, core-slots", windows, ours, "more"))
        gain = 100.0 * (windows / real_time - 1.0)
        found.append(Beside(f"{row}: gain of windows, %", gain, lead_percent(*pair), "more"))
    return found


def cases_beside(study: Study, panel: Panel, metric: str) -> list[Beside]:
    """Return what table 4 says of FIFO and OSDEC, and by how many percent OSDEC is ahead.

    Parameters
    ----------
    study : Study
        What was measured.
    panel : Panel
        Its columns are the cases.
    metric : str
        What the table is taken to be of.

    Returns
    -------
    list of Beside
        For each case.
    """
    found = []
    for number, case in enumerate(CASES):
        for row in (study.reference, OSDEC):
            if row in panel.rows:
                ours = study.estimate(panel, case, row, metric)
                found.append(Beside(f"{case}: {metric} of {row}, core-slots", TABLE_4[row][number], ours, "more"))
        if OSDEC in panel.rows:
            lead = 100.0 * (TABLE_4[OSDEC][number] / TABLE_4[study.reference][number] - 1.0)
            ours = study.lead(panel, case, OSDEC, metric)
            found.append(Beside(f"{case}: {metric} of OSDEC above that of {study.reference}, %", lead, ours, "more"))
    return found
