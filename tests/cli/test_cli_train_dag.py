"""``desim train dag``: each way to train leaves an agent that the registry knows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import Desim

pytest.importorskip("torch_geometric")

from desim.agents.dag import create
from desim.agents.dag.command import QUICK_WARM_START, TrainingOptions
from desim.agents.dag.graph_agent import GraphAgent
from desim.agents.learning.checkpoint import load_weights

TINY = ("train", "dag", "--steps", "100", "--jobs", "1", "2", "--executors", "2", "--intervals", "0", "--ccr", "1")


@pytest.mark.parametrize(
    ("arguments", "name", "mode", "algorithm"),
    [
        (("--mode", "planned", "--warm-start", "1"), "lachesis-makespan", "planned", "ppo"),
        (
            (
                "--kind",
                "decima",
                "--objective",
                "completion_time",
                "--algorithm",
                "actor_critic",
                "--first-length",
                "3",
            ),
            "decima-completion-time",
            "idle",
            "actor_critic",
        ),
    ],
)
def test_it_trains_an_agent(
    arguments: tuple[str, ...], name: str, mode: str, algorithm: str, desim: Desim, tmp_path: Path
) -> None:
    outcome = desim(*TINY, *arguments, "--out", tmp_path, "--json")
    assert outcome.status == 0, outcome.err
    document = json.loads(outcome.out)
    assert document["status"] == "complete"
    assert document["weights"] == str(tmp_path / name)
    _, card = load_weights(tmp_path / name)
    assert card["command"].split() == ["desim", *TINY[:2], *card["command"].split()[3:]]
    assert card["config"]["mode"] == mode
    training = card["training"]
    assert training["algorithm"]["name"] == algorithm
    assert training["episodes"]["plan_ahead"] == (mode == "planned")
    assert training["episodes"]["num_jobs"] == [1, 2]
    agent = create(f"graph:{tmp_path / name}")
    assert isinstance(agent, GraphAgent)
    assert agent.config.mode == mode


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (("--warm-start", "-1"), "warm_start is -1, want at least 0"),
        (("--jobs", "3", "2"), "num_jobs is (3, 2), want two numbers from 1 on, in order"),
        (("--first-length", "0"), "first_length is 0.0, want a number from 1 to num_steps"),
    ],
)
def test_what_makes_no_sense_is_told_in_a_line(
    arguments: tuple[str, ...], what: str, desim: Desim, tmp_path: Path
) -> None:
    outcome = desim("train", "dag", *arguments, "--out", tmp_path)
    assert outcome.status == 2
    assert what in outcome.err
    assert len(outcome.err.splitlines()) == 1


def test_a_quick_training_begins_with_a_warm_start() -> None:
    assert TrainingOptions(quick=True).settings().warm_start == QUICK_WARM_START
    assert TrainingOptions(quick=True, warm_start=2).settings().warm_start == 2
    assert TrainingOptions().settings().warm_start == 0
