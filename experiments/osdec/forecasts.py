"""What the auxiliary module predicts of the next slot, against forecasts that need no training."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from desim.cli.output import print_table, print_text
from desim.experiments.checks import Check, print_checks
from desim.experiments.compare import with_interval
from desim.experiments.options import run_as_program
from desim.experiments.osdec import learned_pictures
from desim.experiments.osdec.forecasting import MEASURES, MODULE, metric_of, perform_forecasts, sources_of
from desim.experiments.osdec.options import Options
from desim.experiments.osdec.report import cells_of, print_deviations
from desim.experiments.osdec.study import Panel, Study, learned_panels, measured
from desim.experiments.results import print_heading, write_results
from desim.statistics import Estimate, paired_difference

__all__ = ["Forecasts", "forecast_checks", "forecasts"]

CASES = ("default", "fluctuating")
TASK_WORDS = {
    "capacity": "capacity, cores",
    "mean_cores": "mean cores of the jobs that can be started",
    "mean_duration": "their mean duration, a quarter of the logarithm of 1 + slots",
    "violation": "violation, cores",
}
"""What is predicted of the next slot."""


@dataclass(frozen=True)
class Forecasts(Options):
    """How well learned agents know what comes, on trajectories that they were not trained on."""


def forecasts(options: Forecasts) -> Study:
    """Run the experiment; print, write and draw its results.

    Parameters
    ----------
    options : Forecasts
        Trajectories, directories.

    Returns
    -------
    Study
        What was measured.
    """
    panels = learned_panels(options, CASES, lambda config: config["auxiliary"] != "none")
    if not panels:
        print_text("There are no weights with an auxiliary module.")
        return Study("Forecasts of the next slot", options, (), "", {})
    study = measured("Forecasts of the next slot", options, panels, reference="", learned_by=perform_forecasts)
    print_heading(study, f"{len(options.seed_list)} trajectories, means with 95 % intervals")
    for panel in panels:
        _print(study, panel)
    _print_deviations(study)
    checks = [] if options.is_reduced else [check for panel in panels for check in forecast_checks(study, panel)]
    print_checks(checks)
    cells = list(_rows(study))
    document = {
        "title": study.title,
        "options": asdict(options),
        "checks": [asdict(check) for check in checks],
        "cells": cells,
    }
    write_results(options.directory, document, cells)
    learned_pictures.draw_forecasts(study, options.directory / "forecasts.png")
    return study


def forecast_checks(study: Study, panel: Panel) -> list[Check]:
    """Tell whether the module is nearer to the next capacity than all other forecasts, paired by trajectory.

    Parameters
    ----------
    study : Study
        What was measured.
    panel : Panel
        One of its panels, named like its column.

    Returns
    -------
    list of Check
        One for each learned row and measure; it holds if all intervals are below 0.
    """
    checks = []
    for row in panel.rows:
        for measure in MEASURES:
            found = {
                source: _behind(study, panel, row, ("capacity", source, measure)) for source in _others("capacity")
            }
            ours = study.estimate(panel, panel.name, row, metric_of("capacity", MODULE, measure))
            words = "; ".join(f"{source} {with_interval(estimate, 3)}" for source, estimate in found.items())
            text = (
                f"{panel.name}: {measure} of the capacity by the module of {row}: {ours.mean:.3f} cores; less that of "
            )
            checks.append(Check(text + words, all(estimate.high < 0 for estimate in found.values())))
    return checks


def _others(task: str) -> tuple[str, ...]:
    return sources_of(task)[1:]


def _behind(study: Study, panel: Panel, row: str, named: tuple[str, str, str]) -> Estimate:
    """Return the module's error less that of a source: below 0 where the module is better."""
    task, source, measure = named
    values = (study.values(panel, panel.name, row, metric_of(task, name, measure)) for name in (MODULE, source))
    return paired_difference(*values)


def _print(study: Study, panel: Panel) -> None:
    for task, words in TASK_WORDS.items():
        table = []
        for row in panel.rows:
            for measure in MEASURES:
                names = {source: metric_of(task, source, measure) for source in sources_of(task)}
                found = {source: study.estimate(panel, panel.name, row, name) for source, name in names.items()}
                best = min(_others(task), key=lambda source: found[source].mean)
                lead = with_interval(_behind(study, panel, row, (task, best, measure)), 3)
                table.append([row, measure, *map(with_interval, found.values()), lead])
        heads = ["", "", *sources_of(task), "less the best\nof the others"]
        print_table(heads, table, words=(1,), title=f"{panel.name}: {words}")


def _print_deviations(study: Study) -> None:
    cells = [
        (f"{measure},\n{panel.name}", panel, panel.name, metric_of("capacity", MODULE, measure))
        for panel in study.panels
        for measure in MEASURES
    ]
    print_deviations(study, cells, of="the module's error of the capacity")


def _rows(study: Study) -> Iterator[dict[str, Any]]:
    for panel in study.panels:
        for row, choice in panel.rows.items():
            for task in TASK_WORDS:
                for source in sources_of(task):
                    for measure in MEASURES:
                        yield {
                            "workload": panel.name,
                            "agent": row,
                            "weights": "; ".join(dict(choice.parameters)["weights"]),
                            "task": task,
                            "source": source,
                            "measure": measure,
                            "num_trajectories": len(study.options.seed_list),
                            **cells_of(study, panel, panel.name, row, metric_of(task, source, measure)),
                        }


if __name__ == "__main__":
    sys.exit(run_as_program(Forecasts, forecasts))
