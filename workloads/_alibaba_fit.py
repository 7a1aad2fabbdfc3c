"""The constants of `desim.workloads._alibaba_model`, computed from the published files.

``python -m desim.workloads._alibaba_fit DIRECTORY`` prints them; the directory holds ``pai_machine_spec.csv`` of
cluster-trace-gpu-v2020 and ``openb_pod_list_default.csv`` of cluster-trace-gpu-v2023, both from
https://github.com/alibaba/clusterdata and the data repository it names.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from desim.exceptions import WorkloadError
from desim.workloads import alibaba
from desim.workloads._alibaba_model import LEVELS, MachineShape, PodClass

if TYPE_CHECKING:
    import polars as pl

__all__ = ["fit_machines", "fit_requests"]

Floats = NDArray[np.float64]

MACHINES, PODS = "pai_machine_spec.csv", "openb_pod_list_default.csv"


def fit_machines(frame: pl.DataFrame) -> tuple[MachineShape, ...]:
    """Count the shapes of machines.

    Parameters
    ----------
    frame : polars.DataFrame
        As `desim.workloads.alibaba.machines` returns it, without nulls in ``cpu``, ``memory`` and ``gpu``.

    Returns
    -------
    tuple of MachineShape
        The most frequent shape first; of equally frequent ones, the smallest.
    """
    shapes = Counter(frame.select("cpu", "memory", "gpu").iter_rows())
    ordered = sorted(shapes.items(), key=lambda item: (-item[1], item[0]))
    return tuple(MachineShape(cpu, memory, gpu, count) for (cpu, memory, gpu), count in ordered)


def fit_requests(frame: pl.DataFrame) -> tuple[PodClass, ...]:
    """Fit the model of requests.

    Parameters
    ----------
    frame : polars.DataFrame
        As `desim.workloads.alibaba.requests` returns it, without nulls in ``cpu``, ``memory`` and ``gpu``.

    Returns
    -------
    tuple of PodClass
        Pods without GPU, with a part of one, with a whole one, with several. Cores and GiB are rounded to thousandths,
        correlations to hundredths, parts of a GPU to tenths.

    Raises
    ------
    WorkloadError
        If a class has fewer than two pods.
    """
    gpus, cores, memory = (frame[column].to_numpy().astype(np.float64) for column in ("gpu", "cpu", "memory"))
    members = {
        "no GPU": gpus == 0,
        "a part of a GPU": (gpus > 0) & (gpus < 1),
        "one GPU": gpus == 1,
        "several GPUs": gpus > 1,
    }
    for name, rows in members.items():
        if rows.sum() < 2:
            raise WorkloadError(f"{rows.sum()} requests ask for {name}, want at least 2")
    each = np.maximum(gpus, 1.0)
    return tuple(_fit_class(gpus[rows], (cores / each)[rows], (memory / each)[rows]) for rows in members.values())


def _fit_class(gpus: Floats, cores: Floats, memory: Floats) -> PodClass:
    # Python's floats, so that the numbers print as they are written in the model
    rounded = Counter(round(amount, 1) for amount in gpus.tolist())
    return PodClass(
        gpus=tuple(sorted(rounded.items())),
        cores=_quantiles(cores),
        memory=_quantiles(memory),
        correlations=(_correlation(gpus, cores), _correlation(gpus, memory), _correlation(cores, memory)),
    )


def _quantiles(values: Floats) -> tuple[float, ...]:
    # Values that occur, so that one that fills more than a tenth of the class keeps its weight
    found = np.quantile(values, LEVELS, method="inverted_cdf")
    return tuple(round(value, 3) for value in found.tolist())


def _correlation(first: Floats, second: Floats) -> float:
    """Return the correlation of normal scores that gives two variables their rank correlation."""
    from scipy.stats import rankdata

    if np.ptp(first) == 0 or np.ptp(second) == 0:
        return 0.0
    of_ranks = np.corrcoef(rankdata(first), rankdata(second))[0, 1]
    return round(float(2 * np.sin(np.pi / 6 * of_ranks)), 2)


def _main(directory: str) -> None:
    shapes = fit_machines(alibaba.machines(Path(directory) / MACHINES))
    classes = fit_requests(alibaba.requests(Path(directory) / PODS))
    for name, rows in (("MACHINE_SHAPES", shapes), ("POD_CLASSES", classes)):
        lines = "".join(f"    {row!r},\n" for row in rows)
        sys.stdout.write(f"{name} = (\n{lines})\n")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m desim.workloads._alibaba_fit DIRECTORY")
    _main(sys.argv[1])
