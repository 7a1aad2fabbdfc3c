"""The tutorial can be followed word by word: pasted at a prompt, from commands that are there."""

from __future__ import annotations

import codeop
import re

import pytest
from test_examples import ROOT, Block, blocks_of

PAGE = ROOT / "docs" / "tutorial.rst"
BLOCKS = [block for block in blocks_of(PAGE) if block.language == "python"]


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: f"line-{block.line}")
def test_block_can_be_pasted_at_a_prompt(block: Block) -> None:
    """A prompt takes a statement as complete at the first blank line, unlike a file."""
    entered: list[str] = []
    for line in [*block.code.splitlines(), ""]:
        entered.append(line)
        if codeop.compile_command("\n".join(entered), f"tutorial.rst, line {block.line}", "single") is not None:
            entered.clear()
    assert not any(entered), f"no end: {entered}"


@pytest.mark.parametrize(
    "name",
    ["docs/tutorial.rst", "docs/installation.rst", "README.md", "CONTRIBUTING.md", ".github/workflows/checks.yml"],
)
def test_commands_of_make_are_in_the_makefile(name: str) -> None:
    if not (ROOT / name).exists() and name.startswith("."):
        pytest.skip("not part of the source distribution")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    wanted = re.findall(r"(?:\$|run:) make ([\w-]+)", (ROOT / name).read_text(encoding="utf-8"))
    assert wanted
    assert all(re.search(rf"^{target}:", makefile, re.M) for target in wanted)


def test_files_are_written_before_they_are_used() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for written, used in {
        'open("my_agent.py", "w")': "my_agent:Shortest",
        'save("trained-run")': "plot trained-run",
    }.items():
        assert 0 <= text.find(written) < text.find(used)
