"""The slice of the 2017 trace: the published files against the figures stated for them, and made-up files."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from workload_files import DATA, data

from desim.exceptions import InvalidConfiguration, WorkloadError
from desim.workloads.azure import VirtualMachine, VmReason, vm_2017

FILES = DATA / "azure"
NAMES = {name: f"azure_v1_{name}.txt" for name in ("dev_flavors", "dev_durations", "flavor_map", "interval_map")}

Published = tuple[list[VirtualMachine], vm_2017.VmStream2017]
Write = Callable[..., Path]


@pytest.fixture(scope="module")
def published() -> Published:
    """Return the slice, which skips the test if it is absent."""
    for name in NAMES.values():
        data(f"azure/{name}")
    found = vm_2017.read_vms(FILES)
    return list(found), found


def test_the_published_slice_is_read_completely(published: Published) -> None:
    machines, found = published
    report = found.report
    assert (report.rows, report.vms, report.batches, report.dropped) == (259_159, 259_159, 53_109, 0)
    assert len(machines) == 259_159
    assert [machine.vm_id for machine in machines] == list(range(259_159))
    assert (found.first_time, found.end_time, found.num_slots) == (1_800_000, 2_100_000, 1_000.0)
    sizes = Counter(Counter(machine.tenant_id for machine in machines).values())
    assert max(sizes) == 587
    assert round(sizes[1] / 53_109, 3) == 0.579
    an_interval = Counter(machine.start for machine in machines)
    assert (len(an_interval), min(an_interval.values()), max(an_interval.values())) == (1_000, 33, 916)


def test_sizes_of_the_published_slice(published: Published) -> None:
    cores = Counter(machine.cores for machine in published[0])
    assert {size: round(100 * count / 259_159, 2) for size, count in cores.items()} == {
        1.0: 61.95,
        2.0: 18.55,
        4.0: 9.94,
        8.0: 9.55,
        16.0: 0.0,
    }
    statistics = data("azure/azure_vm_distributions.json")
    flavors = json.loads(statistics.read_text())["azure_v1_processed"]["flavors"]
    wanted = {(row["cores"], row["memory_gb"]): row["count_dev"] for row in flavors}
    assert Counter((machine.cores, machine.memory) for machine in published[0]) == wanted


def test_lifetimes_of_the_published_slice(published: Published) -> None:
    machines, found = published
    assert found.report.count(VmReason.CENSORED) == 14_317
    assert round(100 * (1 - 14_317 / 259_159), 2) == 94.48
    assert found.report.count(VmReason.ZERO_DURATION) == 7_029
    assert sum(machine.lifetime == 0.5 for machine in machines) == 7_029
    assert all(0 <= machine.start < machine.end <= 1_000 for machine in machines)
    assert [machine.start for machine in machines] == sorted(machine.start for machine in machines)
    # 57.5 % last half an hour or less (Kaplan-Meier); in early starts hardly any is censored by then
    early = np.array([machine.lifetime for machine in machines if machine.start < 900])
    assert abs(float(np.mean(early <= 6)) - 0.575) < 0.01


def test_within_a_bin_any_reading_may_be_taken(published: Published) -> None:
    first = 6_000
    lifetimes = {}
    for within in ("low", "middle", "high", "uniform"):
        found = vm_2017.read_vms(FILES, within=within, seed=4)
        lifetimes[within] = np.array([machine.lifetime for machine in islice(found, first)])
    assert [machine.lifetime for machine in published[0][:first]] == lifetimes["middle"].tolist()
    low, middle, high, drawn = (lifetimes[within] for within in ("low", "middle", "high", "uniform"))
    np.testing.assert_allclose(middle, (low + high) / 2)
    assert np.all((low <= drawn) & (drawn <= high))
    assert np.all((drawn == np.floor(drawn)) | (drawn == 0.5))
    several = low < high  # those that ended after more than an hour
    assert several.sum() > 800
    position = ((drawn - low + 0.5) / (high - low + 1))[several]
    assert abs(position.mean() - 0.5) < 5 * 0.29 / np.sqrt(several.sum())
    assert [machine.lifetime for machine in islice(found, first)] == drawn.tolist()  # the same anew
    other = vm_2017.read_vms(FILES, within="uniform", seed=5)
    assert [machine.lifetime for machine in islice(other, first)] != drawn.tolist()


FLAVOR_MAP = "1,0.75 a\n16,112 d\n2,3.5 g\n"
INTERVAL_MAP = "0 0\n300 1\n600 2\n900 3\n1200 3\n1500 3\n1800 4\n"
# Three readings: the slice ends 900, 600 and 300 s after them
FLAVORS = "600 a,|,g,a,|\n900 d,|\n1200 g,|\n"
DURATIONS = "600 U0,|,C3,U3,|\n900 U1,|\n1200 C1,|\n"


@pytest.fixture
def files(tmp_path: Path) -> Write:
    """Return a function that writes the four files, some of them changed, and returns their directory."""

    def write(**changed: str | bytes) -> Path:
        contents = {
            "dev_flavors": FLAVORS,
            "dev_durations": DURATIONS,
            "flavor_map": FLAVOR_MAP,
            "interval_map": INTERVAL_MAP,
        }
        for name, content in (contents | changed).items():
            (tmp_path / NAMES[name]).write_bytes(content if isinstance(content, bytes) else content.encode())
        return tmp_path

    return write


def test_a_small_slice(files: Write) -> None:
    found = vm_2017.read_vms(files())
    assert list(found) == [
        VirtualMachine(0, 0.0, 0.5, 1.0, 0.75, 0, 0),
        VirtualMachine(1, 0.0, 3.0, 2.0, 3.5, 0, 1),
        VirtualMachine(2, 0.0, 3.0, 1.0, 0.75, 0, 1),
        VirtualMachine(3, 1.0, 2.0, 16.0, 112.0, 0, 2),
        VirtualMachine(4, 2.0, 3.0, 2.0, 3.5, 0, 3),
    ]
    report = found.report
    assert (report.unit, report.rows, report.vms, report.batches) == ("line", 5, 5, 4)
    assert report.counts == {VmReason.ZERO_DURATION: 1, VmReason.CENSORED: 2}
    assert report.places == {VmReason.ZERO_DURATION: [1], VmReason.CENSORED: [1, 3]}
    assert (found.first_time, found.end_time, found.num_slots) == (600, 1500, 3.0)
    assert [machine.end for machine in vm_2017.read_vms(files(), slot_seconds=150.0)] == [1.0, 6.0, 6.0, 4.0, 6.0]


def test_a_bin_is_cut_at_the_end_of_the_trace(files: Write) -> None:
    # Bin 3 is 900 to 1,500 s, of which 1,200 and 1,500 would be too late
    directory = files(
        dev_flavors="600 a,|\n900 a,|\n1200 a,|\n1500 a,|\n", dev_durations="600 U3,|\n900 U3,|\n1200 U0,|\n1500 U0,|\n"
    )
    ends = {
        within: [machine.end for machine in vm_2017.read_vms(directory, within=within, seed=1)]
        for within in ("low", "middle", "high")
    }
    assert ends == {"low": [3.0, 4.0, 2.5, 3.5], "middle": [3.5, 4.0, 2.5, 3.5], "high": [4.0, 4.0, 2.5, 3.5]}
    drawn = {next(iter(vm_2017.read_vms(directory, within="uniform", seed=seed))).end for seed in range(30)}
    assert drawn == {3.0, 4.0}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"dev_flavors": FLAVORS.replace("d", "x")},
            "dev_flavors.txt: line 2: got 'x', expected a flavor: one of a d g",
        ),
        ({"dev_flavors": FLAVORS.replace("d,|", "d,")}, "dev_flavors.txt: line 2: batch 1 has no end"),
        ({"dev_flavors": FLAVORS.replace("d,|", "d,|,|")}, "dev_flavors.txt: line 2: batch 2 is empty"),
        (
            {"dev_flavors": FLAVORS.replace("900", "600")},
            "dev_flavors.txt: line 2: time: got 600, expected more than 600 of the previous line",
        ),
        ({"dev_flavors": FLAVORS.replace("1200 g,|\n", "")}, "dev_durations.txt: line 3: .*dev_flavors.txt ends bef"),
        (
            {"dev_flavors": FLAVORS.replace("g,a", "a")},
            "dev_durations.txt: line 1: batch 2: got 2 items, expected 1 as in ",
        ),
        ({"dev_flavors": b"600 \xff,|\n"}, "dev_flavors.txt: line 1, column 5: byte 0xff is not"),
        ({"dev_flavors": "", "dev_durations": "\n"}, "dev_flavors.txt: got no line"),
        (
            {"dev_durations": DURATIONS.replace("1200 C1,|\n", "")},
            "dev_flavors.txt: line 3: .*dev_durations.txt ends before it",
        ),
        (
            {"dev_durations": DURATIONS.replace("U1", "X1")},
            "dev_durations.txt: line 2: got 'X1', expected U or C and a bin",
        ),
        (
            {"dev_durations": DURATIONS.replace("U1", "U3")},
            "dev_durations.txt: line 2: batch 1: got U3, 900 to 1500 s, expected .*, which ends 600 s later",
        ),
        (
            {"dev_durations": DURATIONS.replace("C3", "C4")},
            "dev_durations.txt: line 1: batch 2: got C4, 1800 to 1800 s, expected .*, which ends 900 s later",
        ),
        ({"flavor_map": FLAVOR_MAP.replace(" d", " a")}, "flavor_map.txt: line 2: got '16,112 a', expected CORES"),
        ({"flavor_map": "\n"}, "flavor_map.txt: got no flavor"),
        (
            {"interval_map": INTERVAL_MAP.replace("900 3", "900")},
            "interval_map.txt: line 4: got '900', expected SECONDS",
        ),
        (
            {"interval_map": INTERVAL_MAP.replace("900", "400")},
            "interval_map.txt: line 4: got 400 s in bin 3 after 600 s",
        ),
        (
            {"interval_map": INTERVAL_MAP.replace("600 2", "600 3")},
            "interval_map.txt: line 3: got 600 s in bin 3 after",
        ),
        ({"interval_map": ""}, "interval_map.txt: got no duration"),
    ],
)
def test_broken_files_are_refused_by_name_and_line(files: Write, changed: dict[str, Any], message: str) -> None:
    with pytest.raises(WorkloadError, match=message) as caught:
        vm_2017.read_vms(files(**changed))
    assert len(caught.value.args) == 1


def test_missing_files_and_wrong_options(files: Write, tmp_path: Path) -> None:
    with pytest.raises(WorkloadError, match=r"interval_map.txt: cannot be read"):
        vm_2017.read_vms(tmp_path / "none")
    for options, message in (
        ({"within": "mean"}, "within: got 'mean'"),
        ({"slot_seconds": -1}, "slot_seconds: got -1"),
        ({"seed": -1}, "seed: got -1"),
    ):
        with pytest.raises(InvalidConfiguration, match=message):
            vm_2017.read_vms(files(), **options)
