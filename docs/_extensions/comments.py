"""What the reference says of constants: the text below them, or the comment above, also where they are imported from.

Sphinx itself looks for it in the module that the reference names, and shows the documentation of ``tuple`` otherwise.
"""

from __future__ import annotations

import ast
from typing import Any

from sphinx.application import Sphinx
from sphinx.errors import PycodeError
from sphinx.pycode import ModuleAnalyzer

__all__ = ["comment_of", "setup"]


def comment_of(module: str, name: str) -> list[str]:
    """Return the lines that describe a constant of a module, wherever it is defined; none if nothing does."""
    try:
        analyzer = ModuleAnalyzer.for_module(module)
        found = analyzer.find_attr_docs().get(("", name), [])
    except PycodeError:  # not a module of Python
        return []
    if found:
        return found
    for statement in ast.parse(analyzer.code).body:
        if isinstance(statement, ast.ImportFrom) and statement.module is not None:
            for imported in statement.names:
                if (imported.asname or imported.name) == name:
                    return comment_of(statement.module, imported.name)
    return []


def _describe(app: Sphinx, what: str, name: str, *others: Any) -> None:
    lines: list[str] = others[-1]
    if what == "data":
        module, _, attribute = name.rpartition(".")
        lines[:] = comment_of(module, attribute) or lines


def setup(app: Sphinx) -> None:
    """Look at constants before they are shown."""
    app.connect("autodoc-process-docstring", _describe, priority=400)  # before numpydoc
