"""Controls: every learned agent beside the rules in its own window, by waiting time and under three rewards."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from desim.cli.output import print_table
from desim.experiments.checks import print_checks
from desim.experiments.compare import with_interval
from desim.experiments.dbf import pictures
from desim.experiments.dbf.agents import CONTROLS, control
from desim.experiments.dbf.checks import beaten
from desim.experiments.dbf.options import Options
from desim.experiments.dbf.report import METRIC_WORDS, print_agents, print_end, print_header, print_missing, write_study
from desim.experiments.dbf.simulating import Choice, Setting
from desim.experiments.dbf.study import Panel, Study, carry_out
from desim.experiments.dbf.weights import SEED, SPLIT_WINDOW, Weights, find_weights
from desim.experiments.options import run_as_program
from desim.statistics import mean_interval, paired_difference

__all__ = ["Controls", "controls"]

COLUMN = "open"
RETURNS = ("return_paper", "return_scaled", "return_waiting")
SHOWN = ("waiting_time_mean", "queue_length_mean", "waiting_time_p99", *RETURNS)
RULES = {**CONTROLS, "first in the window": "first"}
QUICK_WINDOWS = ((9, 1), (16, 16))


@dataclass(frozen=True)
class Controls(Options):
    """What is learned beyond what the window itself brings.

    Attributes
    ----------
    windows : tuple of pairs of ints
        Slots at head and tail, for agents for all windows, and for the rules where nothing is trained; trained
        agents of one window are measured in it, whichever it is.
    """

    windows: tuple[tuple[int, int], ...] = (
        (10, 0),
        (20, 0),
        (9, 1),
        (19, 1),
        (4, 4),
        (5, 5),
        (8, 8),
        (10, 10),
        (16, 16),
        (32, 32),
    )


def controls(options: Controls) -> Study:
    """Run the experiment; print, write and draw its results.

    Parameters
    ----------
    options : Controls
        Windows, episodes, directories.

    Returns
    -------
    Study
        What was measured.
    """
    weights = find_weights(options.weights)
    panels = panels_of(weights, QUICK_WINDOWS if options.quick else options.windows)
    study = carry_out("Controls", panels, options, reference="shortest in the window")
    print_header(study)
    print_missing([] if any(one.agent == SPLIT_WINDOW for one in weights.values()) else ["all learned agents"])
    for panel in panels:
        print_agents(study, panel, COLUMN, SHOWN, title=panel.name, against=list(CONTROLS))
    _print_seeds(study)
    print_end(study)
    checks = [
        check
        for panel in panels
        for check in beaten(study, panel, COLUMN, _trained(panel), list(CONTROLS)[:2], metrics=SHOWN[:1])
    ]
    print_checks(checks)
    write_study(study, checks, (*SHOWN, "waiting_time_max", "num_cycles"))
    pictures.draw_controls(study, COLUMN, {panel.name: _trained(panel) for panel in panels}, list(CONTROLS))
    return study


def panels_of(weights: Mapping[str, Weights], windows: tuple[tuple[int, int], ...]) -> list[Panel]:
    """Return a panel for each window: the agents that are trained for it or for all, and the rules.

    Parameters
    ----------
    weights : mapping of str to Weights
        Of :func:`desim.experiments.dbf.weights.find_weights`; those for clusters of 256 cores count.
    windows : tuple of pairs of ints
        Beside those that something is trained for.

    Returns
    -------
    list of Panel
        By size and tail.
    """
    trained: dict[tuple[int, int], dict[str, Choice]] = {window: {} for window in windows}
    ours = {name: one for name, one in weights.items() if one.agent == SPLIT_WINDOW and name.startswith("lublin256")}
    general = [name for name in ours if SEED.sub("", name).endswith("-any")]
    for name, one in ours.items():
        if name not in general:
            trained.setdefault(one.window, {})[name] = one.choice()
    for window in trained:
        if window[1]:
            trained[window] |= {name: ours[name].choice(window) for name in general}
    found = []
    for head, tail in sorted(trained, key=lambda window: (sum(window), window[1])):
        rules = {row: control(rule, head, tail) for row, rule in RULES.items()}
        found.append(Panel(f"window {head}-{tail}", "episodes", {COLUMN: Setting()}, trained[head, tail] | rules))
    return found


def _trained(panel: Panel) -> list[str]:
    return [row for row in panel.rows if row not in RULES]


def _print_seeds(study: Study) -> None:
    """Print the means over the seeds of a training where there are several."""
    table = []
    for panel in study.panels:
        groups: dict[str, list[str]] = {}
        for row in _trained(panel):
            groups.setdefault(SEED.sub("", row), []).append(row)
        for name, rows in groups.items():
            if len(rows) < 2:
                continue
            waits = np.array([study.values(panel, COLUMN, row, SHOWN[0]) for row in rows])
            cells = [
                with_interval(mean_interval(waits.mean(0))),
                f"{waits.mean(1).min():,.0f} to {waits.mean(1).max():,.0f}",
            ]
            for other in CONTROLS:
                theirs = study.values(panel, COLUMN, other, SHOWN[0])
                cells.append(with_interval(paired_difference(waits.mean(0), theirs), 0))
            table.append([f"{panel.name}, {name}", str(len(rows)), *cells])
    if table:
        heads = ["", "seeds", METRIC_WORDS[SHOWN[0]], "means of seeds", *(f"less\n{other}" for other in CONTROLS)]
        print_table(heads, table, title="Several seeds of the same training")


if __name__ == "__main__":
    sys.exit(run_as_program(Controls, controls))
