"""One colour a job, such that neighbours in a Gantt chart differ."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from desim.plotting._style import JOB_COLORS

if TYPE_CHECKING:
    import polars as pl

__all__ = ["neighbour_colors"]

#: Above this number of executions colours go round in the order of the jobs, which is faster.
MOST_EXECUTIONS = 30_000


def neighbour_colors(executions: pl.DataFrame, ranges: pl.DataFrame, num_cores: int) -> NDArray[np.int64]:
    """Choose a colour for each job that no neighbour has, as far as the palette allows.

    Jobs are coloured greedily by start. Neighbours are the jobs that had a job's cores right
    before it and those that hold the core below or above at its start. If they use up the
    palette, the colour that they have on the fewest cores is taken.

    Parameters
    ----------
    executions : polars.DataFrame
        n executions by start, with ``job_id`` and ``submission_time``, which tell the job.
    ranges : polars.DataFrame
        Ranges of core ids: ``row`` (index of the execution, ascending), ``first`` and ``last``.
    num_cores : int
        No core id is this large.

    Returns
    -------
    array of int, shape (n,)
        Indices into :data:`desim.plotting._style.JOB_COLORS`; equal for executions of one job.
    """
    import polars as pl

    key = executions.select(pl.struct("job_id", "submission_time").rank("dense").cast(pl.Int64) - 1).to_series()
    keys = key.to_numpy()
    if len(keys) > MOST_EXECUTIONS:
        return np.asarray(keys % len(JOB_COLORS), dtype=np.int64)
    chosen = [-1] * (int(keys.max()) + 1 if len(keys) else 0)
    # colours by core; index 0 stands for "none yet", and a frame of one core on either side saves case distinctions
    held = np.zeros(num_cores + 2, dtype=np.int64)
    firsts, lasts = ranges["first"].to_numpy(), ranges["last"].to_numpy()
    bounds = np.searchsorted(ranges["row"].to_numpy(), np.arange(len(keys) + 1)).tolist()
    previous = 0
    for index, job in enumerate(keys.tolist()):
        pieces = list(
            zip(firsts[slice(*bounds[index : index + 2])], lasts[slice(*bounds[index : index + 2])], strict=True)
        )
        if chosen[job] < 0:
            contact = sum(np.bincount(held[a : b + 3], minlength=len(JOB_COLORS) + 1) for a, b in pieces)
            chosen[job] = previous = _rarest(contact, previous)
        for a, b in pieces:
            held[a + 1 : b + 2] = chosen[job] + 1
    return np.asarray([chosen[job] for job in keys.tolist()], dtype=np.int64)


def _rarest(contact: NDArray[np.int64] | int, previous: int) -> int:
    """Return the colour of least contact; of several, the next one after the colour chosen last."""
    colors = len(JOB_COLORS)
    counts = np.zeros(colors, dtype=np.int64) if isinstance(contact, int) else contact[1:]
    order = (previous + 1 + np.arange(colors)) % colors
    return int(order[np.argmin(counts[order])])
