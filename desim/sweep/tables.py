"""Tables of a comparison, and its main results in sentences, for the terminal, notebooks and pages alike."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from desim.formatting import MARK, compared, heading
from desim.reprs import Cell, Table, html_rows, text_table
from desim.statistics import LEVEL, Interval, Ranking, smallest_p_value

if TYPE_CHECKING:
    from rich.console import Console

    from desim.sweep.comparison import Comparison, Criterion

__all__ = ["as_html", "as_text", "cell", "sentences", "tables"]

SIGNIFICANT = 1.0 - LEVEL
#: End of the text of cells that stand out.
BEST = " *"
#: Ratios to the best, in the table of performance profiles.
RATIOS = (1.0, 1.05, 1.1, 1.5, 2.0)
#: Longest line of a column heading, in characters.
LONGEST_LINE = 18


def tables(comparison: Comparison) -> list[Table]:
    """Return the tables of means, differences, tests, ranks and performance profiles, as far as available.

    Parameters
    ----------
    comparison : Comparison
        Comparison to present.

    Returns
    -------
    list of Table
        The tables in this order.
    """
    found = [_means(comparison)]
    if comparison.differences:
        found.append(_differences(comparison))
    if any(comparison.tests.values()) and not _too_few(comparison):
        found.append(_tests(comparison))
    if comparison.ranking is not None:
        found.append(_ranks(comparison, comparison.ranking))
    if comparison.profile is not None:
        found.append(_profiles(comparison))
    return [replace(one, rows=[list(map(_marked, row)) for row in one.cells]) for one in found]


def _marked(cell: Cell) -> str | Cell:
    return replace(cell, bold=True) if cell.text.endswith(BEST) else cell.text


def as_text(comparison: Comparison, screen: Console | None = None) -> str:
    """Return the tables of a comparison as text, and a warning if runs left jobs unfinished.

    Parameters
    ----------
    comparison : Comparison
        Comparison to present.
    screen : Console, optional
        Where the text is to be shown; default: in a file.

    Returns
    -------
    str
        Lines, each with its end.
    """
    notes = (f"{note}\n" for note in _notes(comparison))
    return "".join([*(f"{text_table(one, screen)}\n" for one in tables(comparison)), *notes])


def as_html(comparison: Comparison) -> str:
    """Return the tables and the main results in sentences, for notebooks."""
    found = [
        html_rows(table.title, table.heads, [[cell.text for cell in row] for row in table.cells], table.note)
        for table in tables(comparison)
    ]
    return "".join([*found, html_rows("", [], [], " ".join(sentences(comparison)))])


def sentences(comparison: Comparison) -> list[str]:
    """Return the main results in sentences, for a report.

    Parameters
    ----------
    comparison : Comparison
        Comparison to describe.

    Returns
    -------
    list of str
        Paragraphs; for a single seed or window, at most warnings.
    """
    notes = _notes(comparison) + comparison.unequal
    count = len(comparison.seeds)
    if count < 2:
        return notes
    pair = comparison.pair
    same = "" if comparison.unequal else f"; all agents had the same workload for each {pair}"
    notes.append(
        f"The metrics are means over {count} {pair}s{same}. The tables of runs and jobs, and the figures of single "
        f"runs, are those of {pair} {comparison.seeds[0]}."
    )
    if comparison.criterion is not None:
        notes.append(_verdict(comparison, comparison.criterion))
    return notes


def cell(comparison: Comparison, name: str, agent: str) -> str:
    """Return the mean of a metric as text, marked if it is the best or omits unfinished jobs.

    Parameters
    ----------
    comparison : Comparison
        Comparison that contains the metric.
    name : str
        Name of the metric.
    agent : str
        Name of the agent.

    Returns
    -------
    str
        Mean, with its interval if there are several seeds or windows.
    """
    return f"{_text(comparison, comparison.means[agent][name])}{_marks(comparison, name)[agent]}"


def _notes(comparison: Comparison) -> list[str]:
    """Return what readers of the tables are to know."""
    return [note for note in (_unfinished_note(comparison), comparison.dependence, comparison.no_profile) if note]


def _unfinished_note(comparison: Comparison) -> str:
    if not comparison.unfinished:
        return ""
    *first, last = comparison.kind.words.left_behind
    kinds = f"{', '.join(first)} or {last}" if first else last
    return (
        f"{MARK} Runs of {', '.join(comparison.unfinished)} left jobs unfinished ({kinds}), which "
        f"{comparison.kind.words.blind} do not count: these values are not comparable."
    )


def _heads(comparison: Comparison) -> list[str]:
    return ["agent", *(_in_lines(heading(name, comparison.kind)) for name in comparison.shown)]


def _in_lines(text: str) -> str:
    """Break a long heading into lines."""
    return text.replace(", ", ",\n") if ", " in text or len(text) <= LONGEST_LINE else text.replace(" (", "\n(")


def _means(comparison: Comparison) -> Table:
    count = len(comparison.seeds)
    spread = "± half width of the 95 % confidence interval"
    if comparison.interval == "bootstrap":
        spread = "and 95 % confidence interval, by the bootstrap"
    many = f"means over {count} {comparison.pair}s {spread}" if count > 1 else "one run each"
    marks = {name: _marks(comparison, name) for name in comparison.shown}
    rows = [
        [agent, *(f"{_text(comparison, means[name])}{marks[name][agent]}" for name in comparison.shown)]
        for agent, means in comparison.means.items()
    ]
    return Table(f"Metrics: {many}; * best", _heads(comparison), rows)


def _marks(comparison: Comparison, name: str) -> dict[str, str]:
    """Return the marks of a metric by agent: the best mean, and means that omit unfinished jobs."""
    cells = compared(name, comparison.mean_table, comparison.unfinished, comparison.kind)
    return {
        agent: BEST if best else f" {MARK}" if text.endswith(MARK) else ""
        for agent, (text, best) in zip(comparison.means, cells, strict=True)
    }


def _differences(comparison: Comparison) -> Table:
    note = f", paired by {comparison.pair}; in brackets if the interval contains 0" if len(comparison.seeds) > 1 else ""
    rows = [
        [agent, *(_difference(comparison, agent, name) for name in comparison.shown)]
        for agent in comparison.differences
    ]
    title = f"Difference from {comparison.baseline}{note}"
    return Table(title, _heads(comparison), rows, note=_too_few(comparison))


def _difference(comparison: Comparison, agent: str, name: str) -> str:
    difference = comparison.differences[agent][name]
    scale = comparison.means[comparison.baseline][name].value or difference.value
    text = _text(comparison, difference, _decimals(scale), sign="+")
    is_apart = difference.low > 0 or difference.high < 0
    return f"({text})" if len(comparison.seeds) > 1 and not is_apart else text


def _decimals(value: float) -> int:
    """Return the number of decimals that shows four significant digits."""
    return max(0, 3 - math.floor(math.log10(abs(value)))) if math.isfinite(value) and value else 0


def _text(comparison: Comparison, found: Interval, decimals: int | None = None, sign: str = "") -> str:
    if not math.isfinite(found.value):
        return "n/a"
    digits = _decimals(found.value) if decimals is None else decimals
    text = f"{found.value:{sign},.{digits}f}"
    if math.isnan(found.low):
        return text
    if comparison.interval == "bootstrap":
        return f"{text} [{found.low:{sign},.{digits}f}, {found.high:{sign},.{digits}f}]"
    return f"{text} ± {found.high - found.value:,.{digits}f}"


def _tests(comparison: Comparison) -> Table:
    title = (
        f"Tests against {comparison.baseline}: p-values of Wilcoxon's signed-rank test, adjusted by Holm's method for "
        f"the number of agents; * below {SIGNIFICANT:.2f}"
    )
    rows = [
        [agent, *(_p_cell(comparison, name, agent) for name in comparison.shown)] for agent in comparison.differences
    ]
    return Table(title, _heads(comparison), rows)


def _p_cell(comparison: Comparison, name: str, agent: str) -> str:
    test = comparison.tests[name].get(agent)
    return "n/a" if test is None else f"{_p_value(test.adjusted)}{' *' if test.adjusted < SIGNIFICANT else ''}"


def _p_value(value: float, equals: str = "") -> str:
    return "< 0.001" if value < 0.001 else f"{equals}{value:.3f}"


def _too_few(comparison: Comparison) -> str:
    """Return a note if no difference could be significant with this number of seeds or windows."""
    count, others, pairs = len(comparison.seeds), len(comparison.differences), f"{comparison.pair}s"
    least = min(others * smallest_p_value(count), 1.0)
    if least < SIGNIFICANT or count < 2:
        return ""
    enough = next(number for number in range(count, 64) if others * smallest_p_value(number) < SIGNIFICANT)
    return (
        f"{count} {pairs} are too few for Wilcoxon's signed-rank test{f' of {others} agents' if others > 1 else ''}: "
        f"whatever the differences, no adjusted p-value is below {least:.3f}. Use at least {enough} {pairs}."
    )


def _ranks(comparison: Comparison, ranking: Ranking) -> Table:
    assert comparison.criterion is not None
    title = f"Ranks by {_by(comparison, comparison.criterion)}: means over {ranking.num_scenarios} {comparison.pair}s"
    letters = _letters(ranking)
    rows = [[agent, f"{rank:.2f}", letters[agent]] for agent, rank in ranking.mean_ranks.items()]
    note = (
        f"Agents that share a letter do not differ significantly: their mean ranks differ by less than "
        f"{ranking.critical_difference:.2f} (Nemenyi, 95 %). Friedman's test that all agents are equal: p "
        f"{_p_value(ranking.p_value, '= ')}."
    )
    left_out = "; ".join(f"{agent} {reason}" for agent, reason in comparison.left_out.items())
    note = f"{note} Not ranked: {left_out}." if left_out else note
    return Table(title, ["agent", "mean rank", "group"], rows, words=(2,), note=note)


def _letters(ranking: Ranking) -> dict[str, str]:
    """Return letters by agent: agents that do not differ significantly share one."""
    grouped = ranking.groups()
    alone = [(agent,) for agent in ranking.mean_ranks if not any(agent in group for group in grouped)]
    places = list(ranking.mean_ranks)
    ordered = sorted([*grouped, *alone], key=lambda group: places.index(group[0]))
    return {
        agent: "".join(_letter(number) for number, group in enumerate(ordered) if agent in group) for agent in places
    }


def _letter(number: int) -> str:
    return chr(ord("a") + number) if number < 26 else f"({number})"


def _profiles(comparison: Comparison) -> Table:
    assert comparison.profile is not None and comparison.criterion is not None
    profile = comparison.profile
    places = [int((profile.ratios <= ratio).sum()) - 1 for ratio in RATIOS]
    rows = [[agent, *(f"{100 * shares[place]:.0f} %" for place in places)] for agent, shares in profile.shares.items()]
    title = (
        f"Performance profiles by {_by(comparison, comparison.criterion)}: share of the {comparison.pair}s in which an "
        "agent is the best, or within a given distance of the best"
    )
    heads = ["agent", "the best", *(f"within\n{100 * (ratio - 1):.0f} %" for ratio in RATIOS[1:])]
    return Table(title, heads, rows)


def _by(comparison: Comparison, criterion: Criterion) -> str:
    return f"{heading(criterion.metric, comparison.kind)}, {criterion.better} is better"


def _verdict(comparison: Comparison, criterion: Criterion) -> str:
    """Return a sentence on the best agent and on those that differ from the baseline."""
    name = criterion.metric
    text = f"By {_by(comparison, criterion)}: "
    if (best := comparison.best) is not None:
        text += f"{best} has the best mean, {_text(comparison, comparison.means[best][name])}. "
    if _too_few(comparison):
        return f"{text}{_too_few(comparison)}"
    tests = {agent: test for agent, test in comparison.tests.get(name, {}).items() if agent not in comparison.left_out}
    sign = -1.0 if criterion.better == "lower" else 1.0
    clear = {agent: test for agent, test in tests.items() if test.adjusted < SIGNIFICANT}
    groups = {
        "better": [agent for agent, test in clear.items() if sign * test.difference > 0],
        "worse": [agent for agent, test in clear.items() if sign * test.difference < 0],
        "not significantly different": [agent for agent in tests if agent not in clear],
    }
    parts = [f"{words} {_are(agents)}" for words, agents in groups.items() if agents]
    return f"{text}Against {comparison.baseline}: {'; '.join(parts)} (Wilcoxon, Holm, 5 %)." if parts else text.strip()


def _are(names: list[str]) -> str:
    return f"{'is' if len(names) == 1 else 'are'} {', '.join(names)}"
