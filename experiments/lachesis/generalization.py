"""Learned agents where they were not trained: other jobs, executor counts and transfers, and measured data."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from desim.exceptions import InvalidConfiguration
from desim.experiments.lachesis import pictures
from desim.experiments.lachesis.agents import (
    IDLE_ROWS,
    LACHESIS_COMPLETION,
    LEARNED,
    OWN_ROWS,
    PAPER_ROWS,
    REFERENCE,
)
from desim.experiments.lachesis.general_settings import (
    ALIBABA,
    GENERATED,
    MEASURED,
    QUERIES,
    RANDOM,
    WORKFLOW,
    GeneralSetting,
    perform_general,
)
from desim.experiments.lachesis.options import Options
from desim.experiments.lachesis.report import print_objectives, write_study
from desim.experiments.lachesis.study import Panel, Study, carry_out
from desim.experiments.options import run_as_program

__all__ = ["Generalization", "generalization"]

SHORT = {GENERATED: "generated", QUERIES: "TPC-H", ALIBABA: "Alibaba", WORKFLOW: "Montage", RANDOM: "random"}
#: A workflow has 58 tasks.
WORKFLOW_JOBS = 10


@dataclass(frozen=True)
class Generalization(Options):
    """What agents that were trained on generated queries do with other jobs and clusters.

    Attributes
    ----------
    data : Path or None
        Directory with ``tpch``, ``alibaba`` and ``workflows``; without, jobs are generated only.
    num_jobs : int
        Jobs of a run.
    executors : tuple of int
        Numbers of executors; the agents were trained with 10.
    ratios : tuple of float
        Communication-to-computation ratios.
    """

    data: Path | None = None
    num_jobs: int = 30
    executors: tuple[int, ...] = (3, 5, 20, 40)
    ratios: tuple[float, ...] = (0.0, 0.2, 3.0, 8.0)


def generalization(options: Generalization) -> Study:
    """Run the experiment; print, write and draw its results.

    Parameters
    ----------
    options : Generalization
        Data, sizes, seeds, directories.

    Returns
    -------
    Study
        What was measured.

    Raises
    ------
    InvalidConfiguration
        If there is no such directory.
    """
    if options.data is not None and not options.data.is_dir():
        raise InvalidConfiguration(f"data is {str(options.data)!r}, want a directory")
    rows = LEARNED | PAPER_ROWS | IDLE_ROWS | OWN_ROWS
    data = "" if options.data is None else str(options.data.resolve())
    kinds = [GENERATED, RANDOM, *(MEASURED if data else ())]
    panels = (
        Panel("jobs", "jobs", {SHORT[kind]: _setting(options, kind, data) for kind in kinds}, rows),
        Panel(
            "executors",
            "executors",
            {str(count): GeneralSetting(num_jobs=options.num_jobs, num_executors=count) for count in options.executors},
            rows,
        ),
        Panel(
            "transfers",
            "CCR",
            {f"{x:g}": GeneralSetting(num_jobs=options.num_jobs, ccr=x) for x in options.ratios},
            rows,
        ),
    )
    study = carry_out("Generalization", panels, options, reference=REFERENCE, by=perform_general)
    metrics = ("makespan", "turnaround_time_mean")
    print_objectives(study, LACHESIS_COMPLETION)
    write_study(study)
    pictures.draw(study, (*metrics, "gap_to_lower_bound"))
    return study


def _setting(options: Generalization, kind: str, data: str) -> GeneralSetting:
    count = min(options.num_jobs, WORKFLOW_JOBS) if kind == WORKFLOW else options.num_jobs
    return GeneralSetting(kind, count, data=data if kind in MEASURED else "")


if __name__ == "__main__":
    sys.exit(run_as_program(Generalization, generalization))
