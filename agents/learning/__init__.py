"""What agents that learn share: rollouts of many environments, algorithms, a training loop, files.

It knows Gymnasium, and nothing of clusters.
"""
