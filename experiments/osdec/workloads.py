"""Workloads of the held-out study: real traces of capacity or of jobs and capacity, and generated ones.

The jobs for a trace of capacities are those of the fluctuating workload; they are too many to all fit.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from desim.exceptions import InvalidConfiguration
from desim.problems.deferrable import Job
from desim.reading import read_json, read_parquet
from desim.workloads.azure.vm_2017 import read_vms
from desim.workloads.deferrable import FLUCTUATING, Scenario, Settings, Sometimes, generate, named

Floats = NDArray[np.float64]

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
"""Directory of the traces next to the project; they are not part of the package."""

SPOT, CARBON, AZURE = "spot instances", "carbon intensity", "azure 2017"
TRACED = (SPOT, CARBON, AZURE)

SPOT_FILES = tuple(
    f"spot/availability_16node_aws-08-27-2023_us-{zone}_v100_1.json" for zone in ("east-2b", "west-2a", "west-2c")
)
CARBON_FILE = "carbon/carbon_intensity_2021_2024.parquet"
FILES = {SPOT: SPOT_FILES, CARBON: (CARBON_FILE,), AZURE: ("azure/azure_v1_dev_flavors.txt",)}

#: Spot instances: cores per instance, readings per slot of a quarter of an hour, slots, and jobs per slot.
SPOT_CORES, SPOT_TICKS, SPOT_SLOTS, SPOT_RATE = 4, 3, 192, 10.5
#: Capacity of 64 cores with clean and 16 with dirty electricity, relative to the region's month; slots of a week.
CARBON_LEAST, CARBON_MOST, CARBON_SLOTS, CARBON_RATE, MONTH = 16.0, 64.0, 168, 14.0, 720
#: Slots of five minutes; shares of the trace's batches that are on-demand, and that are deferrable if they are short.
AZURE_SLOTS, AZURE_DAY, ON_DEMAND, DEFERRABLE, LONGEST = 192, 288, 0.03, 0.03, 24
DAYS = {SPOT: 96, CARBON: 24, AZURE: AZURE_DAY}


def is_present(case: str) -> bool:
    """Return whether the files of a workload exist; generated workloads need none.

    Parameters
    ----------
    case : str
        Name of the workload.
    """
    return all((DATA / file).is_file() for file in FILES.get(case, ()))


def day_of(case: str) -> int:
    """Return the number of slots per day of a workload.

    Parameters
    ----------
    case : str
        Name of the workload.
    """
    return DAYS[case] if case in DAYS else round(named(case).day_slots)


def traced(case: str, seed: int, num_slots: int | None = None) -> Scenario:
    """Return the jobs and the capacity of a piece of a trace.

    Parameters
    ----------
    case : str
        Name of the workload, one of :data:`TRACED`.
    seed : int
        Seed of the position in the trace, and of everything generated.
    num_slots : int, optional
        Length of the piece in slots. Default: that of the workload.

    Returns
    -------
    Scenario
        Jobs and capacity, as from a generator.

    Raises
    ------
    InvalidConfiguration
        If there is no such workload, or its files are missing.
    """
    if case not in FILES or not is_present(case):
        raise InvalidConfiguration(
            f"workload: got {case!r}, whose files are missing; expected one of {', '.join(filter(is_present, FILES))}"
        )
    rng = np.random.default_rng([seed, len(case)])
    if case == AZURE:
        return _azure(rng, num_slots or AZURE_SLOTS)
    capacity, rate = (_spot(rng), SPOT_RATE) if case == SPOT else (_carbon(rng), CARBON_RATE)
    capacity = capacity[: num_slots or len(capacity)]
    settings: Settings = replace(FLUCTUATING, num_slots=len(capacity), day_slots=DAYS[case], arrival_rate=rate)
    return Scenario(generate(settings, seed=rng).jobs, capacity, len(capacity))


def _spot(rng: np.random.Generator) -> Floats:
    """Return the available cores over a piece of a trace of spot instances."""
    series = _spot_series(SPOT_FILES[int(rng.integers(len(SPOT_FILES)))])
    begin = int(rng.integers(len(series) - SPOT_SLOTS + 1))
    return SPOT_CORES * series[begin : begin + SPOT_SLOTS]


@cache
def _spot_series(file: str) -> Floats:
    return np.array(read_json(DATA / file)["data"][::SPOT_TICKS], dtype=np.float64)


def _carbon(rng: np.random.Generator) -> Floats:
    """Return capacities that follow the carbon intensity of a region's electricity, per hour."""
    table = _carbon_table()
    hours = table[int(rng.integers(len(table)))]
    begin = int(rng.integers(MONTH, len(hours) - CARBON_SLOTS))
    low, high = np.quantile(hours[begin - MONTH : begin], [0.05, 0.95])
    clean = np.clip((high - hours[begin : begin + CARBON_SLOTS]) / max(high - low, 1e-9), 0.0, 1.0)
    return np.asarray(np.floor(CARBON_LEAST + (CARBON_MOST - CARBON_LEAST) * clean))


@cache
def _carbon_table() -> Floats:
    table, _ = read_parquet(DATA / CARBON_FILE)
    return np.array([part["carbon_intensity"].to_numpy() for part in table.partition_by("region", maintain_order=True)])


def _azure(rng: np.random.Generator, num_slots: int) -> Scenario:
    """Return some virtual machines as on-demand load, and other, short ones as deferrable jobs."""
    slot_of, batch_of, cores, duration = _azure_machines()
    last = int(slot_of.max()) + 1
    begin = int(rng.integers(AZURE_DAY // 2, last - num_slots))  # so that some machines run at the beginning
    lot = rng.random(int(batch_of.max()) + 2)[1 + batch_of]
    held = np.zeros(last + 1)
    on_demand = lot < ON_DEMAND
    np.add.at(held, slot_of[on_demand], cores[on_demand])
    np.subtract.at(held, np.minimum(slot_of + duration, last)[on_demand], cores[on_demand])
    used = np.cumsum(held)[begin : begin + num_slots]
    is_job = (lot >= 1 - DEFERRABLE) & (duration <= LONGEST) & (slot_of >= begin) & (slot_of < begin + num_slots)
    chosen = np.flatnonzero(is_job)
    lead_time = rng.integers(0, 4, len(chosen))
    slack = Sometimes(0.8, 12)(rng.random(len(chosen)), duration[chosen])
    known = slot_of[chosen] - begin
    rows = np.stack([known, known + lead_time, known + lead_time + slack, duration[chosen]]).astype(int)
    rows, sizes = rows[:, rows[1] < num_slots], cores[chosen][rows[1] < num_slots]
    columns = zip(*rows.tolist(), sizes.tolist(), strict=True)
    jobs = [Job(number, *row) for number, row in enumerate(columns)]
    work = float((rows[3] * sizes).sum()) / num_slots
    # On average as much capacity as the jobs need, so that not all fit; never less than a single job needs
    capacity = np.floor(np.maximum(used.mean() + work - used, 16.0))
    return Scenario(tuple(jobs), capacity, num_slots)


@cache
def _azure_machines() -> tuple[Any, Any, Any, Any]:
    """Return the slot, batch, cores and duration in slots of each virtual machine, the longest of its bin."""
    machines = list(read_vms(DATA / "azure", within="high"))
    slot, end, cores = np.array([(one.start, one.end, one.cores) for one in machines]).T
    batch = np.array([one.tenant_id for one in machines])
    return slot.astype(int), batch, cores, np.maximum(end - slot, 1.0).astype(int)
