"""What the README and the documentation show runs as they show it: Python blocks, and commands of desim."""

from __future__ import annotations

import contextlib
import doctest
import io
import os
import re
import shlex
import signal
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT.parent / "shared" / "data"
PAGES = sorted(path for path in (ROOT / "docs").rglob("*.rst") if not {"_build", "auto_examples"} & set(path.parts))
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE | doctest.REPORT_NDIFF

RST = re.compile(
    r"^(?:\.\. skipif: (?P<skipif>[^\n]*)\n\n)?"
    r"(?P<indent> *)\.\. code-block:: (?P<language>python|text|console)\n(?P<body>(?:(?P=indent) +[^\n]*\n| *\n)+)",
    re.M,
)
MARKDOWN = re.compile(
    r"^(?:<!-- skipif: (?P<skipif>[^\n]*) -->\n)?```(?P<language>python|text|console)\n(?P<body>.*?)^```$", re.M | re.S
)
UNTESTED = re.compile(
    r"^ *\.\. (?:test\w+|doctest|code|sourcecode|literalinclude)::|^ *>>> "
    r"|^ *\.\. code-block::(?! (?:python|text|console|none|ini|bash)$)",
    re.M,
)


#: What a sweep says of its progress, on standard error and on a busy machine only.
PROGRESS = re.compile(r"^[^\n]*: \d+ of \d+ runs(, \d+ failed)?(, about [^\n]* left)?\n", re.M)


class Block(NamedTuple):
    """A piece of code, what it prints if the page says so, and when to leave it out."""

    line: int
    language: str
    code: str
    output: str | None
    skip_if: str | None


def blocks_of(path: Path) -> list[Block]:
    """Return the code of a page, each with the output that follows it."""
    text = path.read_text(encoding="utf-8")
    blocks: list[Block] = []
    for match in (MARKDOWN if path.suffix == ".md" else RST).finditer(text):
        found = match.groupdict()
        body = textwrap.dedent(found["body"]).strip("\n") + "\n"
        language = found["language"]
        line = text.count("\n", 0, match.start("body"))
        if language == "text" and blocks and blocks[-1].output is None:
            blocks[-1] = blocks[-1]._replace(output=body)
        elif language == "python":
            blocks.append(Block(line, language, body, None, found["skipif"]))
        elif language == "console":
            blocks += commands_of(line, body)
    return blocks


def commands_of(line: int, body: str) -> Iterator[Block]:
    """Take a session apart; only commands of desim are run, and those on real logs only if these are there."""
    logs = {"kth": "KTH-SP2-1996-2.swf", "nasa": "NASA-iPSC-1993-3.1-cln.swf"}
    for command, output in re.findall(r"^\$ (desim [^\n]*)\n((?:(?!\$ )[^\n]*\n)*)", body, re.M):
        needed = [file for name, file in logs.items() if name in command.lower()]
        yield Block(line, "console", command, output or "...", f"not all(map(os.path.exists, {needed}))")


def run(path: Path) -> Iterator[tuple[Block, str]]:
    """Run the blocks of a page one after the other and yield each with what it has printed."""
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks_of(path):
        if block.skip_if and eval(block.skip_if, {"os": os}):
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            if block.language == "python":
                source = "\n" * block.line + block.code  # so that a traceback names the line of the page
                exec(compile(source, str(path), "exec"), names)
            else:
                from desim.cli import main

                arguments = shlex.split(block.code)[1:]
                main([*arguments, "--workers", "1"] if arguments[0] in ("compare", "demo") else arguments)
        yield block, PROGRESS.sub("", printed.getvalue())


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Go to an empty directory that holds the real traces, where there are any; let Ctrl-C do what it does."""
    for trace in (*DATA.glob("swf/*.swf"), *map(DATA.joinpath, ("alibaba", "azure", "tpch", "workflows"))):
        if trace.exists():
            (tmp_path / trace.name).symlink_to(trace)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)  # an interactive session imports what lies in its directory
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield tmp_path
    signal.signal(signal.SIGINT, before)
    for name, module in list(sys.modules.items()):
        if (getattr(module, "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]


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


def test_the_guide_names_every_command() -> None:
    from desim.cli.app import COMMANDS

    page = (ROOT / "docs" / "guides" / "command_line.rst").read_text(encoding="utf-8")
    table = page[page.index(".. list-table::") : page.index("Run a simulation")]
    assert sorted(re.findall(r"``desim (\w+)``", table)) == sorted(COMMANDS)


def test_every_python_block_of_the_documentation_is_tested() -> None:
    untested = [path.name for path in PAGES if UNTESTED.search(path.read_text(encoding="utf-8"))]
    assert untested == []


def test_blocks_are_found_with_output_and_conditions(tmp_path: Path) -> None:
    page = tmp_path / "page.rst"
    page.write_text(
        "Text.\n\n.. skipif: True\n\n.. code-block:: python\n\n   print(1)\n\n   print(2)\n\n"
        ".. code-block:: text\n\n   1\n\n   2\n\n"
        "More.\n\n.. code-block:: console\n\n   $ make\n   $ desim list\n   ...\n\nEnd.\n"
    )
    code, command = blocks_of(page)
    assert code == Block(5, "python", "print(1)\n\nprint(2)\n", "1\n\n2\n", "True")
    assert (command.language, command.code, command.output) == ("console", "desim list", "...\n")
