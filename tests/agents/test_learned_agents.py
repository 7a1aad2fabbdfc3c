"""Agents with trained weights, of every kind: their files and names, and the weights that come with the package."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch_geometric")

from desim import plugins, simulate
from desim.agents.batch.dbf import DBFAgent, DBFConfig
from desim.agents.batch.inspector import Inspector, InspectorConfig, SchedInspector, SchedInspectorConfig
from desim.agents.batch.split_window import SplitWindowAgent, SplitWindowConfig
from desim.agents.batch.training import EpisodeOptions, SplitWindowTraining
from desim.agents.dag.graph_agent import GraphAgent, GraphConfig
from desim.agents.dag.printed import DecimaAgent, DecimaConfig, LachesisAgent, LachesisConfig
from desim.agents.deferrable.osdec import OsdecAgent, OsdecConfig
from desim.agents.deferrable.score_agent import ScoreAgent, ScoreConfig
from desim.agents.deferrable.training import ScoreTraining
from desim.agents.learning import pretrained
from desim.agents.learning.checkpoint import save_weights
from desim.agents.learning.convert import converted
from desim.agents.learning.learned import plain, restored
from desim.agents.learning.learner import LearningConfig
from desim.agents.learning.pretrained import PRETRAINED, pretrained_names
from desim.agents.learning.training import TrainingConfig
from desim.exceptions import InvalidConfiguration, RecordError
from desim.problems.deferrable import DeferrableCluster
from desim.validation import validate
from desim.workloads.deferrable import DEFAULT, generate

#: The agents, the module that creates them by name, and a small one of each that is not as by default.
AGENTS: dict[str, tuple[Any, str, Any]] = {
    "split-window": (SplitWindowAgent, "batch", SplitWindowConfig(5, 3, hidden=(16, 8), reserve_after=9.0)),
    "inspector": (Inspector, "batch", InspectorConfig("f1", (4,), keeps_accepted=False)),
    "dbf": (DBFAgent, "batch", DBFConfig(5, 3, (8,), "tanh", sampled=False, num_cores=32)),
    "schedinspector": (SchedInspector, "batch", SchedInspectorConfig("f1", (4,), max_rejections=9)),
    "graph": (GraphAgent, "dag", GraphConfig("local", "immediate", hidden=(8,))),
    "lachesis": (LachesisAgent, "dag", LachesisConfig((8,), layers=2, executor_state=False)),
    "decima": (DecimaAgent, "dag", DecimaConfig((8,), inner=(4,), depth=3)),
    "osdec": (OsdecAgent, "deferrable", OsdecConfig("mlp", "high", max_jobs=8, width=8)),
    "score": (ScoreAgent, "deferrable", ScoreConfig("mlp", "high", "stop", 0.2, 8, width=8)),
}
every_kind = pytest.mark.parametrize("kind", AGENTS)


def create(kind: str, source: str) -> Any:
    return import_module(f"desim.agents.{AGENTS[kind][1]}").create(f"{kind}:{source}")


def written(stem: Path, kind: str, made: Any = None, **card: Any) -> Path:
    """Write the weights of a new network; a part of the card may be otherwise."""
    config = made or AGENTS[kind][2]
    weights = config.policy(np.random.default_rng(0)).state_dict()
    save_weights(stem, weights, json.loads(json.dumps({"agent": kind, "config": plain(config)} | card)))
    return stem


@every_kind
def test_agents_come_back_from_their_files_and_by_their_names(kind: str, tmp_path: Path) -> None:
    agent_class, _, config = AGENTS[kind]
    stem = written(tmp_path / "m-1.5", kind)
    agent = agent_class.load(stem)
    assert agent.name == f"{kind}:{stem}"
    again = create(*agent.name.split(":", 1))
    assert again.name == agent.name
    assert type(again) is agent_class
    for one in (agent, again):
        found = one.inspection if kind.endswith("inspector") else one.config
        if kind.endswith("inspector"):
            assert (found.base.name, found.keeps_accepted) == ("f1", kind == "schedinspector")
        else:
            assert found == config


@every_kind
def test_other_files_are_refused(kind: str, tmp_path: Path) -> None:
    config = plain(AGENTS[kind][2])
    with pytest.raises(RecordError, match="no weights at"):
        create(kind, f"{tmp_path}/none")
    for number, (card, what) in enumerate(
        [
            ({"agent": "other"}, f"got an agent 'other' .*, expected '{kind}'"),
            ({"config": None}, "config: got None, expected dict"),
            ({"config": [1]}, r"config: got \[1\], expected dict"),
            ({"config": config | {"breadth": 3}}, "Config cannot be made from these values: .*'breadth'"),
        ]
    ):
        written(tmp_path / f"odd{number}", kind, **card)
        with pytest.raises((InvalidConfiguration, RecordError), match=what):
            AGENTS[kind][0].load(tmp_path / f"odd{number}")
    stem = written(tmp_path / "broken", kind)
    stem.with_suffix(".json").write_text(stem.with_suffix(".json").read_text().replace('"sha256": "', '"sha256": "0'))
    with pytest.raises(RecordError, match="is not the file that"):
        AGENTS[kind][0].load(stem)


@pytest.mark.parametrize(("kind", "change"), [("split-window", {"hidden": [5]}), ("score", {"width": 9})])
def test_weights_that_do_not_fit_are_refused(kind: str, change: dict[str, Any], tmp_path: Path) -> None:
    written(tmp_path / "other", kind)
    card = json.loads((tmp_path / "other.json").read_text())
    (tmp_path / "other.json").write_text(json.dumps(card | {"config": card["config"] | change}))
    with pytest.raises(RecordError, match=r"do not fit .*, the network that their model card describes"):
        AGENTS[kind][0].load(tmp_path / "other")


def test_what_is_to_be_otherwise_than_in_the_card(tmp_path: Path) -> None:
    stem = written(tmp_path / "scores", "score")
    agent = ScoreAgent.load(stem, rule="skip", threshold=0.5)
    assert (agent.config.rule, agent.encoder.rule, agent.encoder.threshold) == ("skip", "skip", 0.5)
    stem = written(tmp_path / "scorer", "split-window")
    agent = SplitWindowAgent.load(stem, head=9, tail=1)
    by_name = create("split-window", f"{stem}@9-1")
    assert agent.config == by_name.config == SplitWindowConfig(9, 1, hidden=(16, 8), reserve_after=9.0)
    assert by_name.name == f"split-window:{stem}@9-1"
    with pytest.raises(InvalidConfiguration, match=r"window: got '4x4', expected HEAD-TAIL; try for example @9-1"):
        create("split-window", f"{stem}@4x4")


@every_kind
def test_agents_that_come_with_the_package(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pretrained, "PRETRAINED", tmp_path)
    with pytest.raises(InvalidConfiguration, match="expected a path, because desim includes none"):
        create(kind, "mine")
    written(tmp_path / "mine", kind)
    save_weights(tmp_path / "other", {}, {"agent": "something"})
    assert AGENTS[kind][0].pretrained("mine").name == create(kind, "mine").name == f"{kind}:mine"
    for name in ("yours", "other"):
        with pytest.raises(
            InvalidConfiguration, match=f"unknown pretrained {kind} agent '{name}'; expected a path, or one of mine"
        ):
            create(kind, name)


@every_kind
def test_settings_go_through_json_and_what_is_missing_is_as_by_default(kind: str) -> None:
    config = AGENTS[kind][2]
    assert restored(type(config)(), json.loads(json.dumps(plain(config)))) == config
    assert restored(type(config)(), {}) == type(config)()


def test_what_a_command_says_is_what_differs_from_the_default() -> None:
    settings = SplitWindowTraining(
        SplitWindowConfig(9, 1, masked=False, hidden=(8, 4)),
        LearningConfig(
            learning_rate=3e-3, epochs=6, minibatch_size=2048, discount=0.98, gae_lambda=0.9, time_unit=3600.0
        ),
        TrainingConfig(3_000_000, seed=4, group_size=4, whole_episodes=True),
        episodes=EpisodeOptions(load=0.9),
        any_window=True,
    )
    assert settings.command() == (
        "desim train batch --head 9 --tail 1 --hidden 8 4 --no-masked --seed 4 --whole-episodes --group-size 4 "
        "--load 0.9 --any-window"
    )
    assert SplitWindowTraining().command("split-window-16-16") == "desim train batch"
    assert SplitWindowTraining().command("mine") == "desim train batch --name mine"


CARDS = {path.stem: json.loads(path.read_text()) for path in sorted(PRETRAINED.glob("*.json"))}
KINDS = {one().agent.agent_kind: one for one in map(plugins.training_settings, plugins.trainings())}


def filled(told: dict[str, Any], usual: dict[str, Any]) -> dict[str, Any]:
    """Return what a card tells, and the defaults of settings that there were not when it was written."""
    return {
        key: filled(told[key], value) if isinstance(value, dict) and key in told else told.get(key, value)
        for key, value in usual.items()
    } | {key: value for key, value in told.items() if key not in usual}


@pytest.mark.parametrize("name", CARDS)
def test_a_card_holds_the_settings_of_its_training_and_the_best_of_its_curve(name: str) -> None:
    card = CARDS[name]
    settings = KINDS[card["agent"]].of(card)
    told, usual = {**card["training"], "agent": card["config"]}, KINDS[card["agent"]]().plain()
    assert json.loads(json.dumps(settings.plain())) == json.loads(json.dumps(filled(told, usual)))
    assert settings.command(name) == card["command"]
    task = settings.task()
    values = [entry["validation"][task.objective] for entry in card["history"]]
    assert card["validation"][task.objective] == (max if task.maximize else min)(values)


def test_cards_of_before_are_converted() -> None:
    settings = ScoreTraining(
        learning=LearningConfig("reinforce", learning_rate=1e-3, minibatch_size=64, entropy_coef=0.0),
        training=TrainingConfig(300_000, num_steps=1000, whole_episodes=True, group_size=8, validate_every=2),
        auxiliary_rate=10.0,
    )
    training = json.loads(json.dumps(settings.plain()))
    card: dict[str, Any] = {"agent": "score", "config": training.pop("agent"), "training": training}
    card |= {"command": settings.command("old"), "status": "complete", "validation": {}, "history": [], "sha256": "0"}
    learning = card["training"]["learning"]
    rates = {"learning_rate": learning["learning_rate"], "final_learning_rate": 0.1 * learning["learning_rate"]}
    before: dict[str, Any] = {
        **card,
        "seed": 0,
        "config": card["config"] | {"max_future_jobs": 32},
        "training": {
            "agent": card["config"],
            "episodes": card["training"]["episodes"] | {"real_time": [False]},
            "auxiliary_rate": 10.0,
            "warm_start": 0,
            "algorithm": {
                "name": "reinforce",
                **rates,
                "baseline": "group",
                "group_size": 8,
                "discount": 0.99,
                "time_unit": None,
                "value_weight": 0.5,
                "entropy": 0.0,
                "final_entropy": 0.0,
                "max_grad_norm": 0.5,
                "normalize_advantages": True,
            },
            "training": card["training"]["training"] | {"patience": None, "num_threads": 1},
        },
    }
    usual = KINDS["score"]().plain()
    usual.pop("agent")
    today = card | {"training": json.loads(json.dumps(filled(card["training"], usual)))}
    assert converted(before, "old") == today
    for change, what in (({"baseline": "value"}, "no longer exist"), ({"max_grad_norm": 1.0}, "max_grad_norm 1.0")):
        algorithm = before["training"]["algorithm"] | change
        with pytest.raises(InvalidConfiguration, match=what):
            converted(before | {"training": before["training"] | {"algorithm": algorithm}}, "odd")


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind in ("score", "osdec") for name in pretrained_names(kind)]
)
def test_networks_for_deferrable_jobs_start_jobs_that_fit(kind: str, name: str) -> None:
    scenario = generate(replace(DEFAULT, num_slots=30), seed=4)
    cluster = DeferrableCluster(scenario.jobs, scenario.capacity, num_slots=30, overcommit=False)
    result = simulate(cluster, create(kind, name))
    assert validate(result, scenario.jobs).ok
    assert result.metrics()["utilization"] > 0


@pytest.mark.parametrize(
    ("problem", "kind", "name", "change", "message"),
    [
        ("batch", "dbf", "dbf-m20-t0", {"hidden": 3}, "no agent has the configuration in its model card: TypeError"),
        (
            "batch",
            "inspector",
            "desim-f1",
            {"hidden": None},
            "no agent has the configuration in its model card: TypeErr",
        ),
        ("batch", "inspector", "desim-f1", {"max_rejections": "x"}, "max_rejections: got 'x', expected an integer"),
    ],
)
def test_a_card_that_makes_no_agent_is_named(
    problem: str, kind: str, name: str, change: dict[str, Any], message: str, tmp_path: Path
) -> None:
    card = json.loads((PRETRAINED / f"{name}.json").read_text())
    card["config"] |= change
    (tmp_path / "own.json").write_text(json.dumps(card))
    (tmp_path / "own.safetensors").write_bytes((PRETRAINED / f"{name}.safetensors").read_bytes())
    with pytest.raises(InvalidConfiguration) as caught:
        plugins.create_agent(problem, f"{kind}:{tmp_path / 'own'}")
    assert str(caught.value).startswith(f"{tmp_path / 'own'}: {message}") and "\n" not in str(caught.value)
