"""Max-min fair rates: no flow could go faster without slowing one down that is no faster.

Source: D. Bertsekas and R. Gallager, Data Networks, 2nd edition, 1992, section 6.5.2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

__all__ = ["fair_rates"]


def fair_rates(routes: Sequence[Sequence[int]], limits: Sequence[float], bandwidths: Sequence[float]) -> list[float]:
    """Return the max-min fair rates of flows, by progressive filling.

    All rates grow together; a flow stops at its limit or when one of its links is full.

    Parameters
    ----------
    routes : sequence of sequence of int
        The links that each flow takes, each link once.
    limits : sequence of float
        The most that each flow can make use of, in units of data per second, above 0; may be infinite.
    bandwidths : sequence of float
        Of each link, in units of data per second, above 0; may be infinite.

    Returns
    -------
    list of float
        The rate of each flow, in units of data per second, infinite if nothing limits it.

    Examples
    --------
    >>> fair_rates([[0], [0, 1], [1]], [math.inf] * 3, [10.0, 4.0])
    [8.0, 2.0, 2.0]
    """
    users: dict[int, list[int]] = {}
    for flow, route in enumerate(routes):
        for link in route:
            if bandwidths[link] < math.inf:
                users.setdefault(link, []).append(flow)
    left = {link: bandwidths[link] for link in users}
    counts = {link: len(flows) for link, flows in users.items()}
    by_limit = sorted(range(len(routes)), key=limits.__getitem__)
    rates: list[float | None] = [None] * len(routes)
    place = 0
    while True:
        while place < len(by_limit) and rates[by_limit[place]] is not None:
            place += 1
        if place == len(by_limit):
            return [rate for rate in rates if rate is not None]
        full, share = _fullest(left, counts)
        stopped = []
        while place < len(by_limit) and limits[by_limit[place]] <= share:
            stopped.append(by_limit[place])
            place += 1
        stopped = [flow for flow in stopped if rates[flow] is None] or [
            flow for flow in users[full] if rates[flow] is None
        ]
        for flow in stopped:
            rate = min(limits[flow], share)
            rates[flow] = rate
            for link in routes[flow]:
                if link in left:
                    left[link] -= rate
                    counts[link] -= 1


def _fullest(left: dict[int, float], counts: dict[int, int]) -> tuple[int, float]:
    """Return the link with the least bandwidth left for each flow that can still grow, and that bandwidth."""
    full, least = -1, math.inf
    for link, count in counts.items():
        if count and left[link] / count < least:
            full, least = link, left[link] / count
    return full, least
