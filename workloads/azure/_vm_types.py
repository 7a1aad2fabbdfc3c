"""The size of VM types: fractions of machines of several types, made one number of cores."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from desim.exceptions import InvalidConfiguration, WorkloadError
from desim.workloads._named_streams import number
from desim.workloads.azure._packing_file import PackingFile
from desim.workloads.azure.report import VmReason, VmReport

__all__ = ["Share", "Sizing"]

Share = Literal["largest", "mean"]
Size = tuple[float, float]

#: Fractions are published with few digits: 0.0208333 of 48 cores is one core.
_ROUNDING = 1e-3


@dataclass(frozen=True)
class Sizing:
    """How fractions of a machine become cores and memory; the parameters are those of `packing.read_vms`."""

    machine_id: int | None
    share: Share
    cores_per_machine: float
    memory_per_machine: float
    whole_cores: bool

    def __post_init__(self) -> None:
        """Check every option."""
        number("cores_per_machine", self.cores_per_machine, above=True)
        number("memory_per_machine", self.memory_per_machine, above=True)
        if self.share not in get_args(Share):
            raise InvalidConfiguration(f"share is {self.share!r}, want one of {get_args(Share)}")
        machine = self.machine_id
        if machine is not None and (not isinstance(machine, int | np.integer) or isinstance(machine, bool)):
            raise InvalidConfiguration(f"machine_id is {machine!r}, want a whole number or None")

    def read(self, file: PackingFile, report: VmReport) -> dict[int, Size]:
        """Return cores and memory of every VM type that has any.

        Parameters
        ----------
        file : PackingFile
            The trace.
        report : VmReport
            Where to count odd rows.

        Returns
        -------
        dict of int to (float, float)
            By ``vmTypeId``; without those that the asked machine type cannot host.

        Raises
        ------
        WorkloadError
            If the asked machine type is not in the file.
        """
        hosts: dict[int, dict[int, Size]] = {}
        machines: set[int] = set()
        for row in file.types():
            machines.add(row.machine_id)
            if row.core is None or row.memory is None or not 0 < row.core <= 1 or not 0 <= row.memory <= 1:
                report.add(VmReason.UNUSABLE_TYPE_ROW, [row.type_id])
                continue
            size = (row.core, row.memory)
            known = hosts.setdefault(row.type_id, {})
            if row.machine_id in known:
                report.add(VmReason.REPEATED_TYPE_ROW, [row.type_id])
            known[row.machine_id] = max(size, known.get(row.machine_id, size))
        if self.machine_id is not None and self.machine_id not in machines:
            raise WorkloadError(
                f"{file.source}: table vmType: column machineId has no {self.machine_id}, only {sorted(machines)[:20]}"
            )
        chosen = {type_id: self._choose(sizes) for type_id, sizes in hosts.items()}
        return {type_id: self._amounts(size) for type_id, size in chosen.items() if size is not None}

    def _choose(self, sizes: dict[int, Size]) -> Size | None:
        """Return the fractions of a machine that count, out of those of the machine types that can host a VM type."""
        if self.machine_id is not None:
            return sizes.get(self.machine_id)
        cores, memory = zip(*sizes.values(), strict=True)
        if self.share == "mean":
            return math.fsum(cores) / len(cores), math.fsum(memory) / len(memory)
        return max(cores), max(memory)

    def _amounts(self, size: Size) -> Size:
        cores = size[0] * self.cores_per_machine
        if self.whole_cores:
            cores = float(max(1, math.ceil(cores - _ROUNDING)))
        return cores, size[1] * self.memory_per_machine
