"""Tables 1, 2 and 4 of the OSDEC paper: deferrable jobs under fluctuating capacity.

Dong et al., "An Advanced Reinforcement Learning Framework for Online Scheduling of Deferrable Workloads in Cloud
Computing".
"""
