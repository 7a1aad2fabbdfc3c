r"""Moldable jobs made from rigid ones by Downey's speedup model.

A program of average parallelism A, whose parallelism varies by :math:`\sigma`, runs :math:`S(n)` times as fast on
n cores as on one. For :math:`\sigma \le 1`

.. math:: S(n) = \frac{A n}{A + \sigma (n - 1) / 2} \text{ up to } A, \quad
   \frac{A n}{\sigma (A - 1/2) + n (1 - \sigma / 2)} \text{ up to } 2 A - 1, \quad A \text{ beyond},

and for :math:`\sigma \ge 1`

.. math:: S(n) = \frac{n A (\sigma + 1)}{\sigma (n + A - 1) + A} \text{ up to } A + A \sigma - \sigma,
   \quad A \text{ beyond}.

Downey, "A model for speedup of parallel programs", UC Berkeley technical report CSD-97-933, 1997.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from desim.checks import check_float, check_int
from desim.exceptions import InvalidConfiguration
from desim.problems.batch import Job, Size, Workload

__all__ = ["downey_speedup", "moldable"]


def downey_speedup(num_cores: float, parallelism: float, sigma: float) -> float:
    """Return the speedup of a program: how many times faster it runs than on one core.

    Parameters
    ----------
    num_cores : float
        Number of cores, >= 1.
    parallelism : float
        Average parallelism of the program, >= 1.
    sigma : float
        Variation of the parallelism, >= 0; at 0, the speedup is linear up to the average parallelism.

    Returns
    -------
    float
        Speedup, from 1 to the average parallelism.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range.
    """
    n, a = check_float("num_cores", num_cores, least=1), check_float("parallelism", parallelism, least=1)
    sigma = check_float("sigma", sigma, least=0)
    if sigma >= 1:
        return n * a * (sigma + 1) / (sigma * (n + a - 1) + a) if n <= a + a * sigma - sigma else a
    if n <= a:
        return a * n / (a + sigma * (n - 1) / 2)
    if n <= 2 * a - 1:
        return a * n / (sigma * (a - 0.5) + n * (1 - sigma / 2))
    return a


def moldable(
    jobs: Iterable[Job],
    num_cores: int,
    *,
    factors: Sequence[float] = (1.0, 0.25, 0.5, 2.0, 4.0),
    sigma: float = 1.0,
    parallelism: float = 4.0,
) -> Workload:
    """Return moldable jobs made from rigid ones.

    Parameters
    ----------
    jobs : iterable of Job
        Rigid jobs that request only cores.
    num_cores : int
        Number of cores of the cluster; no additional size is wider.
    factors : sequence of float
        Sizes as multiples of the requested cores, each > 0; sizes are rounded, and duplicates are dropped. The first
        is the size in which a job runs unless the agent chooses another.
    sigma : float
        Variation of the parallelism, see `downey_speedup`.
    parallelism : float
        Average parallelism of a job as a multiple of its requested cores, >= 1.

    Returns
    -------
    Workload
        Jobs with sizes; the speedup gives their run and requested times, relative to the requested cores.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range.
    """
    check_int("num_cores", num_cores, least=1)
    check_float("parallelism", parallelism, least=1)
    if not factors:
        raise InvalidConfiguration("factors: got an empty sequence, expected at least one number > 0")
    for factor in factors:
        check_float("factors", factor, above=0)
    workload = Workload.of(jobs)
    columns = (workload[name].tolist() for name in ("requested_cores", "requested_time", "run_time"))
    sizes = [
        _sizes(own, requested_time, run_time, num_cores, factors, sigma, parallelism)
        for own, requested_time, run_time in zip(*columns, strict=True)
    ]
    return workload.with_columns(
        requested_cores=[first.requested_cores for first, *_ in sizes],
        requested_time=[first.requested_time for first, *_ in sizes],
        run_time=[first.run_time for first, *_ in sizes],
        sizes=[further for _, *further in sizes],
    )


def _sizes(  # noqa: PLR0917
    own: int,
    requested_time: float,
    run_time: float,
    num_cores: int,
    factors: Sequence[float],
    sigma: float,
    parallelism: float,
) -> list[Size]:
    """Return the sizes of a job."""
    widths = dict.fromkeys(min(max(1, round(factor * own)), max(num_cores, own)) for factor in factors)
    speed = {width: downey_speedup(width, parallelism * own, sigma) for width in (*widths, own)}
    return [
        Size(width, requested_time * speed[own] / speed[width], run_time * speed[own] / speed[width])
        for width in widths
    ]
