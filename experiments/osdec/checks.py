"""What was to be shown: each a sentence with the figures, and whether it holds."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from desim.experiments.checks import Check
from desim.experiments.compare import lead_percent, with_interval
from desim.experiments.osdec.agents import FORESIGHTED, OPTIMUM, OSDEC, PAPER_ROWS, VARIANTS
from desim.experiments.osdec.paper import CASES, TABLE_1, TABLE_4
from desim.experiments.panels import Panel, Study
from desim.statistics import paired_difference

__all__ = [
    "bound_checks",
    "case_checks",
    "comparison_checks",
    "default_checks",
    "nearness_checks",
    "online_checks",
]

#: How far our figures may be from the paper's, relative to these.
UTILIZATION, DELAY, RATIO = 0.05, 0.25, 0.10
#: By how many percent OSDEC's total reward is to be above FIFO's, and may be below the best in a case.
LEAD, NEAR = 1.95, 1.0
#: The first of each pair is to have less total reward than the second.
ORDER = (
    ("REINFORCE", "PPO"),
    ("PPO", "PPO+Att"),
    ("PPO+Att", "PPO+Att+AuxH"),
    ("PPO+Att", "PPO+Att+AuxL"),
    ("PPO+Att+AuxH", OSDEC),
    ("PPO+Att+AuxL", OSDEC),
)
#: A bound of the solver holds up to a millionth.
TOLERANCE = 1e-6


def default_checks(study: Study, panel: Panel, column: str) -> list[Check]:
    """Compare utilization and delay of the heuristics with table 1.

    Parameters
    ----------
    study : Study
        What was measured.
    panel : Panel
        Where the heuristics are.
    column : str
        The default setting in it.

    Returns
    -------
    list of Check
        Distances from the paper, and the order of the three.
    """
    checks = []
    for number, (metric, most) in enumerate((("utilization", UTILIZATION), ("time_delay", DELAY))):
        means = {row: study.estimate(panel, column, row, metric).mean for row in PAPER_ROWS}
        paper = {row: TABLE_1[row][number] for row in PAPER_ROWS}
        for row, mean in means.items():
            off = mean / paper[row] - 1
            text = f"{metric} of {row}: {mean:,.1f}, the paper {paper[row]:,.1f}, {off:+.1%}, want {most:.0%}"
            checks.append(Check(text, abs(off) <= most))
        order = sorted(means, key=lambda row: -means[row])
        wanted = sorted(paper, key=lambda row: -paper[row])
        checks.append(Check(f"order of {metric}: {' > '.join(order)}, the paper {' > '.join(wanted)}", order == wanted))
    return checks


def comparison_checks(study: Study, panel: Panel, better: str, worse: str, metric: str) -> list[Check]:
    """Tell for every row whether one column is above another, paired by trajectory.

    Parameters
    ----------
    study : Study
        What was measured.
    panel : Panel
        One of its panels.
    better, worse : str
        The columns.
    metric : str
        Of which more is better.

    Returns
    -------
    list of Check
        One a row; it holds if the interval of the difference is above 0.
    """
    checks = []
    for row in panel.rows:
        pair = (study.values(panel, column, row, metric) for column in (better, worse))
        difference = paired_difference(*pair)
        text = f"{row}: {better} less {worse} is {difference.mean:+,.1f} ± {difference.half_width:,.1f}"
        checks.append(Check(text, difference.low > 0))
    return checks


def case_checks(study: Study, panel: Panel, metric: str) -> list[Check]:
    """Compare the ratios between the cases of table 4 with the paper's.

    Parameters
    ----------
    study : Study
        What was measured.
    panel : Panel
        Its columns are the cases.
    metric : str
        What is compared.

    Returns
    -------
    list of Check
        One for each heuristic and pair of core cases or of duration cases.
    """
    checks = []
    for row in PAPER_ROWS:
        ours = {name: study.estimate(panel, name, row, metric).mean for name in CASES}
        paper: Mapping[str, float] = dict(zip(CASES, TABLE_4[row], strict=True))
        for group in (CASES[:3], CASES[3:]):
            for first, second in combinations(group, 2):
                mine, theirs = ours[second] / ours[first], paper[second] / paper[first]
                off = mine / theirs - 1
                text = f"{metric} of {row}, {second} over {first}: {mine:.3f}, the paper {theirs:.3f}, {off:+.1%}"
                checks.append(Check(text, abs(off) <= RATIO))
    return checks


def online_checks(study: Study, panel: Panel, column: str) -> list[Check]:
    """Tell whether OSDEC, or one of our variants, has the highest total reward of all that do not know the future.

    And how far above FIFO and Tetris it is, and in which order the paper's agents that learn are.

    Parameters
    ----------
    study : Study
        What was measured.
    panel : Panel
        One of its panels.
    column : str
        The setting.

    Returns
    -------
    list of Check
        About those rows that there are.
    """
    rewards = {row: study.values(panel, column, row, "total_reward") for row in panel.rows if row not in FORESIGHTED}
    checks = []
    for ours in (row for row in VARIANTS if row in rewards):
        checks.append(_highest(rewards, ours, column))
        for row, least in (("FIFO", LEAD), ("Tetris", 0.0)):
            lead = lead_percent(rewards[ours], rewards[row])
            wanted = f"at least {least} %" if least else "above 0"
            text = f"{column}: {ours} is {with_interval(lead, 2)} % above {row}, want all of the interval {wanted}"
            checks.append(Check(text, lead.low > 0 and lead.low >= least))
    for worse, better in ORDER:
        if worse in rewards and better in rewards:
            difference = paired_difference(rewards[better], rewards[worse])
            text = f"{column}: {better} less {worse} is {difference.mean:+,.1f} ± {difference.half_width:,.1f}"
            checks.append(Check(text, difference.low > 0))
    return checks


def _highest(rewards: Mapping[str, NDArray[np.float64]], ours: str, column: str) -> Check:
    mean = rewards[ours].mean()
    above = []
    for row in sorted(rewards, key=lambda row: -rewards[row].mean()):
        if rewards[row].mean() > mean:
            difference = paired_difference(rewards[row], rewards[ours])
            above.append(f"{row} by {difference.mean:,.1f} ± {difference.half_width:,.1f}")
    text = f"{column}: {ours} has the highest total reward of all online rows, {mean:,.1f}"
    return Check(f"{text}; above it: {', '.join(above) or 'none'}", not above)


def nearness_checks(study: Study, panel: Panel, metric: str) -> list[Check]:
    """Tell whether OSDEC, or one of our variants, is the best in every column or near to it.

    Parameters
    ----------
    study : Study
        What was measured.
    panel : Panel
        One of its panels.
    metric : str
        Of which more is better.

    Returns
    -------
    list of Check
        One a variant and column, about rows that do not know the future.
    """
    checks = []
    for ours in (row for row in VARIANTS if row in panel.rows):
        for column in panel.columns:
            values = {row: study.values(panel, column, row, metric) for row in panel.rows if row not in FORESIGHTED}
            mine = values.pop(ours)
            best = max(values, key=lambda row: values[row].mean())
            lead = lead_percent(mine, values[best])
            text = (
                f"{column}: {metric} of {ours} is {with_interval(lead, 2)} % above {best}, want at least -{NEAR:.0f} %"
            )
            checks.append(Check(text, lead.mean >= -NEAR))
    return checks


def bound_checks(study: Study) -> list[Check]:
    """Tell whether the bound of the optimum holds for every agent in every trajectory.

    Parameters
    ----------
    study : Study
        What was measured.

    Returns
    -------
    list of Check
        None where there is no optimum.
    """
    total = above = optima = proved = 0
    for (panel, column, row), outcomes in study.outcomes.items():
        best = study.outcomes.get((panel, column, OPTIMUM))
        if best is not None:
            bounds = np.array([outcome["bound"] for outcome in best])
            rewards = np.array([outcome["total_reward"] for outcome in outcomes])
            total += len(rewards)
            above += int((rewards > bounds + TOLERANCE * np.maximum(np.abs(bounds), 1.0)).sum())
        if row == OPTIMUM:
            optima += len(outcomes)
            proved += sum(outcome["proved"] for outcome in outcomes)
    if not optima:
        return []
    return [
        Check(f"{above} of {total} runs are above the bound of their trajectory", above == 0),
        Check(f"{proved} of {optima} optima are proved", proved == optima),
    ]
