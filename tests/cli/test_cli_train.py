"""``desim train``: what it prints and writes, interruption, errors."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import INTERRUPTIBLE, Desim

from desim.agents.batch.split_window import SplitWindowAgent, SplitWindowConfig
from desim.agents.batch.training import EpisodeOptions, SplitWindowTraining
from desim.agents.dag.training import GraphTraining
from desim.agents.deferrable.training import ScoreTraining
from desim.agents.learning.checkpoint import load_weights
from desim.agents.learning.training import TrainingConfig

LOOP = "--num-envs 4 --num-steps 40 --validation-episodes 2 --validate-every 2 --minibatch-size 64 --epochs 2"
EPISODES = "--num-traces 2 --trace-jobs 120 --num-jobs 30"
TINY = ("train", "batch", *f"--num-cores 16 --head 4 --tail 2 --hidden 8 {LOOP} {EPISODES}".split())
DEFAULT = SplitWindowTraining()
SAME = replace(
    DEFAULT,
    agent=SplitWindowConfig(4, 2, hidden=(8,), num_cores=16),
    learning=replace(DEFAULT.learning, minibatch_size=64, epochs=2),
    episodes=EpisodeOptions(num_traces=2, trace_jobs=120, num_jobs=30),
    training=TrainingConfig(900, 3, num_envs=4, num_steps=40, validation_episodes=2, validate_every=2),
)


def weights_of(folder: Path, name: str = "split-window-4-2") -> dict[str, list[Any]]:
    return {key: tensor.tolist() for key, tensor in load_weights(folder / name)[0].items()}


def test_it_trains_what_the_library_trains(desim: Desim, tmp_path: Path) -> None:
    outcome = desim(*TINY, "--total-steps", "900", "--seed", "3", "--out", tmp_path, "--json")
    assert outcome.status == 0
    expected = SAME.train()
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
    assert SplitWindowTraining.of(card) == SAME
    again = desim(*card["command"].split()[1:], "--out", tmp_path, "--json")  # has nothing left to do
    assert (again.status, again.err) == (0, "")
    assert json.loads(again.out)["validation"] == expected.best


def test_what_it_prints_for_people(desim: Desim, tmp_path: Path) -> None:
    outcome = desim(*TINY, "--total-steps", "100", "--warm-start", "2", "--name", "mine", "--out", tmp_path)
    assert outcome.status == 0
    first, second, third, *standing = outcome.out.splitlines()
    assert len(standing) == 2
    for line, rule in zip(standing, ("easy-fcfs", "easy-sjf"), strict=True):
        assert re.match(
            rf"(level with|better than|worse than) {rule} \(waiting_time_mean .*\): .* %, over the 2 validation", line
        )
    assert first.startswith("complete after ")
    assert second == f"weights: {tmp_path / 'mine'}.safetensors and .json"
    assert "waiting_time_mean " in third
    assert outcome.err.startswith("warm start: agrees with the expert in ")
    assert SplitWindowAgent.load(tmp_path / "mine").name == f"split-window:{tmp_path}/mine"
    assert (tmp_path / "checkpoint" / "checkpoint.json").exists()
    assert list((tmp_path / "checkpoint" / "tensorboard").glob("events.*"))


WAITING = """
import sys, time
from pathlib import Path
from desim.agents.learning import training
save = training.save_checkpoint
def save_and_wait(*arguments):  # so that no training ends before Ctrl-C was pressed
    save(*arguments)
    while not Path({pressed!r}).exists():
        time.sleep(0.01)
training.save_checkpoint = save_and_wait
from desim.cli import main
sys.exit(main({arguments!r}))
"""


@pytest.mark.parametrize("workers", ["0", "1"])
def test_ctrl_c_loses_nothing(workers: str, desim: Desim, tmp_path: Path) -> None:
    options = ("--total-steps", "1200", "--num-workers", workers)
    part, pressed = tmp_path / "part", tmp_path / "pressed"
    code = INTERRUPTIBLE + WAITING.format(pressed=str(pressed), arguments=[*TINY, *options, "--out", str(part)])
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"},
        start_new_session=True,
    )
    try:
        while not (part / "checkpoint" / "checkpoint.json").exists():
            assert process.poll() is None
            time.sleep(0.01)
        if workers == "1":  # as a terminal does
            os.killpg(process.pid, signal.SIGINT)
        else:
            process.send_signal(signal.SIGINT)
        pressed.touch()
        printed, told = process.communicate()
    finally:
        process.kill()
    assert process.returncode == 1
    assert printed == f"interrupted; run the same command again to continue from {part}\n"
    assert "Traceback" not in told
    assert not (part / "split-window-4-2.json").exists()
    assert 0 < json.loads((part / "checkpoint" / "checkpoint.json").read_text())["steps"] < 1_200
    if workers == "1":
        return
    resumed = desim(*TINY, *options, "--out", part, "--json")
    assert resumed.status == 0
    expected = json.loads(desim(*TINY, *options, "--out", tmp_path / "all", "--json").out)
    assert json.loads(resumed.out)["validation"] == expected["validation"]
    assert weights_of(part) == weights_of(tmp_path / "all")


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (("train", "--out", "OUT"), "PROBLEM is missing: try desim train batch"),
        (("train", "chess", "--out", "OUT"), "no training for 'chess'; expected one of batch"),
        ((*TINY, "--out", "OUT", "--total-steps", "-1"), "total_steps: got -1, expected an integer >= 0"),
        ((*TINY, "--out", "OUT", "--num-workers", "9"), "--num-workers: got 9, expected 1 to 4, the number of env"),
        ((*TINY, "--out", "OUT", "--warm-start", "-1"), "warm_start: got -1"),
        ((*TINY, "--out", "OUT", "--load", "0"), "load: got 0.0"),
        (
            (*TINY, "--out", "OUT", "--head", "0", "--tail", "0"),
            "window: got (0, 0), expected numbers of slots >= 0, not both 0",
        ),
        ((*TINY, "--out", "OUT", "--group-size", "2"), "group_size: got 2 with 4 environments"),
        (("train", "dag", "--out", "OUT", "--num-jobs", "3", "2"), "num_jobs: got (3, 2), expected two numbers >= 1"),
        (
            ("train", "deferrable", "--out", "OUT", "--algorithm", "reinforce"),
            "whole_episodes: got False, expected True",
        ),
    ],
    ids=lambda value: " ".join(value[-4:]) if isinstance(value, tuple) else None,
)
def test_what_makes_no_sense_is_told(arguments: tuple[str, ...], what: str, desim: Desim, tmp_path: Path) -> None:
    outcome = desim(*(str(tmp_path / "out") if word == "OUT" else word for word in arguments))
    assert outcome.status == 2
    assert outcome.out == ""
    assert what in " ".join(outcome.err.replace("│", " ").split())
    assert "Traceback" not in outcome.err
    assert not list(tmp_path.rglob("*.safetensors"))


def test_another_training_in_the_same_place_is_refused_and_so_is_a_broken_checkpoint(
    desim: Desim, tmp_path: Path
) -> None:
    arguments = (*TINY, "--total-steps", "200", "--out", tmp_path)
    assert desim(*arguments).status == 0
    for more, what in (
        (("--seed", "1"), "seed: got 0, expected 1"),
        (("--reward", "paper"), "reward: got 'waiting', expected 'paper'"),
        (("--head", "5"), "agent: got"),
    ):
        outcome = desim(*arguments, *more)
        assert outcome.status == 2
        assert f"holds a checkpoint of another training: {what}" in outcome.err
        assert outcome.err.count("\n") == 1
    path = tmp_path / "checkpoint" / "checkpoint.json"
    path.write_text(path.read_text()[:50])
    outcome = desim(*arguments)
    assert outcome.status == 2
    assert outcome.err.count("\n") == 1
    assert "checkpoint.json cannot be read" in outcome.err


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ("dag --total-steps 60 --num-jobs 1 2 --num-executors 2 --intervals 0 --ccr 1", "messages-makespan"),
        ("deferrable --total-steps 1 --workloads fluctuating --validation-episodes 1 --width 8", "attention-both"),
    ],
)
def test_other_agents_are_trained_by_the_same_command(arguments: str, name: str, desim: Desim, tmp_path: Path) -> None:
    outcome = desim("train", *arguments.split(), "--out", tmp_path, "--json")
    assert outcome.status == 0, outcome.err
    assert json.loads(outcome.out)["weights"] == str(tmp_path / name)
    _, card = load_weights(tmp_path / name)
    words = arguments.split()
    assert set(words) <= {*card["command"].split(), "0", "1"}
    kind: Any = GraphTraining if words[0] == "dag" else ScoreTraining
    assert kind.of(card).command() == card["command"]


def test_help_has_the_options_with_examples(desim: Desim) -> None:
    outcome = desim("train", "batch", "--help")
    assert outcome.status == 0
    words = ("--out", "--head", "--tail", "--seed", "--json", "--warm-start", "--learning-rate", "--no-masked")
    for word in (*words, "desim train batch --quick", "Number of slots of the window at the head of the queue."):
        assert word in outcome.out


def test_quick_is_a_small_training_but_for_what_is_given(
    desim: Desim, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[Any] = []

    def note(settings: Any, *arguments: Any) -> Any:
        found.append(settings)
        raise KeyboardInterrupt

    for problem, kind in (("batch", SplitWindowTraining), ("dag", GraphTraining), ("deferrable", ScoreTraining)):
        monkeypatch.setattr(kind, "train", note)
        for more in ((), ("--seed", "4")):
            assert desim("train", problem, "--quick", *more, "--out", tmp_path).status == 1
        quick: Any = kind.quick()
        assert found == [quick, replace(quick, training=replace(quick.training, seed=4))]
        assert quick.training.total_steps < kind().training.total_steps
        found.clear()


@pytest.mark.slow
def test_a_quick_training_beats_the_first_job_that_fits(desim: Desim, tmp_path: Path) -> None:
    outcome = desim("train", "batch", "--quick", "--out", tmp_path, "--json")
    assert outcome.status == 0
    curve = [entry["validation"] for entry in load_weights(tmp_path / "split-window-16-16")[1]["history"]]
    assert json.loads(outcome.out)["validation"]["waiting_time_mean"] < 0.97 * curve[0]["waiting_time_mean"]
    agents = f"split-window:{tmp_path}/split-window-16-16,window-first-16-16"
    found = desim("evaluate", "batch", "--agents", agents, "--episodes", "8", "--load", "1.06", "--json")
    means = json.loads(found.out)["means"]
    waits = [row["waiting_time_mean"]["mean"] for row in means.values()]
    assert np.isfinite(waits).all()
    assert waits[0] < waits[1]
