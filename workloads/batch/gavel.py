"""Gavel's measured throughputs of training jobs on three models of GPUs: run times by model.

A job of so many seconds on one model takes the same number of training steps on another one, and so as much longer as
it is slower there. Speeds alone are read, on GPUs of one server and of several; those of pairs of jobs that share GPUs
are not.

Reference: Narayanan, Santhanam, Kazhamiaka, Phanishayee and Zaharia, "Heterogeneity-aware cluster scheduling policies
for deep learning workloads", OSDI 2020.
"""

from __future__ import annotations

import ast
import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from desim.exceptions import InvalidConfiguration, WorkloadError
from desim.workloads.files import Pathish, read_bytes

__all__ = ["Throughputs", "read"]

_APART = "_unconsolidated"
_ALONE = "null"


@dataclass(frozen=True)
class Throughputs:
    """How fast jobs train, alone on their GPUs.

    Parameters
    ----------
    speeds : mapping of str to mapping of (str, int) to float
        Training steps a second, by model of GPU, and by kind of job and number of GPUs.
    apart : mapping of str to mapping of (str, int) to float
        The same with workers on different servers.
    """

    speeds: Mapping[str, Mapping[tuple[str, int], float]]
    apart: Mapping[str, Mapping[tuple[str, int], float]]

    @property
    def models(self) -> tuple[str, ...]:
        """The models of GPUs, such as ``V100``."""
        return tuple(self.speeds)

    def kinds(self, gpus: int = 1) -> list[str]:
        """Return the kinds of jobs that were measured on so many GPUs, sorted."""
        return sorted({kind for speeds in self.speeds.values() for kind, number in speeds if number == gpus})

    def run_times(self, kind: str, gpus: int, seconds: float, *, on: str = "V100") -> dict[str, float]:
        """Return how long a job takes on each model.

        Parameters
        ----------
        kind : str
            What it trains, such as ``ResNet-50 (batch size 64)``.
        gpus : int
            How many it uses, on one server.
        seconds : float
            Its run time on one of the models.
        on : str
            That model.

        Returns
        -------
        dict of str to float
            In seconds, by model; those on which it cannot run are left out.

        Raises
        ------
        InvalidConfiguration
            If it was not measured, or does not run on that model.

        Examples
        --------
        >>> measured = Throughputs({"V100": {("LM", 1): 30.0}, "K80": {("LM", 1): 6.0}}, {})
        >>> measured.run_times("LM", 1, 100.0)
        {'V100': 100.0, 'K80': 500.0}
        """
        if on not in self.speeds:
            raise InvalidConfiguration(f"on is {on!r}, want one of {', '.join(self.models)}")
        speed = self.speeds[on].get((kind, gpus), 0.0)
        if not speed:
            raise InvalidConfiguration(f"{kind} on {gpus} GPUs was not measured on {on}, or does not run there")
        found = {model: speeds.get((kind, gpus), 0.0) for model, speeds in self.speeds.items()}
        return {model: seconds * speed / other for model, other in found.items() if other}


def read(path: Pathish) -> Throughputs:
    """Read the measurements.

    Parameters
    ----------
    path : str or path-like
        Gavel's ``simulation_throughputs.json``, plain or gzip.

    Returns
    -------
    Throughputs
        By models in capitals.

    Raises
    ------
    WorkloadError
        If the file cannot be read or is of another kind; the message names what is wrong.
    """
    source = os.fspath(path)
    try:
        document = json.loads(read_bytes(path))
    except ValueError as error:
        raise WorkloadError(f"{source}: is no JSON file: {error}") from error
    if not isinstance(document, dict) or not document:
        raise WorkloadError(f"{source}: want an object with an entry for each model of GPU")
    alone = {model: _alone(source, model, jobs) for model, jobs in document.items()}
    return Throughputs(
        {model.upper(): speeds for model, speeds in alone.items() if not model.endswith(_APART)},
        {model.removesuffix(_APART).upper(): speeds for model, speeds in alone.items() if model.endswith(_APART)},
    )


def _alone(source: str, model: str, jobs: Any) -> dict[tuple[str, int], float]:
    """Return the speeds of jobs alone."""
    speeds = {}
    if not isinstance(jobs, dict):
        raise WorkloadError(f"{source}: {model} is {jobs!r}, want an object with an entry for each kind of job")
    for name, measured in jobs.items():
        try:
            kind, gpus = ast.literal_eval(name)  # keys are pairs as Python writes them
            speed = float(measured[_ALONE])
            if not (isinstance(kind, str) and isinstance(gpus, int) and 0 <= speed < math.inf):
                raise ValueError
        except (ValueError, TypeError, KeyError, SyntaxError) as error:
            raise WorkloadError(
                f"{source}: {model}: {name}: want a kind of job and a number of GPUs, and its speed alone"
            ) from error
        speeds[kind, gpus] = speed
    return speeds
