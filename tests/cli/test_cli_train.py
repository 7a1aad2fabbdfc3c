"""``desim train``: what it prints and writes, interruption, errors."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import INTERRUPTIBLE, Desim
from small_trainings import environment, shrink, small

from desim.agents.batch.command import TrainingOptions
from desim.agents.batch.split_window import SplitWindowAgent
from desim.agents.batch.training import train
from desim.agents.learning.checkpoint import load_weights

TINY = ("train", "batch", "--cores", "16", "--head", "4", "--tail", "2", "--workers", "0")


@pytest.fixture(autouse=True)
def small_trainings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the command line train with small settings."""
    shrink(monkeypatch.setattr)


def weights_of(folder: Path, name: str = "split-window-4-2") -> dict[str, list[Any]]:
    return {key: tensor.tolist() for key, tensor in load_weights(folder / name)[0].items()}


def test_it_trains_what_the_library_trains(desim: Desim, tmp_path: Path) -> None:
    outcome = desim(*TINY, "--steps", "900", "--seed", "3", "--out", tmp_path, "--json")
    assert outcome.status == 0
    options = TrainingOptions(cores=16, head=4, tail=2, workers=0, steps=900, seed=3)
    expected = train(small(options))
    document = json.loads(outcome.out)
    assert document["status"] == "complete"
    assert document["weights"] == str(tmp_path / "split-window-4-2")
    assert document["validation"] == expected.best
    assert document["seconds"] > 0
    assert weights_of(tmp_path) == {name: tensor.tolist() for name, tensor in expected.weights.items()}
    lines = outcome.err.splitlines()
    assert len(lines) == len(expected.history)
    assert [int(line.split()[0].replace(",", "")) for line in lines] == [e["steps"] for e in expected.history]
    assert "decisions/s" in lines[-1]
    _, card = load_weights(tmp_path / "split-window-4-2")
    assert card["command"] == options.command()
    agent = SplitWindowAgent.load(tmp_path / "split-window-4-2")
    assert (agent.config.head, agent.config.tail, agent.config.num_cores) == (4, 2, 16)


def test_what_it_prints_for_people(desim: Desim, tmp_path: Path) -> None:
    outcome = desim(*TINY, "--steps", "100", "--warm-start", "2", "--name", "mine", "--out", tmp_path)
    assert outcome.status == 0
    first, second, third = outcome.out.splitlines()
    assert first.startswith("complete after ")
    assert second == f"weights: {tmp_path / 'mine'}.safetensors and .json"
    assert "waiting_time_mean " in third
    assert outcome.err.startswith("warm start: agrees with the rule in ")
    assert SplitWindowAgent.load(tmp_path / "mine").name == "mine"
    assert (tmp_path / "checkpoint" / "checkpoint.json").exists()
    assert list((tmp_path / "checkpoint" / "tensorboard").glob("events.*"))


def test_the_same_command_again_has_nothing_left_to_do(desim: Desim, tmp_path: Path) -> None:
    arguments = (*TINY, "--steps", "400", "--out", tmp_path, "--json")
    first = json.loads(desim(*arguments).out)
    before = (tmp_path / "split-window-4-2.safetensors").read_bytes()
    outcome = desim(*arguments)
    second = json.loads(outcome.out)
    assert outcome.status == 0
    assert outcome.err == ""
    assert {key: first[key] for key in first if key != "seconds"} == {
        key: second[key] for key in second if key != "seconds"
    }
    assert (tmp_path / "split-window-4-2.safetensors").read_bytes() == before


def test_more_steps_go_on_from_there(desim: Desim, tmp_path: Path) -> None:
    assert desim(*TINY, "--steps", "400", "--out", tmp_path).status == 0
    outcome = desim(*TINY, "--steps", "900", "--out", tmp_path)
    assert outcome.status == 0
    steps = [int(line.split()[0].replace(",", "")) for line in outcome.err.splitlines()]
    assert min(steps) > 400
    assert max(steps) >= 900


def interrupted(folder: Path, *more: str, presses_group: bool = False) -> tuple[int, str, str]:
    """Train in another process, and press Ctrl-C after the first checkpoint."""
    arguments, pressed = [*TINY, *more, "--out", str(folder)], folder.with_suffix(".pressed")
    code = (
        f"{INTERRUPTIBLE}import sys, small_trainings; small_trainings.shrink(); "
        f"small_trainings.wait_after_the_first_checkpoint({str(pressed)!r}); "
        f"from desim.cli import main; sys.exit(main({arguments!r}))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment() | {"OMP_NUM_THREADS": "1"},
        start_new_session=True,
    )
    try:
        while not (folder / "checkpoint" / "checkpoint.json").exists():
            assert process.poll() is None
            time.sleep(0.01)
        if presses_group:  # as a terminal does
            os.killpg(process.pid, signal.SIGINT)
        else:
            process.send_signal(signal.SIGINT)
        pressed.touch()
        printed, told = process.communicate()
    finally:
        process.kill()
    return process.returncode, printed, told


@pytest.mark.parametrize("workers", ["0", "1"])
def test_ctrl_c_loses_nothing(workers: str, desim: Desim, tmp_path: Path) -> None:
    options = ("--steps", "2500", "--workers", workers)
    status, printed, told = interrupted(tmp_path / "part", *options, presses_group=workers != "0")
    assert status == 1
    assert printed == f"interrupted; the same command goes on from {tmp_path / 'part'}\n"
    assert "Traceback" not in told
    assert not (tmp_path / "part" / "split-window-4-2.json").exists()
    document = json.loads((tmp_path / "part" / "checkpoint" / "checkpoint.json").read_text())
    assert 0 < document["steps"] < 2_500
    if workers != "0":
        return
    resumed = desim(*TINY, *options, "--out", tmp_path / "part", "--json")
    assert resumed.status == 0
    expected = json.loads(desim(*TINY, *options, "--out", tmp_path / "all", "--json").out)
    assert json.loads(resumed.out)["validation"] == expected["validation"]
    assert weights_of(tmp_path / "part") == weights_of(tmp_path / "all")
    _, card = load_weights(tmp_path / "part" / "split-window-4-2")
    steps = [entry["steps"] for entry in card["history"]]
    assert steps == sorted(set(steps))
    assert steps[-1] >= 2_500


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (("train", "--out", "OUT"), "what is to be learned is missing: desim train PROBLEM"),
        (("train", "chess", "--out", "OUT"), "nothing to train 'chess'; there are batch"),
        ((*TINY, "--out", "OUT", "--steps", "0"), "total_steps is 0"),
        ((*TINY, "--out", "OUT", "--seed", "-1"), "seed -1"),
        ((*TINY, "--out", "OUT", "--workers", "-1"), "workers -1"),
        ((*TINY, "--out", "OUT", "--workers", "9"), "9 workers for 4 environments"),
        ((*TINY, "--out", "OUT", "--warm-start", "-1"), "warm_start is -1"),
        ((*TINY, "--out", "OUT", "--load", "0"), "load 0.0"),
        ((*TINY, "--out", "OUT", "--head", "0", "--tail", "0"), "a window of 0 + 0 slots"),
        ((*TINY, "--out", "OUT", "--group", "3"), "no whole number of groups of 3"),
        ((*TINY, "--out", "OUT", "--learning-rate", "0"), "learning rate is 0"),
        ((*TINY, "--out", "OUT", "--entropy", "nan"), "entropy nan"),
        ((*TINY, "--out", "OUT", "--network", "mlp", "--any-window"), "is for one window"),
        ((*TINY, "--out", "OUT", "--network", "mlp", "--any-window", "--workers", "1"), "is for one window"),
        ((*TINY, "--out", "OUT", "--network", "mlp", "--reserve-after", "9"), "reserve_after is for the scorer"),
    ],
    ids=lambda value: " ".join(value[-4:]) if isinstance(value, tuple) else None,
)
def test_what_makes_no_sense_is_told_in_a_line(
    arguments: tuple[str, ...], what: str, desim: Desim, tmp_path: Path
) -> None:
    outcome = desim(*(str(tmp_path / "out") if word == "OUT" else word for word in arguments))
    assert outcome.status == 2
    assert outcome.out == ""
    assert outcome.err.startswith("desim: error: ")
    assert what in outcome.err
    assert outcome.err.count("\n") == 1
    assert not list(tmp_path.rglob("*.safetensors"))


def test_another_training_in_the_same_place_is_refused(desim: Desim, tmp_path: Path) -> None:
    assert desim(*TINY, "--steps", "200", "--out", tmp_path).status == 0
    for more, what in (
        (("--seed", "1"), "its seed is 0, not 1"),
        (("--reward", "paper"), "its reward is 'waiting', not 'paper'"),
        (("--head", "5"), "its agent is"),
    ):
        outcome = desim(*TINY, "--steps", "200", "--out", tmp_path, *more)
        assert outcome.status == 2
        assert f"holds a checkpoint of another training: {what}" in outcome.err
        assert outcome.err.count("\n") == 1


def test_a_broken_checkpoint_is_told_in_a_line(desim: Desim, tmp_path: Path) -> None:
    assert desim(*TINY, "--steps", "200", "--out", tmp_path).status == 0
    path = tmp_path / "checkpoint" / "checkpoint.json"
    path.write_text(path.read_text()[:50])
    outcome = desim(*TINY, "--steps", "200", "--out", tmp_path)
    assert outcome.status == 2
    assert outcome.err.count("\n") == 1
    assert "checkpoint.json cannot be read" in outcome.err


def test_help_has_the_options_with_examples(desim: Desim) -> None:
    outcome = desim("train", "batch", "--help")
    assert outcome.status == 0
    for word in ("--out", "--head", "--tail", "--seed", "--json", "--warm-start", "desim train batch --quick"):
        assert word in outcome.out


@pytest.mark.slow
def test_a_quick_training_beats_the_first_job_that_fits(
    desim: Desim, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()  # with its own settings
    outcome = desim("train", "batch", "--quick", "--workers", "0", "--out", tmp_path, "--json")
    assert outcome.status == 0
    agents = f"split-window:{tmp_path}/split-window-16-16,window-first-16-16"
    found = desim("evaluate", "batch", "--agents", agents, "--episodes", "8", "--load", "1.06", "--json")
    means = json.loads(found.out)["means"]
    waits = [row["waiting_time_mean"]["mean"] for row in means.values()]
    assert np.isfinite(waits).all()
    assert waits[0] < waits[1]
