"""DAX: a published workflow, both versions, exact rules for edges and sizes, and every named error."""

from __future__ import annotations

import gzip
import random
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from workload_files import data, edges_of, refusal

from desim.exceptions import WorkloadError
from desim.problems.dag import to_networkx
from desim.workloads import dax
from desim.workloads.dag import registry
from desim.workloads.dag.wfformat import WorkflowReport

Put = Callable[..., Path]

OLD = """<?xml version="1.0" encoding="UTF-8"?>
<!-- a comment -->
<adag xmlns="http://pegasus.isi.edu/schema/DAX" version="2.1" name="diamond" jobCount="9">
  <filename file="x" link="inout"/>
  <job id="a" name="split" runtime="1">
    <uses file="outside" link="input" size="1000000"/>
    <uses file="x" link="output" size="1"/>
    <uses file="z" link="output" size="300"/>
  </job>
  <job id="b" name="work" runtime="2.0">
    <uses file="x" link="input" size="7"/>
    <uses file="y" link="output" size="20"/>
  </job>
  <job id="c" name="work" runtime="3">
    <argument>-i <filename file="x"/></argument>
    <uses file="none of it" link="none"/>
    <uses file="y" link="inout" size="20"/>
    <uses file="w" link="output" size="4000.5"/>
  </job>
  <job id="d" name="join" runtime="4e0">
    <uses file="y" link="input" size="20"/>
    <uses file="w" link="input"/>
    <uses file="z" link="input" size="300"/>
  </job>
  <child ref="b"><parent ref="a"/></child>
  <child ref="c"><parent ref="a"/></child>
  <child ref="d">
    <parent ref="b"/>
  </child>
  <child ref="d"><parent ref="c"/></child>
</adag>
"""
NEW = """<dax:adag xmlns:dax="http://pegasus.isi.edu/schema/DAX" version="3.6" name="diamond" index="0" count="1">
  <dax:metadata key="runtime">99</dax:metadata>
  <dax:job id="a" name="split">
    <dax:profile namespace="pegasus" key="runtime">1</dax:profile>
    <dax:uses name="x" version="1" link="output"><dax:metadata key="size">1</dax:metadata></dax:uses>
    <dax:uses name="x" version="2" link="output" size="300"/>
  </dax:job>
  <dax:job id="b" name="work" runtime="2">
    <dax:uses name="x" version="1" link="input" register="false"/>
    <dax:uses name="y" link="output"/>
  </dax:job>
  <dax:job id="c" name="work"><dax:metadata key="runtime"> 3 </dax:metadata>
    <dax:uses name="y" link="output" size="20"/>
    <dax:uses name="w" link="output"/>
  </dax:job>
  <dax:job id="d" name="join" runtime="4">
    <dax:uses name="y" link="input" size="20"/>
    <dax:uses name="w" link="input" size="4000.5"/>
    <dax:uses name="x" version="2" link="input"/>
  </dax:job>
  <dax:child ref="b"><dax:parent ref="a" edge-label="1"/></dax:child>
  <dax:child ref="c"><dax:parent ref="a"/></dax:child>
  <dax:child ref="d"><dax:parent ref="b"/><dax:parent ref="c"/></dax:child>
</dax:adag>
"""
DIAMOND = {("a", "b"): 1.0, ("a", "c"): 0.0, ("b", "d"): 20.0, ("c", "d"): 4_020.5}


def test_genome() -> None:
    path = data("workflows/GENOME.d.351024866.5.dax")
    job = dax.read(path, reference_speed=0.5)
    assert (job.job_id, job.submission_time, job.label, job.num_nodes, job.num_edges) == (0, 0.0, "test", 36, 42)
    assert job.work.sum() * 2 == pytest.approx(113_799.36)
    assert sum(not len(job.parents(node)) for node in range(36)) == 1
    graph = to_networkx(job)
    weights = nx.DiGraph()
    weights.add_weighted_edges_from(("start", node, graph.nodes[node]["work"]) for node in graph)
    weights.add_weighted_edges_from((parent, node, graph.nodes[node]["work"]) for parent, node in graph.edges)
    assert nx.dag_longest_path_length(weights) * 2 == pytest.approx(24_633.77)
    # A second reading of the file, with another parser
    name = "{http://pegasus.isi.edu/schema/DAX}"
    root = ElementTree.parse(path).getroot()
    uses: dict[tuple[str, str], dict[str, int]] = {}
    for element in root.iter(f"{name}job"):
        for use in element:
            entry = uses.setdefault((element.attrib["id"], use.attrib["link"]), {})
            entry[use.attrib["file"]] = int(use.attrib["size"])
    assert len({file for files in uses.values() for file in files}) == 56
    expected = {}
    for child in root.iter(f"{name}child"):
        for parent in child:
            pair = parent.attrib["ref"], child.attrib["ref"]
            written, read = uses[pair[0], "output"], uses[pair[1], "input"]
            expected[pair] = sum(written[file] for file in written.keys() & read.keys())
    assert edges_of(job) == expected
    assert sum(expected.values()) == 540_666_820


def test_version_2(put: Put) -> None:
    path, report = put(OLD), WorkflowReport()
    job = dax.read(path, report=report)
    assert (job.names, job.label, job.work.tolist()) == (("a", "b", "c", "d"), "diamond", [1, 2, 3, 4])
    assert edges_of(job) == DIAMOND
    assert list(report.places.values()) == [[f"{path.name}: 'x' has 1 bytes in 'a', 7 in 'b'"]]
    assert dax.read(put(OLD), reference_speed=1.5).work.tolist() == [1.5, 3, 4.5, 6]


def test_version_3(put: Put) -> None:
    with pytest.raises(
        WorkloadError,
        match=r": file 'y', written by 'b' and read by 'd', has no size; try default_size, ",
    ) as caught:
        dax.read(put(NEW.replace('name="y" link="input" size="20"', 'name="y" link="input"')))
    assert "line" not in str(caught.value)
    report = WorkflowReport()
    job = dax.read(put(NEW), default_size=5, report=report)  # each file has a size, of its writer or its reader
    assert not report.counts
    assert (job.names, job.label, job.work.tolist()) == (("a", "b", "c", "d"), "diamond", [1, 2, 3, 4])
    assert edges_of(job) == DIAMOND


def test_defaults(put: Put) -> None:
    text = OLD.replace(' runtime="2.0"', "").replace(' size="20"', "")
    job = dax.read(put(text), default_run_time=8, default_size=100)
    assert job.work.tolist() == [1, 8, 3, 4]
    assert edges_of(job) == DIAMOND | {("b", "d"): 100.0, ("c", "d"): 4_100.5}


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "latin-1", "gzip"])
def test_encodings(put: Put, encoding: str) -> None:
    text = OLD.replace("diamond", "diämond").replace(' encoding="UTF-8"', "")
    if encoding == "latin-1":
        text = text.replace('"1.0"?>', '"1.0" encoding="ISO-8859-1"?>')
    content = gzip.compress(text.encode()) if encoding == "gzip" else text.encode(encoding)
    job = dax.read(put(content))
    assert (job.label, edges_of(job)) == ("diämond", DIAMOND)


@settings(max_examples=60, deadline=None)
@given(data=st.data(), count=st.integers(1, 7))
def test_any_graph(data: st.DataObject, count: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    pairs = [(parent, child) for child in range(count) for parent in range(child) if data.draw(st.booleans())]
    sizes = {pair: data.draw(st.integers(0, 10**15)) for pair in pairs}
    times = data.draw(st.lists(st.floats(0, 1e15), min_size=count, max_size=count))
    order = data.draw(st.permutations(range(count)))
    root = ElementTree.Element("adag", version="2.1")
    for node in order:
        job = ElementTree.SubElement(root, "job", id=f"j{node}", runtime=repr(times[node]))
        for (parent, child), size in sizes.items():
            if node in (parent, child):
                link = "output" if node == parent else "input"
                ElementTree.SubElement(job, "uses", file=f"f{parent}-{child}", link=link, size=str(size))
    for parent, child in pairs:
        below = ElementTree.SubElement(root, "child", ref=f"j{child}")
        ElementTree.SubElement(below, "parent", ref=f"j{parent}")
    path = tmp_path_factory.getbasetemp() / "any.dax"
    ElementTree.ElementTree(root).write(path)
    job = dax.read(path, allow_disconnected=True)
    assert dict(zip(job.names, job.work.tolist(), strict=True)) == {f"j{at}": time for at, time in enumerate(times)}
    assert edges_of(job) == {(f"j{parent}", f"j{child}"): size for (parent, child), size in sizes.items()}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("<adag", "<dag", "line 31: is not XML: mismatched tag"),
        ("adag", "dag", "line 3: got the root <dag>, expected <adag>"),
        ('version="2.1"', 'version="4.0"', "line 3: version: got '4.0', expected 2.x or 3.x"),
        ('<job id="b"', '<job id="a"', "line 10: got a second job 'a', expected distinct ids"),
        (' runtime="2.0"', "", "line 10: job 'b': has no run time; try default_run_time, or --default-run-time"),
        ('<uses file="x" link="input"', '<uses link="input"', "line 11: <uses> has no attribute name"),
        (
            'file="x" link="input"',
            'file="x" link="up"',
            "line 11: link: got 'up', expected one of input, output, inout, none",
        ),
        ('<child ref="b">', '<child ref="q">', "line 25: <child>: got 'q', expected the id of a job"),
        (
            '<child ref="b"><parent ref="a"/>',
            '<child ref="b"><parent ref="d"/>',
            "job 0: the graph has the cycle d -> b -> d, expected none",
        ),
        (
            '<child ref="d">\n    <parent ref="b"/>\n  </child>\n  <child ref="d"><parent ref="c"/></child>\n',
            "",
            "job 0: the graph has 2 connected components, expected 1: 'a', 'b', 'c'; 'd'; try allow_disconnected=True",
        ),
        (
            '<job id="d" name="join"',
            '<dax id="d" file="other"',
            "line 20: got a nested workflow <dax>, expected only <job>",
        ),
    ],
)
def test_errors(put: Put, old: str, new: str, message: str) -> None:
    text = OLD.replace(old, new, -1 if old == "adag" else 1)
    assert text != OLD
    if "<dax " in text:
        text = text.replace('</job>\n  <child ref="b">', '</dax>\n  <child ref="b">')
    path = put(text)
    assert refusal(lambda: dax.read(path, allow_disconnected=False)) == f"{path}: {message}"


def test_entities_cannot_be_defined(put: Put) -> None:
    bomb = '<!DOCTYPE adag [\n<!ENTITY a "aaaaaaaaaa">\n'
    bomb += "".join(f'<!ENTITY {chr(98 + at)} "{f"&{chr(97 + at)};" * 10}">\n' for at in range(12)) + "]>\n"
    path = put(OLD.replace("<!-- a comment -->", bomb).replace("diamond", "&m;"))
    assert refusal(lambda: dax.read(path)) == f"{path}: line 2: got a document type declaration, expected none"


def test_damaged_files(put: Put) -> None:
    rng = random.Random(3)
    pieces = [
        *("<", ">", "/>", '"', "&", "&amp;", "&#0;", "<!DOCTYPE a>", "<![CDATA[x]]>", "<?x?>", "-1", "nan", "1e999"),
        *("\x00", "\xff", "a", "d", "", 'ref="d"', 'id="a"', "<dax/>", '<child ref="a"><parent ref="d"/></child>'),
        *('<job id="e" runtime="1"/>', 'size="x"', "<uses/>"),
    ]
    read, refused = 0, set()
    for _ in range(400):
        text = rng.choice([OLD, NEW])
        for _ in range(rng.randint(1, 2)):
            at = rng.randrange(len(text))
            text = text[:at] + rng.choice(pieces) + text[at + rng.choice([0, 0, 1, 10]) :]
        path = put(text.encode("utf-8" if rng.random() < 0.5 else "latin-1"))
        try:
            job = dax.read(path)
        except WorkloadError as error:
            assert str(error).startswith(f"{path}: ")
            assert "\n" not in str(error)
            refused.add(str(error))
        else:
            read += 1
            assert np.isfinite(job.work).all()
            assert np.isfinite(job.parent_size).all()
    assert read > 25
    assert len(refused) > 40


def test_repairs_are_counted_and_strict_reading_refuses_them(put: Put) -> None:
    """A negative size is an overflow of 32 bits: its absolute value counts; a relation stated twice is one edge."""
    path = put(
        OLD.replace('size="1"', 'size="-1"').replace('<parent ref="a"/>', '<parent ref="a"/><parent ref="a"/>', 1)
    )
    report = WorkflowReport()
    assert edges_of(dax.read(path, report=report)) == edges_of(dax.read(put(OLD, "other")))
    found = {reason.name: (count, report.places[reason]) for reason, count in report.counts.items()}
    assert found["NEGATIVE_SIZE"] == (1, ["file: line 7: 'x'"])
    assert found["REPEATED_RELATION"] == (1, ["file: 'a' -> 'b'"])
    assert refusal(lambda: dax.read(path, strict=True)) == (
        f"{path}: place file: line 7: 'x': negative size of a file: its absolute value used (changed, 1 times); strict "
        "reading expected nothing to repair"
    )


PEGASUS = """
pegasus: "5.0.4"
name: diamond
jobs:
- {type: job, id: A, name: split, metadata: {runtime: "1.5"}, uses: [{lfn: x, type: output, metadata: {size: "-7"}}]}
- {type: job, id: B, name: join, uses: [{lfn: x, type: input}, {lfn: y, type: input}]}
- {type: job, id: C, name: work, uses: [{lfn: y, type: output}]}
jobDependencies:
- {id: A, children: [B, C]}
- {id: C, children: [B]}
"""


def test_pegasus_5(put: Put) -> None:
    report = WorkflowReport()
    path = put(PEGASUS, "w.yml")
    job = registry.read(path, reference_speed=2.0, default_run_time=4.0, default_size=9.0, report=report)
    assert dict(zip(job.names, job.work.tolist(), strict=True)) == {"A": 3.0, "B": 8.0, "C": 8.0}
    assert (job.label, edges_of(job)) == ("diamond", {("A", "B"): 7.0, ("A", "C"): 0.0, ("C", "B"): 9.0})
    assert {reason.name: count for reason, count in report.counts.items()} == {
        "NEGATIVE_SIZE": 1, "ASSUMED_RUN_TIME": 2, "ASSUMED_SIZE": 1,
    }  # fmt: skip
    assert (report.rows, report.jobs) == (3, 1)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"5.0.4"', "4", "pegasus: got 4, expected a workflow of version 5"),
        ("id: C, name", "id: A, name", "job 'A': got a second job of this id, expected distinct ids"),
        ("type: job, id: A", "type: pegasusWorkflow, id: A", "job 'A': type: got 'pegasusWorkflow', expected 'job'"),
        ("[B, C]", "[B, Q]", "jobDependencies[0]: got 'Q', expected the id of a job"),
        ('"1.5"', '"1_5"', "job 'A': runtime: got '1_5', expected a number"),
        ("", "", "job 'B': has no run time; try default_run_time, or --default-run-time"),
    ],
)
def test_errors_of_pegasus_5(put: Put, old: str, new: str, message: str) -> None:
    path = put(PEGASUS.replace(old, new, 1), "w.yml")
    assert refusal(lambda: registry.read(path, default_run_time=1 if old else None)).startswith(f"{path}: {message}")
