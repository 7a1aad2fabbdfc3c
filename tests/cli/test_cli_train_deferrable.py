"""``desim train deferrable``: each way to train leaves an agent that the registry knows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import Desim

from desim.agents.deferrable import create
from desim.agents.deferrable.command import QUICK_STEPS, TrainingOptions
from desim.agents.deferrable.score_agent import ScoreAgent
from desim.agents.learning.checkpoint import load_weights
from desim.agents.learning.pretrained import pretrained_names, pretrained_stem

TINY = ("train", "deferrable", "--steps", "1", "--episodes-of", "fluctuating", "--validation-episodes", "1")


@pytest.mark.parametrize(
    ("arguments", "name", "algorithm"),
    [
        (("--auxiliary", "low", "--rule", "skip", "--plans", "--width", "8"), "attention-low", "ppo"),
        (("--network", "mlp", "--algorithm", "reinforce", "--hold-back"), "mlp-both", "reinforce"),
    ],
)
def test_it_trains_an_agent(
    arguments: tuple[str, ...], name: str, algorithm: str, desim: Desim, tmp_path: Path
) -> None:
    outcome = desim(*TINY, *arguments, "--out", tmp_path, "--json")
    assert outcome.status == 0, outcome.err
    document = json.loads(outcome.out)
    assert document["status"] == "complete"
    assert document["weights"] == str(tmp_path / name)
    _, card = load_weights(tmp_path / name)
    assert card["command"].split() == ["desim", *TINY[:2], *card["command"].split()[3:]]
    assert card["training"]["algorithm"]["name"] == algorithm
    assert card["training"]["episodes"]["workloads"] == ["fluctuating"]
    agent = create(f"score:{tmp_path / name}")
    assert isinstance(agent, ScoreAgent)
    assert agent.config.rule == ("skip" if "skip" in arguments else "stop")
    assert agent.config.plans == ("--plans" in arguments)
    assert agent.config.threshold == (0.0 if "--hold-back" in arguments else -1.0)


def test_options_say_what_is_trained() -> None:
    quick = TrainingOptions(quick=True).settings()
    assert quick.training.total_steps == QUICK_STEPS
    paper = TrainingOptions().settings()
    assert paper.training.num_envs * paper.training.num_steps == 2048
    assert (paper.algorithm.minibatch_size, paper.algorithm.learning_rate) == (64, 1e-4)
    assert paper.algorithm.final_learning_rate == pytest.approx(1e-5)
    grouped = TrainingOptions(group=8, algorithm="reinforce", real_time="half", delay_weight=0.0).settings()
    assert (grouped.algorithm.baseline, grouped.algorithm.group_size) == ("group", 8)
    assert grouped.training.whole_episodes
    assert (grouped.episodes.real_time, grouped.episodes.delay_weight) == ((False, True), 0.0)
    command = TrainingOptions(warm_start=5).command()
    assert command == "desim train deferrable --warm-start 5"


def test_a_negative_warm_start_is_refused(desim: Desim, tmp_path: Path) -> None:
    outcome = desim(*TINY, "--warm-start", "-1", "--out", tmp_path)
    assert outcome.status != 0
    assert "warm_start is -1" in outcome.err


@pytest.mark.parametrize("name", pretrained_names("score"))
def test_the_command_of_a_card_trains_the_same_again(
    name: str, desim: Desim, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    card = json.loads(pretrained_stem(name, "score").with_suffix(".json").read_text())
    meant: list[Any] = []

    def note(options: TrainingOptions, directory: Path, report: object) -> dict[str, Any]:
        meant.append(options.settings().plain())
        return {"status": "complete", "weights": "", "validation": {}}

    monkeypatch.setattr(TrainingOptions, "train", note)
    words = card["command"].split()
    assert words[:3] == ["desim", "train", "deferrable"]
    assert desim(*words[1:], "--out", tmp_path).status == 0
    assert json.loads(json.dumps(meant[0])) == card["training"]
    totals = [entry["validation"]["total_reward"] for entry in card["history"]]
    assert card["validation"]["total_reward"] == max(totals)
