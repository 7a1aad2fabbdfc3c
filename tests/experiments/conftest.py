"""Untrained weights with the names of trained ones, which all studies of learned agents here are carried out with."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from desim.agents.batch.inspector import InspectorConfig
from desim.agents.batch.split_window import SplitWindowConfig
from desim.agents.learning.checkpoint import save_weights
from desim.agents.learning.learned import plain

HISTORY = [
    {"steps": 0, "updates": 0, "validation": {"utilization": 0.6, "waiting_time_mean": 9e4, "queue_length_mean": 90.0}},
    {
        "steps": 500,
        "updates": 2,
        "episodes": 3,
        "training": {"utilization": 0.7, "waiting_time_mean": 2e4, "queue_length_mean": 20.0},
        "validation": {"utilization": 0.8, "waiting_time_mean": 1e4, "queue_length_mean": 10.0},
    },
    {
        "steps": 900,
        "updates": 4,
        "episodes": 4,
        "training": {},
        "validation": {"utilization": 0.7, "waiting_time_mean": 3e4, "queue_length_mean": 30.0},
    },
]


def save_batch(directory: Path, name: str, config: Any, *, seed: int = 0, wait: float = 9_000.0) -> None:
    """Write a network for the batch cluster that has learned nothing, but has opinions."""
    policy = config.policy(np.random.default_rng(seed))
    rng = np.random.default_rng(seed + 1)
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.add_(0.2 * torch.from_numpy(rng.normal(size=parameter.shape)).float())
    card = {
        "agent": "inspector" if isinstance(config, InspectorConfig) else "split-window",
        "config": plain(config),
        "training": {"reward": "waiting"},
        "validation": {"waiting_time_mean": wait},
        "history": HISTORY,
    }
    save_weights(directory / name, policy.state_dict(), card)


@pytest.fixture(scope="session")
def batch_weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory of split windows and inspectors."""
    directory = tmp_path_factory.mktemp("batch_weights")
    small = {"hidden": (8,)}
    save_batch(directory, "lublin256-any", SplitWindowConfig(16, 16, **small))
    save_batch(directory, "lublin256-m8-t0", SplitWindowConfig(8, 0, **small))
    save_batch(directory, "lublin256-m20-t0", SplitWindowConfig(20, 0, **small))
    save_batch(directory, "lublin256-m20-t5", SplitWindowConfig(15, 5, **small), wait=8_000.0)
    save_batch(directory, "lublin256-m20-t10", SplitWindowConfig(10, 10, **small), wait=8_500.0)
    save_batch(directory, "lublin256-m20-t10-seed1", SplitWindowConfig(10, 10, **small), seed=1, wait=7_000.0)
    save_batch(directory, "lublin256-m20-t1-paper", SplitWindowConfig(19, 1, "mlp", (8,)))
    save_batch(directory, "lublin256-m32-t16-fair", SplitWindowConfig(16, 16, reserve_after=5_000.0, **small))
    save_batch(directory, "kth100-m10-t5", SplitWindowConfig(5, 5, num_cores=100, **small))
    save_batch(directory, "lublin256-inspector-f1", InspectorConfig("f1"))
    save_batch(directory, "lublin256-inspector-sjf", InspectorConfig("sjf-cores"))
    return directory


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Let torch use one thread while a test runs."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
