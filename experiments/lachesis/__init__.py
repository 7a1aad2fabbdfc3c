"""The experiments of LACHESIS: Luo et al., "Learning to Optimize DAG Scheduling in Heterogeneous Environment".

Each module is a figure or a question and runs by itself, for example ``python -m experiments.lachesis.figure7``; all of
them by ``python -m experiments.lachesis``.
"""
