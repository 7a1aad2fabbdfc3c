"""Untrained weights with the names of trained ones, which all studies of learned agents here are carried out with."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from desim.agents.deferrable.score_agent import ScoreConfig
from desim.agents.learning.checkpoint import save_weights
from desim.agents.learning.learned import plain


@pytest.fixture(scope="session")
def score_weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory of agents that score deferrable jobs, with the cards of short trainings."""
    directory = tmp_path_factory.mktemp("score_weights")
    kinds: dict[str, Any] = {
        "osdec": {},
        "ppo-att": {"auxiliary": "none"},
        "ppo": {"network": "mlp", "auxiliary": "none"},
    }
    names = ["default-osdec", "default-osdec-seed1", "default-ppo", "default-ppo-att", "fluctuating-osdec"]
    for number, name in enumerate([*names, "utilization-ppo", "default-unheard-of"]):
        config = ScoreConfig(width=4, **kinds.get(name.split("-", 1)[1].removesuffix("-seed1"), {}))
        policy = config.policy(np.random.default_rng(number))
        rewards = (100.0, 130.0 + number, 120.0)
        history = [
            {"steps": 500 * at, "seconds": 2.0 * at, "validation": {"total_reward": reward}}
            for at, reward in enumerate(rewards)
        ]
        card = {"agent": "score", "config": plain(config), "command": f"train {name}", "history": history}
        save_weights(directory / name, policy.state_dict(), card | {"training": {"warm_start": 7}})
    (directory / "default-reinforce.json").write_text(json.dumps({"agent": "another"}))
    return directory


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Let torch use one thread while a test runs."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
