"""The same training by this package and by Stable-Baselines3, with the same settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np

from desim.agents.learning.evaluation import evaluate
from desim.agents.learning.learner import Discounting
from desim.agents.learning.policy import MLPPolicy
from desim.agents.learning.ppo import PPO, PPOConfig
from desim.agents.learning.training import Task, Training, TrainingConfig

Make = Callable[[], gymnasium.Env[Any, Any]]

#: Settings of both, for CartPole and for the bandit.
CARTPOLE = {
    "lr": 1e-3,
    "envs": 8,
    "steps": 64,
    "batch": 128,
    "epochs": 10,
    "gamma": 0.98,
    "lambda": 0.9,
    "total": 60_000,
}
BANDIT = {"lr": 3e-3, "envs": 8, "steps": 32, "batch": 64, "epochs": 4, "gamma": 0.9, "lambda": 0.9, "total": 4_096}


def ours(make: Make, settings: dict[str, Any], seed: int, seeds: list[int], **network: Any) -> list[float]:
    """Train with this package's PPO; return the returns of the last weights in greedy episodes."""
    config = PPOConfig(
        learning_rate=settings["lr"],
        final_learning_rate=0.0,
        epochs=settings["epochs"],
        minibatch_size=settings["batch"],
        entropy=0.0,
        target_kl=None,
        normalize_values=False,
        discounting=Discounting(settings["gamma"], settings["lambda"]),
    )
    policy = MLPPolicy(rng=np.random.default_rng(seed), **network)
    training = TrainingConfig(
        total_steps=settings["total"],
        seed=seed,
        num_envs=settings["envs"],
        num_steps=settings["steps"],
        validation_episodes=1,
        validate_every=100_000,
    )
    Training(Task(make, make), PPO(policy, config, np.random.default_rng(seed)), training).run()
    return [episode["return"] for episode in evaluate(policy, make, seeds)]


def theirs(
    make: Make, settings: dict[str, Any], seed: int, seeds: list[int], *, masked: bool, hidden: Any
) -> list[float]:
    """Train with Stable-Baselines3's; return the same."""
    import torch
    from sb3_contrib import MaskablePPO
    from stable_baselines3 import PPO as Plain  # noqa: N811
    from stable_baselines3.common.env_util import make_vec_env

    model = (MaskablePPO if masked else Plain)(
        "MultiInputPolicy" if masked else "MlpPolicy",
        make_vec_env(make, settings["envs"], seed=seed),
        learning_rate=lambda left: settings["lr"] * left,
        n_steps=settings["steps"],
        batch_size=settings["batch"],
        n_epochs=settings["epochs"],
        gamma=settings["gamma"],
        gae_lambda=settings["lambda"],
        seed=seed,
        device="cpu",
        policy_kwargs={"net_arch": list(hidden), "activation_fn": torch.nn.Tanh},
    )
    model.learn(settings["total"])
    returns = []
    for one in seeds:
        env = make()
        seen, earned, over = env.reset(seed=one)[0], 0.0, False
        while not over:
            masks = {"action_masks": env.unwrapped.action_masks()} if masked else {}
            action, _ = model.predict(seen, deterministic=True, **masks)
            seen, reward, terminated, truncated, _ = env.step(int(action))
            earned, over = earned + float(reward), terminated or truncated
        returns.append(earned)
    return returns
