"""WfFormat: a published workflow, exact rules for edges, work and versions, round trips, and every named error."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from workload_files import DATA, data, edges_of, refusal

from desim import simulate
from desim.agents.dag import create
from desim.exceptions import InvalidConfiguration, WorkloadError
from desim.problems.dag import DagCluster, Executors, to_networkx
from desim.problems.dag.job import Job
from desim.workloads import wfformat

Document = dict[str, Any]
Put = Callable[..., Path]


def task(name: str, parents: str, children: str, reads: str = "", writes: str = "") -> Document:
    return {
        "name": name,
        "id": name,
        "parents": list(parents),
        "children": list(children),
        "inputFiles": reads.split(),
        "outputFiles": writes.split(),
    }


def diamond() -> Document:
    """Return a -> b, c -> d; b and c both write y, d also reads the outside file and one of a, no parent of it."""
    tasks = [
        task("a", "", "bc", "outside", "x z"),
        task("b", "a", "d", "x outside", "y"),
        task("c", "a", "d", "", "y w"),
        task("d", "bc", "", "y w z outside"),
    ]
    sizes = {"outside": 1_000_000, "x": 1, "y": 20, "z": 300, "w": 4_000.5}
    runs = [
        {"id": name, "runtimeInSeconds": at, "avgCPU": 50.0 * at, "machines": ["m"]}
        for at, name in enumerate("abcd", 1)
    ]
    return {
        "name": "diamond",
        "schemaVersion": "1.5",
        "workflow": {
            "specification": {
                "tasks": tasks,
                "files": [{"id": name, "sizeInBytes": size} for name, size in sizes.items()],
            },
            "execution": {"tasks": runs, "machines": [{"nodeName": "m", "cpu": {"speedInMHz": 2_500}}]},
        },
    }


def flat(document: Document) -> Document:
    """Return the same workflow as version 1.4."""
    workflow = document["workflow"]
    sizes = {file["id"]: file["sizeInBytes"] for file in workflow["specification"]["files"]}
    tasks = []
    for entry, run in zip(workflow["specification"]["tasks"], workflow["execution"]["tasks"], strict=True):
        files = [{"name": name, "link": "input", "sizeInBytes": sizes[name]} for name in entry["inputFiles"]]
        files += [{"name": name, "link": "output", "sizeInBytes": sizes[name]} for name in entry["outputFiles"]]
        kept = {key: entry[key] for key in ("name", "parents", "children")}
        tasks.append(
            kept | {"files": files, "machine": "m"} | {key: run[key] for key in ("runtimeInSeconds", "avgCPU")}
        )
    machines = [{"nodeName": "m", "cpu": {"speed": 2_500}}]
    return {"name": "diamond", "schemaVersion": "1.4", "workflow": {"tasks": tasks, "machines": machines}}


DIAMOND = {("a", "b"): 1.0, ("a", "c"): 0.0, ("b", "d"): 20.0, ("c", "d"): 4_020.5}


def same(one: Job, other: Job) -> bool:
    return (
        one.names == other.names
        and one.label == other.label
        and one.work.tolist() == other.work.tolist()
        and one.parent_lists == other.parent_lists
    )


def test_montage() -> None:
    path = data("workflows/montage-chameleon-2mass-005d-001.json")
    job = wfformat.read(path, reference_speed=2.0)
    assert (job.job_id, job.submission_time, job.label) == (0, 0.0, "montage")
    assert (job.num_nodes, job.num_edges) == (58, 114)
    assert job.work.sum() / 2 == pytest.approx(221.726)
    graph = to_networkx(job)
    weights = nx.DiGraph()
    weights.add_weighted_edges_from(("start", node, graph.nodes[node]["work"]) for node in graph)
    weights.add_weighted_edges_from((parent, node, graph.nodes[node]["work"]) for parent, node in graph.edges)
    assert nx.dag_longest_path_length(weights) / 2 == pytest.approx(21.385)
    # A second reading of the file: what each child reads of what each of its parents writes
    specification = json.loads(path.read_text())["workflow"]["specification"]
    sizes = {file["id"]: file["sizeInBytes"] for file in specification["files"]}
    tasks = {entry["id"]: entry for entry in specification["tasks"]}
    expected = {
        (parent, name): sum(sizes[file] for file in {*tasks[parent]["outputFiles"]} & {*entry["inputFiles"]})
        for name, entry in tasks.items()
        for parent in entry["parents"]
    }
    assert edges_of(job) == expected
    assert sum(expected.values()) == 549_181_584


#: Tasks, edges, sum of run times and longest path of every workflow at hand, as an independent reading found them.
REAL = {
    "wfformat/1000genome-chameleon-2ch-100k-001.v1.4.json": (52, 76, 2_771.295, 204.686),
    "wfformat/bacass-dirt02-001.v1.4.json": (11, 14, 3_961.87, 2_150.0),
    "wfformat/helloworld-forkjoin-10-chameleon.v1.6.json": (10, 16, 1_028.704, 307.36),
    "workflows/montage-chameleon-2mass-005d-001.json": (58, 114, 221.726, 21.385),
}


def test_every_real_file_is_read() -> None:
    found = {
        str(path.relative_to(DATA)): wfformat.read(path, allow_disconnected=True)
        for folder in ("wfformat", "workflows")
        for path in sorted(data(folder).glob("*.json"))
    }
    assert list(found) == list(REAL)
    for name, job in found.items():
        ends = np.zeros(job.num_nodes)
        for node in range(job.num_nodes):  # numbered in topological order
            ends[node] = job.work[node] + max((ends[parent] for parent in job.parents(node)), default=0.0)
        measured = (job.num_nodes, job.num_edges, job.work.sum(), ends.max())
        assert measured == pytest.approx(REAL[name]), name


def test_files_tell_the_same_edges_as_parents() -> None:
    """In the recording of 1000genome without children, files alone tell its 76 edges."""
    path = data("wfformat/1000genome-chameleon-2ch-100k-001.v1.4.json")
    named = wfformat.read(path, allow_disconnected=True)
    by_files = wfformat.read(path, allow_disconnected=True, relations="files")
    assert edges_of(by_files) == edges_of(named)


def test_montage_round_trip(tmp_path: Path) -> None:
    job = wfformat.read(data("workflows/montage-chameleon-2mass-005d-001.json"))
    wfformat.write(tmp_path / "again.json.gz", job)
    assert (tmp_path / "again.json.gz").read_bytes()[:2] == b"\x1f\x8b"
    assert same(wfformat.read(tmp_path / "again.json.gz"), job)


def newer(document: Document) -> Document:
    """Return the same workflow as version 1.6, with the sums that it may state."""
    document["schemaVersion"] = "1.6"
    document["workflow"]["specification"]["metrics"] = {"numberOfTasks": 4}
    document["workflow"]["execution"]["metrics"] = {"sumTaskRuntimesInSeconds": 10}
    return document


@pytest.mark.parametrize(
    "version", [diamond, lambda: newer(diamond()), lambda: flat(diamond())], ids=["1.5", "1.6", "1.4"]
)
def test_rules_for_edges_and_work(put: Put, version: Callable[[], Document]) -> None:
    path = put(version())
    job = wfformat.read(path)
    assert (job.names, job.label, job.work.tolist()) == (("a", "b", "c", "d"), "diamond", [1, 2, 3, 4])
    assert edges_of(job) == DIAMOND
    assert wfformat.read(path, reference_speed=3).work.tolist() == [3, 6, 9, 12]


def test_either_relation(put: Put) -> None:
    document = diamond()
    first, second, third, last = document["workflow"]["specification"]["tasks"]
    first["children"] = ["b"]
    third["parents"], last["parents"] = ["a"], ["c"]
    del second["parents"], last["children"]
    assert edges_of(wfformat.read(put(document), relations="either")) == DIAMOND


@pytest.mark.parametrize("kept", ["parents", "children"])
def test_version_1_4_with_one_end_of_the_edges(put: Put, kept: str) -> None:
    document = flat(diamond())
    for entry in document["workflow"]["tasks"]:
        del entry["children" if kept == "parents" else "parents"]
    assert edges_of(wfformat.read(put(document))) == DIAMOND


def test_version_1_4_without_a_list_at_one_task(put: Put) -> None:
    """What the task itself does not say, the other ends of its edges do; and what it says must agree."""
    document = flat(diamond())
    tasks = document["workflow"]["tasks"]
    del tasks[0]["children"], tasks[3]["parents"]
    assert edges_of(wfformat.read(put(document))) == DIAMOND
    tasks[1]["children"] = []
    assert ("b", "d") not in edges_of(wfformat.read(put(document)))
    tasks[3]["parents"] = ["b", "c"]
    with pytest.raises(WorkloadError, match=r"task 'd' names the parent 'b', which does not name it as a child"):
        wfformat.read(put(document))


def without_relatives() -> Document:
    document = flat(diamond())
    for entry in document["workflow"]["tasks"]:
        entry["parents"], entry["children"] = [], []
    return document


#: What the files of the diamond say: d reads z of a, too, and nothing that a writes reaches c.
BY_FILES = {("a", "b"): 1.0, ("a", "d"): 300.0, ("b", "d"): 20.0, ("c", "d"): 4_020.5}


def test_edges_of_files(put: Put) -> None:
    assert edges_of(wfformat.read(put(without_relatives()))) == BY_FILES
    for version in (diamond(), flat(diamond())):
        assert edges_of(wfformat.read(put(version), relations="files")) == BY_FILES


def test_files_of_other_folders_are_others(put: Put) -> None:
    """A task that changes a file in place is no parent of itself; the same name elsewhere is another file."""
    document = without_relatives()
    tasks = document["workflow"]["tasks"]
    tasks[1]["files"].append({"name": "x", "link": "output", "sizeInBytes": 5})
    tasks[2]["files"] = [{"path": "/c", "name": "y", "link": "output", "sizeInBytes": 7}]
    tasks[3]["files"].append({"path": "/c/", "name": "y", "link": "input"})
    report = wfformat.WorkflowReport()
    found = edges_of(wfformat.read(put(document), report=report))
    assert found == {("a", "b"): 1.0, ("a", "d"): 300.0, ("b", "d"): 20.0, ("c", "d"): 7.0}
    assert not report.counts


def repeated(document: Document, *ids: str) -> Document:
    """Return a document of version 1.4 whose tasks b and c are both called x."""
    for entry, identity in zip(document["workflow"]["tasks"], ids, strict=True):
        entry |= {"id": identity, "name": "x" if entry["name"] in "bc" else entry["name"]}
    return document


def test_repeated_names(put: Put) -> None:
    document = repeated(flat(diamond()), *"1234")
    first, second, third, last = document["workflow"]["tasks"]
    first["children"], last["parents"] = ["2", "3"], ["3", "2"]
    second["children"] = third["children"] = ["4"]  # by identifier, and the parents by name
    job = wfformat.read(put(document))
    assert job.names == ("a_1", "x_2", "x_3", "d_4")
    letters = dict(zip(job.names, "abcd", strict=True))
    assert {(letters[one], letters[other]): size for (one, other), size in edges_of(job).items()} == DIAMOND


def test_refusals_of_repeated_names(put: Put) -> None:
    path = put(repeated(flat(diamond()), *"1234"))
    expected = "task 'a_1': children: got 'b', expected the name of a task"
    assert refusal(lambda: wfformat.read(path)) == f"{path}: {expected}"
    document = repeated(flat(diamond()), *"1234")
    document["workflow"]["tasks"][0]["children"] = ["x"]
    path = put(document)
    expected = "task 'a_1': children: got 'x', which can be 'x_2' and 'x_3'; try identifiers"
    assert refusal(lambda: wfformat.read(path)) == f"{path}: {expected}"
    path = put(repeated(flat(diamond()), *"1224"))
    expected = "workflow.tasks[2]: name and id: got 'x_2' again, expected distinct ones"
    assert refusal(lambda: wfformat.read(path)) == f"{path}: {expected}"
    document = repeated(flat(diamond()), *"1234")
    del document["workflow"]["tasks"][2]["id"]
    path = put(document)
    expected = "workflow.tasks[2]: id: got nothing, expected an id, because the name 'x' is not unique"
    assert refusal(lambda: wfformat.read(path)) == f"{path}: {expected}"


@pytest.mark.parametrize("version", ["1.1", "1.2", "1.3"])
def test_older_versions(put: Put, version: str) -> None:
    """They write jobs, runtime and size; 1.3 calls jobs tasks."""
    document = flat(diamond()) | {"schemaVersion": version}
    workflow = document["workflow"]
    for entry in workflow["tasks"]:
        entry["runtime"] = entry.pop("runtimeInSeconds")
        entry["files"] = [
            {"size" if name == "sizeInBytes" else name: value for name, value in file.items()}
            for file in entry.get("files", ())
        ]
    if version != "1.3":
        workflow["jobs"] = workflow.pop("tasks")
    job, known = wfformat.read(put(document)), wfformat.read(put(flat(diamond()), "known"))
    assert (job.names, job.work.tolist(), edges_of(job)) == (known.names, known.work.tolist(), edges_of(known))


def test_repairs(put: Put) -> None:
    document = edited(lambda d, t, w: w["specification"]["files"][3].update(sizeInBytes=-1))
    report = wfformat.WorkflowReport()
    wfformat.read(put(document), report=report)
    assert {reason.name for reason in report.counts} == {"NEGATIVE_SIZE"}
    with pytest.raises(WorkloadError, match="file 'z': negative size of a file"):
        wfformat.read(put(document), strict=True)


def test_disconnected_by_permission(put: Put) -> None:
    document = diamond()
    for entry in document["workflow"]["specification"]["tasks"]:
        entry["parents"], entry["children"] = [], []
    assert wfformat.read(put(document), allow_disconnected=True).num_edges == 0


@st.composite
def job_strategy(draw: st.DrawFn) -> Job:
    count = draw(st.integers(1, 8))
    names = draw(st.lists(st.text(min_size=1), min_size=count, max_size=count, unique=True))
    amounts = st.floats(0, 1e15) | st.integers(0, 10**15).map(float)
    pairs = [(parent, child) for child in range(count) for parent in range(child) if draw(st.booleans())]
    return Job(
        0,
        draw(st.lists(amounts, min_size=count, max_size=count)),
        [(names[parent], names[child], draw(amounts)) for parent, child in pairs],
        names=names,
        label=draw(st.text()),
        allow_disconnected=True,
    )


@settings(max_examples=60, deadline=None)
@given(job=job_strategy(), flip=st.booleans())
def test_round_trip(job: Job, flip: bool, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.getbasetemp() / "round_trip.json"
    wfformat.write(path, job)
    again = wfformat.read(path, allow_disconnected=True, relations="either" if flip else "both")
    assert same(again, job)
    document = json.loads(path.read_text())
    assert len(document["workflow"]["specification"]["files"]) == job.num_edges


def test_what_cannot_be_written(tmp_path: Path) -> None:
    path = tmp_path / "workflow.json"
    with pytest.raises(WorkloadError, match=r"^job 4: has run times for each executor, which WfFormat cannot store$"):
        wfformat.write(path, Job(4, [1.0], run_times=[[1.0, 2.0]]))
    for restriction in ("eligible", "required_features"):
        with pytest.raises(WorkloadError, match=r"^job 4: has eligible executors, which WfFormat cannot store$"):
            wfformat.write(path, Job(4, [1.0], **{restriction: [["gpu"]]}))
    for job in (Job(4, [2e15]), Job(4, [1, 1], [(0, 1, 2e15)]), Job(4, [1.0], names=[""])):
        with pytest.raises(WorkloadError, match=r"^job 4: expected numbers up to 1e15, and a name for every node$"):
            wfformat.write(path, job)
    with pytest.raises(InvalidConfiguration, match=r"^reference_speed: got 0, expected a finite number > 0$"):
        wfformat.write(path, Job(4, [1.0]), reference_speed=0)
    assert not list(tmp_path.iterdir())


def edited(change: Callable[[Document, list[Document], Document], object]) -> Document:
    document = copy.deepcopy(diamond())
    workflow = document["workflow"]
    change(document, workflow["specification"]["tasks"], workflow)
    return document


def relate(parent: Document, child: Document) -> None:
    parent["children"].append(child["id"])
    child["parents"].append(parent["id"])


def isolate(tasks: list[Document]) -> None:
    for entry in tasks[:3]:
        entry["children"] = []
    for entry in tasks[1:]:
        entry["parents"] = []
    relate(tasks[0], tasks[1])


Change = Callable[[Document, list[Document], Document], object]
ERRORS: dict[str, tuple[Change, str]] = {
    "version": (
        lambda d, t, w: d.update(schemaVersion="1.0"),
        "schemaVersion: got '1.0', expected '1.1' to '1.6'",
    ),
    "no workflow": (lambda d, t, w: d.update(workflow=[]), "workflow: got a JSON list, expected a JSON object"),
    "no tasks": (lambda d, t, w: (t.clear(), w["execution"]["tasks"].clear()), "got no task, expected at least one"),
    "no id": (
        lambda d, t, w: t[1].pop("id"),
        "workflow.specification.tasks[1]: id: got nothing, expected a nonempty string",
    ),
    "same id": (
        lambda d, t, w: t.append(t[1]),
        "workflow.specification.tasks[4]: id: got 'b' again, expected distinct ones",
    ),
    "no run": (
        lambda d, t, w: w["execution"]["tasks"].pop(2),
        "task 'c': has no run time; try default_run_time, or --default-run-time",
    ),
    "stray run": (
        lambda d, t, w: w["execution"]["tasks"].append({"id": "q"}),
        "task 'q' is in workflow.execution, but not in workflow.specification",
    ),
    "negative run time": (
        lambda d, t, w: w["execution"]["tasks"][1].update(runtimeInSeconds=-2),
        "task 'b': runtimeInSeconds: got -2, expected a number from 0 to 1e15",
    ),
    "unknown file": (
        lambda d, t, w: t[3]["inputFiles"].append("q"),
        "task 'd': inputFiles: got 'q', expected the id of a file",
    ),
    "unknown parent": (
        lambda d, t, w: t[3]["parents"].append("q"),
        "task 'd': parents: got 'q', expected the name of a task",
    ),
    "parent type": (lambda d, t, w: t[3]["parents"].append(1), "task 'd': parents[2]: got 1, expected a string"),
    "duplicate edge": (
        lambda d, t, w: t[3]["parents"].append("c"),
        "task 'd': parents: got 'c' twice, expected distinct tasks",
    ),
    "parent not child": (
        lambda d, t, w: t[0]["children"].remove("c"),
        "task 'c' names the parent 'a', which does not name it as a child; try relations='either'",
    ),
    "child not parent": (
        lambda d, t, w: t[2]["parents"].remove("a"),
        "task 'a' names the child 'c', which does not name it as a parent; try relations='either'",
    ),
    "cycle": (lambda d, t, w: relate(t[3], t[1]), "job 0: the graph has the cycle b -> d -> b, expected none"),
    "disconnected": (
        lambda d, t, w: isolate(t),
        "job 0: the graph has 3 connected components, expected 1: 'a', 'b'; 'c'; 'd'; try allow_disconnected=True",
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(put: Put, name: str) -> None:
    change, message = ERRORS[name]
    path = put(edited(change))
    assert refusal(lambda: wfformat.read(path, allow_disconnected=False)) == f"{path}: {message}"


def test_errors_of_version_1_4(put: Put) -> None:
    document = flat(diamond())
    document["workflow"]["tasks"][1]["files"][0]["link"] = "inout"
    path = put(document)
    with pytest.raises(WorkloadError, match=r"task 'b': files\[0\]: link: got 'inout', expected 'input' or 'output'$"):
        wfformat.read(path)


def damaged(value: Any, rng: random.Random) -> Any:
    """Return a document with one of its values replaced, left out or doubled."""
    odd = [None, -1, 1e300, True, "", "a", "d", [], {}, ["a"], ["a", "a"], [[]], {"id": "a"}]
    if isinstance(value, dict) and value and rng.random() < 0.9:
        key = rng.choice(list(value))
        if rng.random() < 0.1:
            return {name: item for name, item in value.items() if name != key}
        return value | {key: damaged(value[key], rng)}
    if isinstance(value, list) and value and rng.random() < 0.9:
        at = rng.randrange(len(value))
        part = rng.choice([[], [value[at]] * 2, [damaged(value[at], rng)], [damaged(value[at], rng)]])
        return [*value[:at], *part, *value[at + 1 :]]
    return rng.choice(odd)


def test_damaged_files(put: Put) -> None:
    rng = random.Random(5)
    read, refused = 0, set()
    for _ in range(600):
        document = damaged(rng.choice([diamond, lambda: flat(diamond()), without_relatives])(), rng)
        text = json.dumps(document).encode()
        if rng.random() < 0.2:
            at = rng.randrange(len(text))
            text = text[:at] + rng.choice([b"", b"\x00", b'"', b"}", b"9" * 5_000, b"\xff"]) + text[at + 1 :]
        path, strict = put(text), rng.random() < 0.5
        try:
            job = wfformat.read(path, relations="both" if strict else "either")
        except WorkloadError as error:
            assert str(error).startswith(f"{path}: ")
            assert "\n" not in str(error)
            refused.add(str(error))
        else:
            read += 1
            assert np.isfinite(job.work).all()
            assert strict <= same(job, wfformat.read(path, relations="either"))
    assert read > 20
    assert len(refused) > 50


def test_cores_and_memory_are_demands_if_asked_for(put: Put) -> None:
    document = diamond()
    runs = document["workflow"]["execution"]["tasks"]
    runs[0] |= {"coreCount": 2, "memoryInBytes": 100}
    for entry in runs[1:]:
        entry["memoryInBytes"] = 7
    path = put(document)
    assert wfformat.read(path).demands is None
    report = wfformat.WorkflowReport()
    job = wfformat.read(path, demands=["cores", "memory"], report=report)
    assert job.demands == ({"cores": 2.0, "memory": 100.0}, *[{"cores": 1.0, "memory": 7.0}] * 3)
    assert {reason.name: report.count(reason) for reason in report.counts} == {"ASSUMED_DEMAND": 3}
    assert wfformat.read(path, demands=["memory"], strict=True).demands is not None
    with pytest.raises(WorkloadError, match="cores or memory of a task unknown"):
        wfformat.read(path, demands=["cores"], strict=True)
    with pytest.raises(InvalidConfiguration, match="demands: got 'disk', expected one of"):
        wfformat.read(path, demands=["disk"])  # type: ignore[list-item]
    old = flat(diamond())
    old["workflow"]["tasks"][0] |= {"cores": 3.0, "memory": 5.0}
    demands = wfformat.read(put(old), demands=["cores", "memory"]).demands
    assert demands is not None and demands[0] == {"cores": 3.0, "memory": 5.0}


def test_recorded_machines_are_pools(put: Put) -> None:
    document = diamond()
    entries = [{"nodeName": f"n{number}", "cpu": {"coreCount": 4}, "memoryInBytes": 100} for number in range(2)]
    document["workflow"]["execution"]["machines"] = entries
    pools = wfformat.machines(put(document))
    assert (pools.names, pools.capacities) == (("n0", "n1"), [{"cores": 4.0, "memory": 100.0}] * 2)
    job = wfformat.read(put(document), demands=["cores"])
    result = simulate(DagCluster([job], pools), create("rank-up-eft-idle"))
    assert result.jobs["status"].to_list() == ["completed"]
    del entries[0]["memoryInBytes"]
    assert wfformat.machines(put(document)).resources == ("cores",)
    entries[1]["cpu"] = {}
    with pytest.raises(WorkloadError, match=r"machines\[1\]: cpu: count: got nothing"):
        wfformat.machines(put(document))
    del document["workflow"]["execution"]["machines"]
    with pytest.raises(WorkloadError, match="got no machines, expected at least one"):
        wfformat.machines(put(document))


def test_real_machines_and_demands() -> None:
    path = data("workflows/montage-chameleon-2mass-005d-001.json")
    pools, job = wfformat.machines(path), wfformat.read(path, demands=["cores", "memory"])
    assert pools.capacities == [{"cores": 48.0, "memory": 131_795_956_000.0}]
    result = simulate(DagCluster([job], pools), create("rank-up-eft-idle"))
    assert result.metrics()["makespan"] < job.work.sum() / 5


def test_demands_and_pools_are_written_and_read(tmp_path: Path) -> None:
    pools = Executors([1.0, 2.0], 5.0, capacities=[{"cores": 4, "memory": 9}, {"cores": 2}])
    job = Job(0, [1.0, 2.0], [(0, 1, 3.0)], names=["a", "b"], demands=[{"cores": 2.0}, {"cores": 0.5, "memory": 9.0}])
    wfformat.write(tmp_path / "a.json", job, executors=pools)
    read = wfformat.read(tmp_path / "a.json")
    assert read.demands == ({"cores": 2.0, "memory": 0.0}, {"cores": 0.5, "memory": 9.0})
    again = wfformat.executors_of(tmp_path / "a.json")
    assert again is not None and again.describe() == pools.describe()
    for demands in ([None, {}], [{"gpus": 1.0}, {}]):
        with pytest.raises(WorkloadError, match="demands that WfFormat cannot store, expected cores and memory"):
            wfformat.write(tmp_path / "b.json", Job(0, [1.0, 2.0], [(0, 1, 3.0)], demands=demands))
