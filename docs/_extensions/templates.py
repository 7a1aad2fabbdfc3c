"""One template for all docstrings: numpydoc compiles its own for each of them, and once more for its signature."""

from __future__ import annotations

from pathlib import Path

from jinja2 import BaseLoader, FileSystemLoader
from jinja2.sandbox import SandboxedEnvironment
from numpydoc import docscrape_sphinx

__all__ = ["setup"]


def setup(app: object) -> None:
    """Make numpydoc use one template environment, which caches compiled templates."""
    shared = SandboxedEnvironment(loader=FileSystemLoader(Path(docscrape_sphinx.__file__).parent / "templates"))

    def environment(loader: BaseLoader) -> SandboxedEnvironment:
        return shared

    docscrape_sphinx.SandboxedEnvironment = environment  # type: ignore[misc]
