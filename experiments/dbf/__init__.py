"""Figures 3 to 7 of the DBF paper, and what it does not ask: controls, starvation, a real log.

Wang, Harwood and Rodriguez, "Deep Back-Filling: a Split Window Technique for Deep Online Cluster Job Scheduling".
"""
