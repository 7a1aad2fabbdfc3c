"""Jobs by type, that is by requested cores and run time: how many were placed, and how long they waited."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from desim import Result
from desim.experiments.dbf.playing import Played
from desim.experiments.dbf.simulating import play_block, valid
from desim.sweep import Run

__all__ = ["CORES", "TIMES", "WIDE", "WIDE_METRICS", "perform_by_type"]

CORES = tuple(2**power for power in range(9))
"""Most cores of a type: 1, 2, 4, ... 256."""
TIMES = (*(round(10 ** (exponent / 2)) for exponent in range(1, 11)), 200_000)
"""Most seconds of a type: half a decade each."""
WIDE = 128
"""Jobs with more cores than this are wide."""

WIDE_METRICS = ("wide_submitted", "wide_started", "wide_share", "wide_waiting_time_mean", "wide_waiting_time_max")
"""Of wide jobs: how many have arrived and have started, the share of these, and waiting times of all so far."""
BASIC = ("waiting_time_mean", "waiting_time_p99", "waiting_time_max")


def perform_by_type(run: Run) -> dict[str, Any]:
    """Simulate a run and measure jobs by type.

    Parameters
    ----------
    run : Run
        Of a :class:`~desim.experiments.dbf.simulating.Setting` and a :class:`~desim.experiments.run.Choice`.

    Returns
    -------
    dict
        ``placed`` and ``placed_waits``, nested lists of shape (types by cores, types by time), the jobs that were
        started in all episodes together and the sum of their waiting times in seconds; :data:`WIDE_METRICS` and waiting
        times of all jobs, a value for each episode; ``valid``, None if unchecked.
    """
    played = play_block(run)
    placed, waits = np.zeros((len(CORES), len(TIMES))), np.zeros((len(CORES), len(TIMES)))
    rows = []
    for one in played:
        counted, summed = by_type(one.result)
        placed, waits = placed + counted, waits + summed
        rows.append(_measure(one))
    return {
        **{name: [row[name] for row in rows] for name in rows[0]},
        "placed": placed.tolist(),
        "placed_waits": waits.tolist(),
        "valid": valid(played, check=run.setting.check),
    }


def by_type(result: Result) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the number of jobs that were started, and the sum of their waiting times in seconds, by type.

    Parameters
    ----------
    result : Result
        A run.

    Returns
    -------
    tuple of array of shape (types by cores, types by time)
        A job with more cores or a longer time than all types have counts with the largest.
    """
    cores, times, waits, started = _columns(result)
    row = np.minimum(np.searchsorted(CORES, cores[started]), len(CORES) - 1)
    column = np.minimum(np.searchsorted(TIMES, times[started]), len(TIMES) - 1)
    counted, summed = np.zeros((len(CORES), len(TIMES))), np.zeros((len(CORES), len(TIMES)))
    np.add.at(counted, (row, column), 1.0)
    np.add.at(summed, (row, column), waits[started])
    return counted, summed


def _columns(result: Result) -> tuple[Any, Any, Any, Any]:
    """Return cores, requested times, waiting times so far, and whether each job was started."""
    jobs = result.jobs
    start = jobs["starting_time"].cast(float).fill_null(np.nan).to_numpy()
    started = ~np.isnan(start)
    until = np.where(started, start, result.info["end_time"])
    cores = jobs["requested_number_of_resources"].to_numpy()
    return cores, jobs["requested_time"].to_numpy(), until - jobs["submission_time"].to_numpy(), started


def _measure(one: Played) -> dict[str, float | None]:
    cores, _, waits, started = _columns(one.result)
    wide = cores > WIDE
    metrics = one.result.metrics(unfinished="include")
    some = bool(wide.any())
    return {
        **{name: metrics[name] for name in BASIC},
        "wide_submitted": float(wide.sum()),
        "wide_started": float((wide & started).sum()),
        "wide_share": float(started[wide].mean()) if some else None,
        "wide_waiting_time_mean": float(waits[wide].mean()) if some else None,
        "wide_waiting_time_max": float(waits[wide].max()) if some else None,
    }
