"""The reference documents every public object.

Public is what a package lists in its ``__all__``, and what a module does whose members the reference shows, or that
lies directly in one of `LISTING_NOTHING`, which list nothing. What other modules list is
for the modules beside them.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import pkgutil
from typing import Any

from documentation import DOCS, documented, is_there, thing_called

import desim

#: The command line has a guide instead, and the experiments are programs.
PROGRAMS = ("desim.cli", "desim.experiments")
LISTING_NOTHING = ("desim.agents", "desim.agents.learning", "desim.workloads.batch", "desim.workloads.dag")


def public_modules() -> list[str]:
    """Return the modules whose lists of names are public."""
    found = []
    shown = set(documented().modules)
    for info in (None, *pkgutil.walk_packages(desim.__path__, "desim.")):
        name = "desim" if info is None else info.name
        inside = name.rpartition(".")[0] in LISTING_NOTHING
        hidden = name.startswith(PROGRAMS) or any(part.startswith("_") for part in name.split("."))
        if not hidden and (info is None or info.ispkg or inside or name in shown):
            found.append(name)
    return found


def undocumented(modules: list[str], names: list[str]) -> list[str]:
    """Return the public names for which the reference has nothing, under whatever name."""
    by_last: dict[str, list[Any]] = {}
    for name in names:
        by_last.setdefault(name.rpartition(".")[2], []).append(thing_called(name))
    missing = []
    for module in modules:
        for name in getattr(importlib.import_module(module), "__all__", ()):
            thing = thing_called(f"{module}.{name}")
            if not inspect.ismodule(thing) and not any(other is thing for other in by_last.get(name, ())):
                missing.append(f"{module}.{name}")
    return missing


def test_the_reference_documents_every_public_object() -> None:
    modules = public_modules()
    assert {
        "desim",
        "desim.processes",
        "desim.workloads.batch.swf",
        "desim.agents.learning.ppo",
        "desim.agents.dag.orders",
    } <= set(modules)
    assert undocumented(modules, documented().names) == []


def test_what_the_reference_documents_exists() -> None:
    assert [name for name in documented().names if not is_there(name)] == []


def test_an_object_that_is_left_out_is_found() -> None:
    others = [name for name in documented().names if not name.endswith(".simulate")]
    assert undocumented(["desim"], others) == ["desim.simulate"]


def test_constants_have_the_text_of_where_they_are_defined() -> None:
    path = DOCS / "_extensions" / "comments.py"
    spec = importlib.util.spec_from_file_location("comments", path)
    assert spec is not None and spec.loader is not None
    comments = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(comments)
    assert comments.comment_of("desim.workloads.multiserver", "RESOURCES") == ["Resources of a generated system.", ""]
    assert comments.comment_of("desim.envs", "ACTION_MASK") == comments.comment_of("desim.envs.base", "ACTION_MASK")
    assert comments.comment_of("desim.envs", "nothing") == comments.comment_of("math", "pi") == []
