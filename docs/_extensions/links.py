"""Links for names that docstrings write in full, or short, where the reference documents them elsewhere.

A class that is defined in ``desim.problems.batch.job`` is documented as part of ``desim.problems.batch``, where users
import it from. A name with a dot or a capital letter, or with a role of its own, links to the object whose last part
is the same, if there is only one; of several, to the one that the name stands for.

Pages link to each other by the names of their files, as in ```Tour <tour.rst>`__``, which GitHub follows. In the built
documentation these links lead to the pages; those to programs below ``examples`` lead to their pages in the gallery.
"""

from __future__ import annotations

import functools
import importlib
import posixpath
from typing import Any

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util import logging
from sphinx.util.nodes import make_refnode

__all__ = ["page_of", "public_names", "setup"]

logger = logging.getLogger(__name__)


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
        "desim.workloads.batch.registry": ("LoadedWorkload",),
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
    found = {(objects[name].docname, objects[name].node_id): name for name in _by_last_part(app, objects).get(last, ())}
    if len(found) > 1:
        thing = _imported(target)
        same = {place: name for place, name in found.items() if thing is not None and _imported(name) is thing}
        found = same or {place: name for place, name in found.items() if "." in target and name.endswith(f".{target}")}
    if len(found) != 1:
        return None
    ((docname, anchor), name) = next(iter(found.items()))
    return make_refnode(app.builder, node["refdoc"], docname, anchor, content, name)


def _by_last_part(app: Sphinx, objects: dict[str, Any]) -> dict[str, list[str]]:
    """Return the full names of all objects by their last part, listed once for all references of a build."""
    known = getattr(app, "_desim_names", None)
    if known is None or known[0] != len(objects):
        names: dict[str, list[str]] = {}
        for name in objects:
            names.setdefault(name.rpartition(".")[2], []).append(name)
        known = (len(objects), names)
        app._desim_names = known
    return known[1]


@functools.cache
def _imported(name: str) -> Any:
    """Return what a name in a module stands for, None if nothing does."""
    module, _, attribute = name.rpartition(".")
    try:
        return getattr(importlib.import_module(module), attribute, None)
    except (ImportError, ValueError):
        return None


def page_of(docname: str, address: str) -> str | None:
    """Return the page that a relative link from a page leads to; None if the link is not one to a page."""
    if ":" in address or not address.endswith((".rst", ".py", "examples")):
        return None
    path = posixpath.normpath(posixpath.join(posixpath.dirname(docname), address))
    if path == "examples":
        return "auto_examples/index"
    return posixpath.splitext(path.replace("examples/", "auto_examples/", 1))[0]


def _link_pages(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Let links to files of pages lead to the pages."""
    for node in doctree.findall(nodes.reference):
        address, mark, section = node.get("refuri", "").partition("#")
        page = page_of(docname, address)
        if page in app.env.found_docs:
            node["refuri"] = app.builder.get_relative_uri(docname, page) + mark + section
        elif page is not None:
            logger.warning("no page %s", address, location=node)


def setup(app: Sphinx) -> None:
    """Look for what Sphinx itself has not found."""
    app.connect("missing-reference", _resolve)
    app.connect("doctree-resolved", _link_pages)
