"""Pins: digests of what 200 scenarios of each problem, 422 of batch sites, and the quick experiments, come to.

They hold the behaviour of desim still while its code is moved: every recorded value, byte for byte, and every metric.
From the root of the repository::

    python -m tests.pins check                       # all of them, in two minutes; 1 if anything differs
    python -m tests.pins check --problem sites       # one of them
    python -m tests.pins check --only 'jobs.*'       # some columns; "metrics.*" are the metrics, "info.*" the run's end
    python -m tests.pins show batch 17               # a scenario, its tables and metrics, to compare two checkouts
    python -m tests.pins write --only metrics.utilization   # accept what was changed on purpose, and nothing else
    python -m tests.pins check --experiments         # the quick experiments of the four papers: half an hour

``scenarios/*.json`` are the scenarios, as plain values, one a line: they depend on no test. ``digests/*.json`` has,
for each column of each table, a digest of its values in the order of the rows, one a scenario. Both are data;
clusters and agents are made as in ``tests/properties``, and `tests.pins.renamed` knows what a column was called when
the digests were written, so that a column that moves to another name is compared nonetheless.

``sites`` are batch clusters with all that sites do: nodes, sizes, windows, limits, dependencies, qualities,
checkpoints, grace, outages, each pair of these in twenty scenarios or more. Their values have names of their own, and
`tests.pins.sites` alone makes clusters of them. ``test_pins.py`` runs a part of those that no processor rounds.

Digests are of one kind of processor: elsewhere the last bit of a drawn number may be another one, in a few of the
scenarios. If a checkout from before the change differs in the same ones, that is it; to be sure, ``write`` there, and
``check`` here with the files that this makes.
"""
