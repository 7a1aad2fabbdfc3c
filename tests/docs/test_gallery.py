"""The gallery: enough examples, each with a title, text and pictures; all kinds of pictures; all scripts run."""

from __future__ import annotations

import ast
import inspect
import io
import re
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

from desim import plotting

EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples"
SCRIPTS = sorted(EXAMPLES.glob("*/plot_*.py"))


def called(tree: ast.AST) -> set[str]:
    """Return the names of all functions and methods that are called."""
    functions = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return {function.attr for function in functions if isinstance(function, ast.Attribute)} | {
        function.id for function in functions if isinstance(function, ast.Name)
    }


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_example_has_title_text_and_pictures(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    title, underline, *rest = (ast.get_docstring(tree) or "").splitlines()
    assert title
    assert underline == "=" * len(title)
    assert " ".join(rest).strip().endswith("."), "no sentence below the title"
    assert re.search(r"^# %%\n# \w", text, re.M), "no block begins with text"
    assert called(tree) & {*plotting.__all__, "subplots"}, "no picture"
    assert "shared" not in text, "the gallery is built where there are no traces"


def test_gallery_has_at_least_twelve_examples_and_every_folder_a_heading() -> None:
    assert len(SCRIPTS) >= 12
    for folder in {path.parent for path in SCRIPTS} | {EXAMPLES}:
        heading, underline = (folder / "GALLERY_HEADER.rst").read_text(encoding="utf-8").splitlines()[:2]
        assert len(underline) == len(heading) > 0


def test_every_kind_of_picture_is_in_the_gallery() -> None:
    shown = {name for path in SCRIPTS for name in called(ast.parse(path.read_text(encoding="utf-8")))}
    functions = {name for name in plotting.__all__ if inspect.isfunction(getattr(plotting, name))}
    assert functions - shown == {"view"}  # which is a page and no picture


@pytest.mark.slow
@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_example_runs_and_draws(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figures: list[Figure] = []
    make = Figure.__init__

    def remember(figure: Figure, *arguments: Any, **options: Any) -> None:
        make(figure, *arguments, **options)
        figures.append(figure)

    monkeypatch.setattr(Figure, "__init__", remember)
    monkeypatch.setenv("MPLBACKEND", "agg")
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), {"__name__": "__main__"})
    assert figures
    for figure in figures:
        assert figure.axes, "an empty figure"
        figure.savefig(io.BytesIO(), format="png", bbox_inches="tight")
