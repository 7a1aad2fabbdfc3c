"""What the attention of learned agents goes to."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from desim.cli.output import print_table, print_text
from desim.experiments.compare import with_interval
from desim.experiments.options import run_as_program
from desim.experiments.osdec import learned_pictures
from desim.experiments.osdec.agents import OSDEC
from desim.experiments.osdec.attending import KINDS, Seen, metric_of, perform_attention, seen_by
from desim.experiments.osdec.options import Options
from desim.experiments.osdec.report import cells_of
from desim.experiments.osdec.study import Panel, Study, learned_panels, measured
from desim.experiments.results import print_heading, write_results

__all__ = ["Attention", "attention", "shown_decision"]

CASES = ("default", "fluctuating")
SHOWN_SEED, SHOWN_JOBS, SHOWN_TOKENS = 0, 5, 31


@dataclass(frozen=True)
class Attention(Options):
    """What a job looks at that may be started."""

    seeds: int = 20


def attention(options: Attention) -> Study:
    """Run the experiment; print, write and draw its results.

    Parameters
    ----------
    options : Attention
        Trajectories, directories.

    Returns
    -------
    Study
        What was measured.
    """
    panels = learned_panels(options, CASES, lambda config: config["network"] == "attention")
    if not panels:
        print_text("There are no weights with attention.")
        return Study("What attention looks at", options, (), "", {})
    study = measured("What attention looks at", options, panels, reference="", learned_by=perform_attention)
    print_heading(study, f"{len(options.seed_list)} trajectories, means with 95 % intervals")
    for panel in panels:
        for layer in range(1, _layers(study, panel) + 1):
            _print(study, panel, layer)
    cells = list(_rows(study))
    document = {"title": study.title, "options": asdict(options), "cells": cells}
    write_results(options.directory, document, cells)
    for panel in panels:
        _draw(study, panel)
    return study


def _layers(study: Study, panel: Panel) -> int:
    """Return how many layers the deepest network has."""
    outcomes = [study.outcomes[panel.name, panel.name, row][0] for row in panel.rows]
    return max(sum(name.endswith(f": {KINDS[0]}") for name in outcome) for outcome in outcomes)


def _print(study: Study, panel: Panel, layer: int) -> None:
    table = [
        [row, *(with_interval(study.estimate(panel, panel.name, row, metric_of(layer, kind))) for kind in KINDS)]
        for row in panel.rows
    ]
    title = f"{panel.name}, layer {layer}: attention of a job that may be started, 1 if it looked at all tokens alike"
    print_table(["", *KINDS], table, title=title)


def shown_decision(decisions: Sequence[Seen]) -> Seen | None:
    """Return a decision for a picture: the first with several jobs, some that fit, some that do not, and future ones.

    Parameters
    ----------
    decisions : sequence of Seen
        Of one trajectory.

    Returns
    -------
    Seen or None
        If there is none like that, the one with most jobs that may be started of those with few jobs in all, if
        possible with future ones; None if all have many.
    """
    few = [seen for seen in decisions if len(seen.cores) < SHOWN_TOKENS]
    for seen in few:
        if SHOWN_JOBS <= seen.num_current < len(seen.cores) and len(set(seen.fits)) > 1:
            return seen
    return max(few, key=lambda seen: (seen.num_current < len(seen.cores), seen.num_current), default=None)


def _draw(study: Study, panel: Panel) -> None:
    row = OSDEC if OSDEC in panel.rows else next(iter(panel.rows))
    choice = panel.rows[row].members[0]
    shown = shown_decision(seen_by(choice, study.options.fit(panel.columns[panel.name]), SHOWN_SEED))
    if shown is not None:
        learned_pictures.draw_attention(shown, row, study.options.directory / f"attention_{panel.name}.png")


def _rows(study: Study) -> Iterator[dict[str, Any]]:
    for panel in study.panels:
        for row, choice in panel.rows.items():
            for layer in range(1, _layers(study, panel) + 1):
                for kind in KINDS:
                    yield {
                        "workload": panel.name,
                        "agent": row,
                        "weights": "; ".join(dict(choice.parameters)["weights"]),
                        "layer": layer,
                        "kind": kind,
                        "num_trajectories": len(study.options.seed_list),
                        **cells_of(study, panel, panel.name, row, metric_of(layer, kind)),
                    }


if __name__ == "__main__":
    sys.exit(run_as_program(Attention, attention))
