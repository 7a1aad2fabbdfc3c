"""Rule on links that transfers share: what they carry in any stretch of time is at most what they can."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from desim.validation.dag_tables import DagRun
from desim.validation.report import Findings

__all__ = ["check_links"]

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]

#: Part by which a link may carry more: rates are recomputed whenever a transfer begins or ends, which rounds.
RELATIVE = 1e-6


def check_links(run: DagRun, findings: Findings) -> None:
    """Check each link from the begin of each stretch of time in which it is in use.

    When the rates change is not recorded, but a transfer uses its links only between its own begin and arrival: those
    that have arrived at some time are at most what the link has carried since the stretch began.

    Parameters
    ----------
    run : DagRun
        The run, with shared links.
    findings : Findings
        Takes the violations.
    """
    links: Mapping[str, Any] = run.info["links"]
    transfers = run.transfers
    uses: list[list[int]] = [[] for _ in links["bandwidths"]]
    pairs = transfers["source"] * run.graph.num_executors + transfers["destination"]
    order = np.argsort(pairs, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(pairs[order])) + 1):
        source, destination = (int(transfers[name][rows[0]]) if len(rows) else 0 for name in ("source", "destination"))
        for link in links["routes"][source][destination] if source != destination else ():
            uses[link].extend(rows.tolist())
    messages = []
    for name, bandwidth, used in zip(links["names"], links["bandwidths"], uses, strict=True):
        if bandwidth is not None and used:
            messages += _overloads(run, name, bandwidth, np.array(used))
    findings.note("links", len(pairs), messages)


def _overloads(run: DagRun, name: str, bandwidth: float, rows: Whole) -> list[str]:
    begin, arrival, size = (run.transfers[column][rows] for column in ("starting_time", "arrival_time", "size"))
    order = np.argsort(begin, kind="stable")
    rows, begin, arrival, size = rows[order], begin[order], arrival[order], size[order]
    free = np.ones(len(rows), dtype=np.bool_)
    free[1:] = begin[1:] > np.maximum.accumulate(arrival)[:-1]
    stretch = np.cumsum(free) - 1
    since = begin[free][stretch]
    order = np.lexsort((arrival, stretch))
    total = np.cumsum(size[order])
    before = np.append(0.0, total)[np.flatnonzero(free)]  # a stretch has the same places in both orders
    carried = total - before[stretch[order]]
    room = bandwidth * (arrival - since)[order]
    changes = np.arange(len(order)) - np.flatnonzero(free)[stretch[order]] + 1  # of the rates; the clock rounds each
    rounding = bandwidth * 4.0 * changes * np.spacing(arrival[order])
    wrong = np.flatnonzero(carried > room + RELATIVE * total + rounding)
    return [
        f"link {name} has carried {carried[place]} from {since[order[place]]} s to {arrival[order[place]]} s, at most "
        f"{room[place]} is possible; {run.transfer_text(int(rows[order[place]]))}"
        for place in wrong.tolist()
    ]
