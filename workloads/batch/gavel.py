"""Gavel's measured throughputs of training jobs on three GPU models: run times by model.

A job with a given run time on one model does the same number of training steps on another, so its run time there is
longer by the ratio of the speeds. The reader takes only the speeds of single jobs, with GPUs on one server or on
several, and skips those of pairs of jobs that share GPUs.

Reference: Narayanan, Santhanam, Kazhamiaka, Phanishayee and Zaharia, "Heterogeneity-aware cluster scheduling policies
for deep learning workloads", OSDI 2020.
"""

from __future__ import annotations

import ast
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from desim.exceptions import InvalidConfiguration, WorkloadError
from desim.workloads.files import Pathish
from desim.workloads.json_fields import read_object

__all__ = ["Throughputs", "read"]

_APART = "_unconsolidated"
_ALONE = "null"


@dataclass(frozen=True)
class Throughputs:
    """Training speeds of jobs that do not share their GPUs.

    Parameters
    ----------
    speeds : mapping of str to mapping of (str, int) to float
        Training steps per second, by GPU model, and then by kind of job and number of GPUs.
    apart : mapping of str to mapping of (str, int) to float
        The same for workers on different servers.
    """

    speeds: Mapping[str, Mapping[tuple[str, int], float]]
    apart: Mapping[str, Mapping[tuple[str, int], float]]

    @property
    def models(self) -> tuple[str, ...]:
        """GPU models, such as ``V100``."""
        return tuple(self.speeds)

    def kinds(self, gpus: int = 1) -> list[str]:
        """Return the kinds of jobs measured with a given number of GPUs, sorted."""
        return sorted({kind for speeds in self.speeds.values() for kind, number in speeds if number == gpus})

    def run_times(self, kind: str, gpus: int, seconds: float, *, on: str = "V100") -> dict[str, float]:
        """Return the run time of a job on each GPU model.

        Parameters
        ----------
        kind : str
            Kind of job, such as ``ResNet-50 (batch size 64)``.
        gpus : int
            Number of GPUs, all on one server.
        seconds : float
            Run time on the model `on`, in seconds.
        on : str
            GPU model of the given run time.

        Returns
        -------
        dict of str to float
            Run times in seconds, by model; models on which the job cannot run are left out.

        Raises
        ------
        InvalidConfiguration
            If the job was not measured, or does not run on the model `on`.

        Examples
        --------
        >>> measured = Throughputs({"V100": {("LM", 1): 30.0}, "K80": {("LM", 1): 6.0}}, {})
        >>> measured.run_times("LM", 1, 100.0)
        {'V100': 100.0, 'K80': 500.0}
        """
        if on not in self.speeds:
            raise InvalidConfiguration(f"on: got {on!r}, expected one of {', '.join(self.models)}")
        speed = self.speeds[on].get((kind, gpus), 0.0)
        if not speed:
            raise InvalidConfiguration(f"{kind} on {gpus} GPUs was not measured on {on}, or does not run there")
        found = {model: speeds.get((kind, gpus), 0.0) for model, speeds in self.speeds.items()}
        return {model: seconds * speed / other for model, other in found.items() if other}


def read(path: Pathish) -> Throughputs:
    """Read Gavel's measurements.

    Parameters
    ----------
    path : str or path-like
        Gavel's ``simulation_throughputs.json``, plain or gzip.

    Returns
    -------
    Throughputs
        Speeds by model; model names are in capitals.

    Raises
    ------
    WorkloadError
        If the file cannot be read or has another format; the message names the entry at fault.
    """
    source = os.fspath(path)
    document = read_object(path)
    if not document:
        raise WorkloadError(f"{source}: got an empty JSON object, expected one entry per GPU model")
    alone = {model: _alone(source, model, jobs) for model, jobs in document.items()}
    return Throughputs(
        {model.upper(): speeds for model, speeds in alone.items() if not model.endswith(_APART)},
        {model.removesuffix(_APART).upper(): speeds for model, speeds in alone.items() if model.endswith(_APART)},
    )


def _alone(source: str, model: str, jobs: Any) -> dict[tuple[str, int], float]:
    """Return the speeds of single jobs on one model."""
    speeds = {}
    if not isinstance(jobs, dict):
        raise WorkloadError(f"{source}: {model}: got {jobs!r}, expected a JSON object with one entry per kind of job")
    for name, measured in jobs.items():
        try:
            kind, gpus = ast.literal_eval(name)  # keys are pairs in Python syntax
            speed = float(measured[_ALONE])
            if not (isinstance(kind, str) and isinstance(gpus, int) and 0 <= speed < math.inf):
                raise ValueError
        except (ValueError, TypeError, KeyError, SyntaxError, MemoryError, RecursionError) as error:
            raise WorkloadError(
                f"{source}: {model}: {name}: expected a pair of kind of job and number of GPUs, with its speed alone"
            ) from error
        speeds[kind, gpus] = speed
    return speeds
