"""Steps a second of the compiled vector environment and of single environments in a loop, in processor time."""

from __future__ import annotations

from typing import Any

import gymnasium
from gymnasium.vector import SyncVectorEnv

import desim.envs  # noqa: F401  # registers the environments
from benchmarks.common import print_table, processor_seconds
from desim.problems.batch.vector_env import BatchVectorEnv

NUM_ENVS = (32, 1_024)
STEPS = 32_768
"""Decisions per measurement, of all environments together."""
NUM_JOBS = 256


def play(envs: Any, observation: Any, num_steps: int) -> Any:
    """Start the first job that fits in every environment, and return the last observation."""
    for _ in range(num_steps):
        observation = envs.step(observation["action_mask"].argmax(axis=1))[0]
    return observation


def main() -> None:
    """Print steps a second for some numbers of environments, with and without decisions that are forced."""
    rows = []
    for skips in (False, True):
        options: dict[str, Any] = {"num_jobs": NUM_JOBS, "skip_forced": skips}
        few = SyncVectorEnv([lambda options=options: gymnasium.make("desim/Batch-v0", **options)] * 8)  # type: ignore[misc]
        shown = {few: few.reset(seed=0)[0]}
        many = [BatchVectorEnv(num_envs, **options) for num_envs in NUM_ENVS]
        for envs in many:
            shown[envs] = play(envs, envs.reset(seed=0)[0], 50)  # episodes are in different places, code is compiled
        seconds = processor_seconds(
            3,
            lambda few=few, shown=shown: play(few, shown[few], 256),  # type: ignore[misc]
            *(lambda envs=envs, shown=shown: play(envs, shown[envs], STEPS // envs.num_envs) for envs in many),  # type: ignore[misc]
        )
        single, *together = (
            steps / spent for steps, spent in zip((8 * 256, *[STEPS] * len(many)), seconds, strict=True)
        )
        about = "forced decisions skipped" if skips else "all decisions"
        rows += [
            [
                about,
                f"compiled, {envs.num_envs} environments",
                f"{rate:,.0f}",
                f"{single:,.0f}",
                f"{rate / single:.0f} x",
            ]
            for envs, rate in zip(many, together, strict=True)
        ]
    print_table(
        f"Batch environment, {NUM_JOBS} jobs per episode, 256 cores, window 16 + 16: steps a second",
        ["", "environment", "compiled", "one by one", "ratio"],
        rows,
    )


if __name__ == "__main__":
    main()
