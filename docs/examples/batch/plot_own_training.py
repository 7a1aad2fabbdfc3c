"""
Train a small policy in seconds
===============================

A priority with three weights is learned on generated workloads: its learning curve, and which jobs it prefers in the
end. :doc:`/tutorial` explains the program step by step and compares the agent. It runs in a few seconds.
"""

# %%
# The policy
# ----------
# A score for every job in a window of the queue: a weighted sum of the logarithms of its requested time, its cores
# and its waiting time. The job with the highest score among those that fit is started, and it never waits while one
# fits. All weights begin with 0, when all jobs are equal.

import numpy as np
import torch
from matplotlib.figure import Figure

from desim.agents.batch.training import measure
from desim.agents.learning.learner import LearningConfig
from desim.agents.learning.policy import MaskedCategorical, Policy
from desim.agents.learning.ppo import PPO
from desim.agents.learning.training import Task, Training, TrainingConfig
from desim.problems.batch.encoders import CLUSTER_FEATURES, JOB_FEATURES, SCALE
from desim.problems.batch.env import BatchEnv, TraceEpisodes
from desim.workloads import lublin

seen = ["requested_time", "requested_cores_log", "waiting_time"]


class WeightedSum(Policy):
    """Scores jobs by a weighted sum."""

    def __init__(self):
        super().__init__()
        self.columns = [JOB_FEATURES.index(name) for name in seen]
        self.weights = torch.nn.Linear(len(seen), 1, bias=False)
        self.critic = torch.nn.Linear(len(CLUSTER_FEATURES), 1)
        for parameter in self.parameters():
            torch.nn.init.zeros_(parameter)

    def forward(self, observations):
        """Return a distribution over actions, and values."""
        scores = self.weights(observations["jobs"][:, :, self.columns]).squeeze(-1)
        wait = torch.full_like(scores[:, :1], -20.0)
        actions = MaskedCategorical(torch.cat([scores, wait], dim=1), observations["action_mask"])
        return actions, self.critic(observations["cluster"]).squeeze(-1)


# %%
# The learning curve
# ------------------
# Episodes for training and for validation come from different seeds. PPO learns from 1,024 decisions at a time; the
# curve is the mean waiting time over four validation episodes, with the actions that are likeliest so far.


def episodes(seeds):
    """Return episodes that are cut from workloads of these seeds."""
    traces = [lublin.generate(1_000, 64, seed, load=1.0, overestimate=5.0) for seed in seeds]
    return TraceEpisodes(traces, 64, num_jobs=200, arrivals="open")


def make_env(chosen):
    """Return an environment with these episodes."""
    return BatchEnv(chosen, 64, window=(8, 8), num_jobs=200, skip_forced=True)


for_training, for_validation = episodes(range(1_000, 1_008)), episodes(range(2_000, 2_004))
task = Task(
    make_env=lambda: make_env(for_training),
    make_validation_env=lambda: make_env(for_validation),
    measure=measure,
    objective="waiting_time_mean",
    maximize=False,
)
settings = LearningConfig(learning_rate=0.1, minibatch_size=512, discount=0.98, gae_lambda=0.9, time_unit=3_600.0)
length = TrainingConfig(total_steps=6_144, num_envs=8, num_steps=128, validation_episodes=4, validate_every=1)
policy = WeightedSum()
course = Training(task, PPO(policy, settings, np.random.default_rng(0)), length).run()
policy.load_state_dict(course.weights)

steps = [entry["steps"] for entry in course.history]
waits = [entry["validation"]["waiting_time_mean"] / 3_600.0 for entry in course.history]
curve_axes = Figure(figsize=(6.5, 3.2), layout="constrained").subplots()
curve_axes.plot(steps, waits, marker="o", color="#0072B2")
curve_axes.set(xlabel="decisions learned from", ylabel="mean waiting time (h)", ylim=(0.0, 1.1 * max(waits)))
curve_axes.xaxis.set_major_formatter("{x:,.0f}")
curve_axes.grid(alpha=0.3)

# %%
# What was learned
# ----------------
# The score of a job that has just arrived, over its requested time and its width. The policy has learned to start short
# jobs first without being given such a rule. The effect of the width differs from training to training.

times, cores = np.geomspace(10.0, 400_000.0, 60), np.arange(1, 65)
time_weight, core_weight, _ = policy.weights.weight[0].tolist()
by_time = time_weight * SCALE * np.log1p(times)
by_cores = core_weight * np.log1p(cores) / np.log1p(64)
figure = Figure(figsize=(6.5, 3.4), layout="constrained")
score_axes = figure.subplots()
image = score_axes.contourf(times / 3_600.0, cores, by_time[None, :] + by_cores[:, None], levels=12, cmap="cividis")
score_axes.set(xscale="log", xlabel="requested time (h)", ylabel="requested cores")
figure.colorbar(image, label="score")
