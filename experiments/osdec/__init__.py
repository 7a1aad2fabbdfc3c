"""Tables 1, 2 and 4 and figure 4 of the OSDEC paper, and more about its agents.

That is what they predict, what their attention goes to, and what it costs to keep violations rare.

Dong et al., "An Advanced Reinforcement Learning Framework for Online Scheduling of Deferrable Workloads in Cloud
Computing".
"""
