"""Links for names that docstrings write in full, or short, where the reference documents them elsewhere.

A class that is defined in ``desim.problems.batch.job`` is documented as part of ``desim.problems.batch``, where users
import it from. A name with a dot or a capital letter, or with a role of its own, links to the object whose last part
is the same, if there is only one; of several, to the one that the name stands for.
"""

from __future__ import annotations

import importlib
from typing import Any

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util.nodes import make_refnode

__all__ = ["public_names", "setup"]


def public_names() -> dict[str, str]:
    """Return the classes that types in docstrings name, with where they are documented."""
    places = {
        "desim": ("Decision", "Phase", "Problem", "Result", "Simulation", "SimulationInterrupted"),
        "desim.exceptions": (
            "DesimError",
            "InfeasibleAction",
            "InvalidConfiguration",
            "MissingDependency",
            "RecordError",
            "WorkloadError",
        ),
        "desim.problems.batch": (
            "BatchObservation",
            "Execution",
            "Job",
            "Queue",
            "Running",
            "Start",
            "WaitForCores",
            "WaitUntil",
        ),
        "desim.processes": ("Outage",),
        "desim.statistics": ("Estimate",),
        "desim.validation": ("ValidationReport", "Violation"),
        "desim.agents.base": ("Agent",),
        "desim.agents.batch": ("Priority", "Slot"),
        "desim.workloads.batch.registry": ("Workload",),
        "desim.workloads.report": ("RepairReport",),
        "desim.workloads.batch.selection": ("TraceOptions",),
        "desim.workloads.batch.swf": ("SWFStream",),
        "desim.workloads.batch.trace": ("Trace", "TraceHeader", "TraceReason", "TraceReport"),
    }
    return {name: f"{module}.{name}" for module, names in places.items() for name in names}


def _resolve(
    app: Sphinx, env: BuildEnvironment, node: pending_xref, content: nodes.TextElement
) -> nodes.reference | None:
    target = node.get("reftarget", "").lstrip("~.").removesuffix("()")
    last = target.rpartition(".")[2]
    is_plain_word = last == target and last.islower() and node.get("reftype") == "obj"  # a parameter, as a rule
    if node.get("refdomain") != "py" or not last or is_plain_word:
        return None
    objects = env.get_domain("py").data["objects"]
    found = {(entry.docname, entry.node_id): name for name, entry in objects.items() if name.rpartition(".")[2] == last}
    if len(found) > 1:
        thing = _imported(target)
        same = {place: name for place, name in found.items() if thing is not None and _imported(name) is thing}
        found = same or {place: name for place, name in found.items() if "." in target and name.endswith(f".{target}")}
    if len(found) != 1:
        return None
    ((docname, anchor), name) = next(iter(found.items()))
    return make_refnode(app.builder, node["refdoc"], docname, anchor, content, name)


def _imported(name: str) -> Any:
    """Return what a name in a module stands for, None if nothing does."""
    module, _, attribute = name.rpartition(".")
    try:
        return getattr(importlib.import_module(module), attribute, None)
    except (ImportError, ValueError):
        return None


def setup(app: Sphinx) -> None:
    """Look for what Sphinx itself has not found."""
    app.connect("missing-reference", _resolve)
