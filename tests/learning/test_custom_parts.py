"""Networks, rewards and algorithms of one's own by reference: trained, written, loaded, and told of where they lack."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from desim import simulate
from desim.agents.batch import create as create_batch
from desim.agents.batch.split_window import SplitWindowAgent, SplitWindowConfig
from desim.agents.batch.training import EpisodeOptions, SplitWindowTraining
from desim.agents.dag import create as create_dag
from desim.agents.dag.graph_agent import CustomGraphAgent
from desim.agents.dag.training import GraphEpisodes, GraphTraining
from desim.agents.deferrable import create as create_deferrable
from desim.agents.deferrable.score_agent import ScoreConfig
from desim.agents.deferrable.training import DeferrableEpisodes, ScoreTraining
from desim.agents.learning.learned import AgentConfig
from desim.agents.learning.policy import MLPPolicy, Policy, device_of
from desim.agents.learning.training import TrainingConfig
from desim.cli import main
from desim.exceptions import InvalidConfiguration, RecordError
from desim.problems.batch import BatchCluster
from desim.problems.dag import DagCluster
from desim.problems.deferrable import DeferrableCluster
from desim.workloads import deferrable, executors, lublin, tpch

CODE = '''
import torch
from desim.agents.learning.learner import Learner
from desim.agents.learning.policy import Gaussian, MaskedCategorical, Policy, initialized, mlp
from desim.agents.learning.ppo import PPO


class Net(Policy):
    """Scores every row of jobs by a linear map."""

    def __init__(self, observation_space, action_space, rng):
        super().__init__()
        self.rows = next(name for name in ("jobs", "current") if name in observation_space.spaces)
        width = observation_space[self.rows].shape[-1]
        self.scores = initialized(mlp([width, 1]), rng, 0.01)
        self.critic = initialized(mlp([width, 1]), rng)

    def forward(self, observations):
        rows, mask = observations[self.rows], observations["action_mask"]
        values = self.critic(rows.mean(1)).squeeze(-1)
        scores = self.scores(rows).squeeze(-1)
        if self.rows == "current":
            return Gaussian(scores, torch.full_like(scores, 0.1), mask), values
        wait = torch.zeros(len(scores), 1)
        return MaskedCategorical(torch.cat([scores, wait], 1), mask), values


class Nodes(Policy):
    """Scores every ready node by a linear map, however many there are."""

    def __init__(self, observation_space, action_space, rng):
        super().__init__()
        width = observation_space["candidates"].shape[-1]
        self.scores = initialized(mlp([width, 1]), rng, 0.01)
        self.critic = initialized(mlp([width, 1]), rng)

    def forward(self, observations):
        rows, mask = observations["candidates"], observations["action_mask"]
        scores = self.scores(rows).squeeze(-1)
        scores = torch.cat([scores, torch.zeros(len(scores), mask.shape[1] - scores.shape[1])], 1)
        return MaskedCategorical(scores, mask), self.critic(rows.mean(1)).squeeze(-1)


def started(simulation):
    """Minus the time so far."""
    return -float(simulation.env.now)


class Ended:
    """One for each decision."""

    def reset(self, simulation):
        self.answers = 0

    def on_decision(self, answer):
        self.answers += 1

    def pop_reward(self):
        earned, self.answers = self.answers, 0
        return float(earned)


class Slow(PPO):
    """PPO without its last epochs."""

    def update(self, experience, progress):
        return super().update(experience, progress) | {"slow": 1.0}


class Still:
    """Learns nothing at all, and says so."""

    def __init__(self, policy, config, rng):
        self.policy, self.threads = policy, 1

    def update(self, experience, progress):
        return {"learned": 0.0}

    def tensors(self):
        return {name: tensor.clone() for name, tensor in self.policy.state_dict().items()}

    def state(self):
        return {}

    def restore(self, tensors, state):
        self.policy.load_state_dict({name: tensors[name] for name in self.policy.state_dict()})


ended, number = Ended(), 7
'''

LOOP = TrainingConfig(60, 1, num_envs=2, num_steps=10, validation_episodes=1, validate_every=1)
BATCH = SplitWindowTraining(
    agent=SplitWindowConfig(4, 2, hidden=(8,), num_cores=16),
    episodes=EpisodeOptions(num_traces=2, trace_jobs=60, num_jobs=15),
    training=LOOP,
)
DAG = GraphTraining(episodes=GraphEpisodes((1, 2), (2,), (1.0,), (0.0,)), training=LOOP)
SHORT: Any = replace(deferrable.DEFAULT, num_slots=12, arrival_rate=2.0)
DEFERRABLE = ScoreTraining(ScoreConfig(max_jobs=8), training=LOOP, episodes=DeferrableEpisodes((SHORT,)))


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A module of somebody's own in the current directory."""
    name = f"own_parts_{abs(hash(tmp_path))}"
    (tmp_path / f"{name}.py").write_text(CODE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield name
    sys.modules.pop(name, None)


def written(settings: Any, stem: Path) -> dict[str, Any]:
    settings.write(stem, settings.train())
    card: dict[str, Any] = json.loads(stem.with_suffix(".json").read_text())
    return card


@pytest.mark.parametrize("problem", ["batch", "dag", "deferrable"])
def test_a_network_of_ones_own_is_trained_and_acts_like_any_other(problem: str, module: str, tmp_path: Path) -> None:
    before: Any = {"batch": BATCH, "dag": DAG, "deferrable": DEFERRABLE}[problem]
    name = f"{module}:{'Nodes' if problem == 'dag' else 'Net'}"
    settings = replace(before, agent=replace(before.agent, network=name))
    card = written(settings, tmp_path / "mine")
    assert card["config"]["network"] == name
    assert list(card["user_code"]) == [name]
    assert f"--network {name}" in card["command"]
    assert type(settings).of(card).agent == settings.agent
    if problem == "batch":
        agent = create_batch(f"split-window:{tmp_path}/mine")
        result = simulate(BatchCluster(lublin.generate(40, 16, seed=1), 16), agent)
    elif problem == "dag":
        agent = create_dag(f"graph:{tmp_path}/mine")
        assert isinstance(agent, CustomGraphAgent)
        many = tpch.generate(30, seed=2)  # more jobs than there is room for at first
        result = simulate(DagCluster(many, executors.heterogeneous(3, seed=1)), agent)
    else:
        agent = create_deferrable(f"score:{tmp_path}/mine")
        scenario = deferrable.generate(seed=1)
        result = simulate(DeferrableCluster(scenario.jobs, scenario.capacity, num_slots=scenario.num_slots), agent)
    assert result.jobs.height
    assert getattr(agent, "name", "").endswith("mine")


def test_a_changed_module_is_warned_of_and_a_missing_one_is_an_error(
    module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"{module}:Net"
    written(replace(BATCH, agent=replace(BATCH.agent, network=name)), tmp_path / "mine")
    SplitWindowAgent.load(tmp_path / "mine")
    path = tmp_path / f"{module}.py"
    path.write_text(CODE + "\n# one more line\n")
    with pytest.warns(UserWarning, match=f"mine was trained with {name}, but its file .* has changed since"):
        SplitWindowAgent.load(tmp_path / "mine")
    path.rename(tmp_path / "elsewhere.txt")
    sys.modules.pop(module)
    told = (
        f"mine: custom network: its model card names {name}, and a file alone does not import code; .* set DESIM_TRUST"
    )
    with pytest.raises(InvalidConfiguration, match=told):
        SplitWindowAgent.load(tmp_path / "mine")
    monkeypatch.setenv("DESIM_TRUST", f"other,{module}")
    with pytest.raises(InvalidConfiguration, match=f"mine: custom network: {name}: .*'{module}'"):
        SplitWindowAgent.load(tmp_path / "mine")
    (tmp_path / "elsewhere.txt").rename(path)
    with pytest.warns(UserWarning, match="has changed since"):
        SplitWindowAgent.load(tmp_path / "mine")


@pytest.mark.parametrize("problem", ["batch", "dag", "deferrable"])
def test_a_reward_of_ones_own_is_earned_and_decides(problem: str, module: str, tmp_path: Path) -> None:
    before: Any = {"batch": BATCH, "dag": DAG, "deferrable": DEFERRABLE}[problem]
    for name in ("started", "Ended", "ended"):
        settings = replace(before, reward=f"{module}:{name}")
        result = settings.train()
        best = max(entry["validation"]["return"] for entry in result.history)
        assert result.best["return"] == best
        assert (best < 0) == (name == "started")
        if name != "started":
            assert result.best["length"] <= result.best["return"]  # decisions that were skipped count, too
    card = written(settings, tmp_path / "mine")
    assert list(card["user_code"]) == [f"{module}:ended"]


def test_an_algorithm_of_ones_own_learns_stores_and_goes_on(module: str, tmp_path: Path) -> None:
    slow = replace(BATCH, learning=replace(BATCH.learning, algorithm=f"{module}:Slow"))
    result = slow.train()
    assert result.history[-1]["figures"]["slow"] == 1.0
    usual = BATCH.train()
    assert all(torch.equal(result.weights[name], usual.weights[name]) for name in usual.weights)
    still = replace(BATCH, learning=replace(BATCH.learning, algorithm=f"{module}:Still"))
    first = replace(still, training=replace(LOOP, total_steps=30)).train(tmp_path)
    gone_on, at_once = still.train(tmp_path), still.train()
    assert gone_on.history[: len(first.history)] == first.history
    assert [entry["validation"] for entry in gone_on.history] == [entry["validation"] for entry in at_once.history]
    with pytest.raises(InvalidConfiguration, match="warm_start needs a Learner, got Still"):
        replace(still, warm_start=1).train()


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"network": "scoreer"}, "network: got 'scoreer', expected one of 'scorer', or module:Name of custom code"),
        ({"network": "MODULE:Nobody"}, "custom network: .*'Nobody'"),
        ({"network": "MODULE:number"}, "got 7, expected an agent, a class or a function"),
        ({"network": "MODULE:started"}, "it takes"),
        ({"reward": "no_such_module:name"}, "custom reward: .*'no_such_module'"),
        ({"reward": "MODULE:number"}, "int is no reward: it has no method reset"),
        ({"reward": "MODULE:Net"}, "it takes"),
        (
            {"algorithm": "sac"},
            "algorithm: got 'sac', expected one of 'ppo', 'a2c', 'reinforce', 'q_actor_critic', or module:Name",
        ),
        ({"algorithm": "MODULE:ended"}, "expected an agent, a class or a function"),
        ({"device": "tpu"}, "device: got 'tpu', expected cpu, cuda"),
        ({"device": "cuda:99"}, "device: got 'cuda:99', but PyTorch .* finds . GPUs"),
    ],
    ids=str,
)
def test_what_leads_nowhere_is_told(changes: dict[str, str], what: str, module: str) -> None:
    ((field, value),) = changes.items()
    value = value.replace("MODULE", module)
    with pytest.raises(InvalidConfiguration, match=what):
        if field == "network":
            replace(BATCH, agent=replace(BATCH.agent, network=value)).train()
        elif field == "algorithm":
            replace(BATCH, learning=replace(BATCH.learning, algorithm=value)).train()
        elif field == "device":
            replace(BATCH, training=replace(LOOP, device=value)).train()
        else:
            replace(BATCH, reward=value).train()


def test_the_command_line_takes_references(module: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = f"--network {module}:Net --reward {module}:started --algorithm {module}:Slow --device cpu"
    small = "--num-cores 16 --head 4 --tail 2 --num-traces 2 --trace-jobs 60 --num-jobs 15 --num-envs 2 --num-steps 10"
    small += " --validation-episodes 1 --total-steps 20 --seed 1"
    assert main(["train", "batch", *own.split(), *small.split(), "--out", "out", "--name", "mine"]) == 0
    card = json.loads(Path("out/mine.json").read_text())
    assert sorted(card["user_code"]) == [f"{module}:Net", f"{module}:Slow", f"{module}:started"]
    assert main(["train", "batch", "--network", "nothing:Net", "--out", "none"]) == 2
    assert "custom network: nothing:Net: " in " ".join(capsys.readouterr().err.replace("│", " ").split())


@dataclass(frozen=True)
class Wider(SplitWindowConfig):
    """An agent whose network is another than its settings say."""

    def policy(self, rng: np.random.Generator) -> Policy:
        """Return a network that no card tells of."""
        return MLPPolicy({"cluster": 6}, self.head + self.tail + 1, rng, hidden=(4,))


def test_weights_that_no_card_tells_of_are_not_written(tmp_path: Path) -> None:
    config: AgentConfig[Policy] = Wider(4, 2, num_cores=16)
    settings = replace(BATCH, agent=config)  # type: ignore[arg-type]  # it is one
    what = r"of this training do not fit WindowScorer, .* model card describes: the network has no actor\.0\.weight"
    result = replace(BATCH.train(), weights=dict(config.policy(np.random.default_rng(0)).state_dict()))
    with pytest.raises(RecordError, match=what) as found:
        settings.write(tmp_path / "mine", result)
    assert len(str(found.value)) < 300
    assert "name a custom network as module:Name" in str(found.value)
    assert not list(tmp_path.iterdir())


def test_devices_have_names() -> None:
    assert device_of("cpu") == torch.device("cpu")
    for name in ("cpu:1", "cuda:", "cuda:x", "gpu"):
        with pytest.raises(InvalidConfiguration, match=f"device: got '{name}', expected"):
            device_of(name)
