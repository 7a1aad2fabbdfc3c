"""Every Python block of the README and of the documentation runs and prints what it says."""

from __future__ import annotations

import contextlib
import doctest
import io
import os
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
TRACES = ROOT.parent / "shared" / "data" / "swf"
PAGES = sorted(path for path in (ROOT / "docs").rglob("*.rst") if not {"_build", "auto_examples"} & set(path.parts))
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE | doctest.REPORT_NDIFF

RST = re.compile(r"^(?P<indent> *)\.\. (?P<name>testcode|testoutput)::[^\n]*\n(?P<body>(?:(?P=indent) +[^\n]*\n|\s*\n)+)", re.M)
MARKDOWN = re.compile(r"^```(?P<name>python|text)\n(?P<body>.*?)^```$", re.M | re.S)
UNTESTED = re.compile(r"^ *\.\. code(-block)?:: *(python|pycon)|^ *>>> ", re.M)


class Block(NamedTuple):
    """A piece of code, what it prints if the page says so, and when to leave it out."""

    line: int
    code: str
    output: str | None
    skip_if: str | None


def blocks_of(path: Path) -> list[Block]:
    """Return the code of a page, each with the output that follows it."""
    text = path.read_text(encoding="utf-8")
    blocks: list[Block] = []
    for match in (MARKDOWN if path.suffix == ".md" else RST).finditer(text):
        options, body = split_options(match["body"])
        if match["name"] in ("testcode", "python"):
            blocks.append(Block(text.count("\n", 0, match.start()) + 1, body, None, options.get("skipif")))
        elif blocks and blocks[-1].output is None:
            blocks[-1] = blocks[-1]._replace(output=body)
    return blocks


def split_options(body: str) -> tuple[dict[str, str], str]:
    """Return the options of a directive and its content."""
    options: dict[str, str] = {}
    lines = textwrap.dedent(body).splitlines()
    while lines and (option := re.fullmatch(r":(\w+): *(.*)", lines[0])):
        options[option[1]] = option[2]
        del lines[0]
    return options, "\n".join(lines).strip("\n") + "\n"


def run(path: Path) -> Iterator[tuple[Block, str]]:
    """Run the blocks of a page in one namespace and yield each with what it has printed."""
    names: dict[str, Any] = {"__name__": "__main__", "os": os}
    for block in blocks_of(path):
        if block.skip_if and eval(block.skip_if, {"os": os}):
            continue
        printed = io.StringIO()
        source = "\n" * block.line + block.code  # so that a traceback names the line of the page
        with contextlib.redirect_stdout(printed):
            exec(compile(source, str(path), "exec"), names)
        yield block, printed.getvalue()


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty current directory that holds the real traces, where there are any."""
    for trace in TRACES.glob("*.swf"):
        (tmp_path / trace.name).symlink_to(trace)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "path",
    [path for path in (ROOT / "README.md", *PAGES) if blocks_of(path)],
    ids=lambda path: path.relative_to(ROOT).as_posix(),
)
def test_page_prints_what_it_says(path: Path, workplace: Path) -> None:
    checker = doctest.OutputChecker()
    for block, printed in run(path):
        wanted = block.output or ""
        example = doctest.Example(block.code, wanted)
        assert checker.check_output(wanted, printed, OPTIONS), (
            f"{path.name}, line {block.line}:\n{checker.output_difference(example, printed, OPTIONS)}"
        )


def test_every_python_block_of_the_documentation_is_tested() -> None:
    untested = [path.name for path in PAGES if UNTESTED.search(path.read_text(encoding="utf-8"))]
    assert untested == []


def test_blocks_are_found_with_output_and_options(tmp_path: Path) -> None:
    page = tmp_path / "page.rst"
    page.write_text(
        "Text.\n\n.. testcode::\n   :skipif: True\n\n   print(1)\n\n   print(2)\n\n.. testoutput::\n\n   1\n\n   2\n\nMore.\n"
    )
    assert blocks_of(page) == [Block(3, "print(1)\n\nprint(2)\n", "1\n\n2\n", "True")]
