"""The examples in docstrings print what they say, and none is left out."""

from __future__ import annotations

import ast
import doctest
import importlib
import os
from pathlib import Path

import pytest
from documentation import SOURCES, module_name, read

MODULES = [path for path in SOURCES if ">>> " in read(path)]
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def examples_written(path: Path) -> int:
    """Count the examples in all texts of a module, whatever they belong to."""
    texts = (node.value for node in ast.walk(ast.parse(read(path))) if isinstance(node, ast.Constant))
    parser = doctest.DocTestParser()
    return sum(len(parser.get_examples(text)) for text in texts if isinstance(text, str))


@pytest.mark.parametrize("path", MODULES, ids=module_name)
def test_docstrings_print_what_they_say(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module(module_name(path))
    monkeypatch.chdir(tmp_path)
    failed, attempted = doctest.testmod(module, optionflags=OPTIONS, report=False)
    assert failed == 0
    assert attempted == examples_written(path)


def test_an_example_that_is_wrong_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    module = type(os)("wrong")
    module.__doc__ = ">>> 1 + 1\n3\n"
    assert doctest.testmod(module, optionflags=OPTIONS, report=False).failed == 1
    (tmp_path / "wrong.py").write_text('"""Two.\n\n>>> 1 + 1\n2\n>>> 1\n1\n"""\n')
    assert examples_written(tmp_path / "wrong.py") == 2
