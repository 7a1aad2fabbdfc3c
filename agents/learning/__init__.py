"""What agents that learn share: experience of many environments, algorithms, a training loop, files.

It knows Gymnasium, and nothing of clusters. PPO's story is :mod:`~desim.agents.learning.ppo`.
"""
