"""Inputs that are almost right end in one sentence with status 2, without a traceback, in little memory and time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import fuzzing
import pytest

import desim
from desim.cli import main

#: What an input may lead to: ``parser`` is the option parser's own message, with the option's help.
FINE = {"accepted", "one sentence", "parser"}
MOST_MIB = 1_500


@pytest.mark.filterwarnings("ignore:.*")
def test_some_inputs_that_are_almost_right(tmp_path: Path) -> None:
    fuzzing.prepare(tmp_path, main)
    found = [fuzzing.perform(number, tmp_path, main) for number in range(45)]
    assert [one for one in found if one["kind"] not in FINE] == []
    assert len({one["kind"] for one in found}) == 3


@pytest.mark.slow
def test_a_thousand_inputs_that_are_almost_right(tmp_path: Path) -> None:
    program = [sys.executable, str(Path(fuzzing.__file__)), "0", "1000", str(tmp_path)]
    ours = os.environ | {"PYTHONPATH": str(Path(desim.__file__).parents[1])}  # not that of another checkout
    done = subprocess.run(program, capture_output=True, text=True, check=False, timeout=1_800, env=ours)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    found = [one for one in lines if "kind" in one]
    worst = max(found, key=lambda one: float(one["seconds"]))
    print(Counter(one["kind"] for one in found), f"{found[-1]['MiB']} MiB, {worst['seconds']:.1f} s: {worst['call']}")
    assert len(found) == 1_000, (done.stderr[-500:], lines[-1])
    assert [one for one in found if one["kind"] not in FINE] == []
    assert found[-1]["MiB"] < MOST_MIB
