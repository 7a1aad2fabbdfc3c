"""The experiments of "Scheduling Multi-Server Jobs with Sublinear Regrets via Online Learning" (arXiv 2305.06572).

Every figure and table of section 4 is a module, and ``python -m experiments.ogasched.figure2 --quick`` runs it;
``python -m experiments.ogasched`` runs all of them.

The paper prints no code and no data. What it says of its set-up is kept (table II, captions); machines and requests
are those of `workloads.multiserver`. Absolute rewards are therefore not comparable beyond their order of magnitude; how
far OGASched is ahead of its rivals is what these experiments compare.
"""
