"""Help texts that come from docstrings hold no markup, and no defaults that are empty."""

from __future__ import annotations

import json
import re

import pytest
from command_line import Desim

from desim import plugins
from desim.cli.helptext import plain_text

MARKUP = re.compile(r"``|:\w+:`|::|\(default: ?\)|\(default: None\)")


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("see :class:`Reward`", "see Reward"),
        ("see :class:`~desim.envs.Reward`", "see Reward"),
        ("see :func:`desim.envs.make`", "see desim.envs.make"),
        ("see :py:class:`a reward <desim.envs.Reward>`", "see a reward"),
        ("``a`` or ``b:c``", "a or b:c"),
        ("Examples::\n\n    desim run", "Examples:\n    desim run"),
        ("a: b, `desim list`", "a: b, `desim list`"),
    ],
)
def test_markup_is_removed(text: str, plain: str) -> None:
    assert plain_text(text) == plain


@pytest.mark.parametrize("name", plugins.trainings())
def test_trainings_have_plain_help(name: str, desim: Desim) -> None:
    pytest.importorskip("torch")
    shown = desim("train", name, "--help")
    assert shown.status == 0
    assert f"Examples:\n    desim train {name} " in shown.out
    assert "--learning-rate" in shown.out
    assert "(default: " in shown.out
    assert MARKUP.findall(shown.out) == []


@pytest.mark.parametrize("words", [("tune", "deferrable"), ("run", "batch"), ("compare",), ("reproduce",)])
def test_other_commands_have_plain_help(words: tuple[str, ...], desim: Desim) -> None:
    if words[0] == "tune":
        pytest.importorskip("torch")
    shown = desim(*words, "--help")
    assert shown.status == 0
    assert MARKUP.findall(shown.out) == []


def test_what_a_parser_reads_stays_the_same(desim: Desim) -> None:
    outcome = desim("run", "batch", "--jobs", "5", "--agent", "fcfs", "--seed", "3", "--json")
    assert outcome.status == 0
    assert json.loads(outcome.out)["metrics"]["jobs_completed"] == 5
