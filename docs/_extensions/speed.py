"""What makes a build faster; none of it changes a page. Together these steps save a quarter of the processor time.

Memory suffices for a build without garbage collection. numpydoc compiles its template anew for each docstring and
signature. Sphinx formats thousands of debugging messages that nobody sees, searches every module for the lines of its
definitions, which only source pages need, and reads the source of each function twice.
"""

from __future__ import annotations

import functools
import gc
import inspect
import logging
from pathlib import Path
from typing import Any

from jinja2 import BaseLoader, FileSystemLoader
from jinja2.sandbox import SandboxedEnvironment
from numpydoc import docscrape_sphinx
from sphinx.application import Sphinx
from sphinx.pycode.parser import Parser

__all__ = ["keep", "setup"]


def keep(*others: Any) -> None:
    """Exempt all objects from collections: those that the gallery requests, and the last one as Python ends."""
    gc.freeze()


def setup(app: Sphinx) -> None:
    """Replace what is slow, for this process."""
    gc.disable()
    app.connect("build-finished", keep)
    shared = SandboxedEnvironment(loader=FileSystemLoader(Path(docscrape_sphinx.__file__).parent / "templates"))

    def environment(loader: BaseLoader) -> SandboxedEnvironment:
        return shared

    docscrape_sphinx.SandboxedEnvironment = environment  # type: ignore[misc]
    if app.verbosity == 0:
        logging.getLogger("sphinx").setLevel(logging.INFO)
    Parser.parse_definition = lambda parser: None  # type: ignore[method-assign]
    inspect.getsource = functools.cache(inspect.getsource)
