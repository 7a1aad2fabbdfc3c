"""Mutants: faults that a programmer could make, and whether the tests find them.

Each mutant of ``catalogue.toml`` is a line or two of the code, what it is replaced by, and the tests that should
notice. From the root of the repository::

    python -m tests.mutants list                        # all of them, and whether their text is still there
    python -m tests.mutants run                         # all that have no result yet; stop and go on at any time
    python -m tests.mutants run rules batch-requeue     # some packages, some mutants
    python -m tests.mutants run --again --jobs 2        # forget the results, two at a time
    python -m tests.mutants report                      # what survives, and what the old suite killed

The text of a mutant is looked for in all of ``desim``, ``agents``, ``workloads`` and ``experiments``, wherever it
stands and however it is indented: code may move. Where code was written anew, the mutant is "not found": give it its
new spelling. Tests are named without their folder, so that they may move, too; ``properties/`` is a folder. A mutant
that survives the tests that it names is tried on all tests of the folders of its room with ``--wide``.

A copy of the tree is made in a temporary folder, the mutant is put into it, and its tests run there one file after the
other, the likeliest first, until one fails. Results are in ``results/mutants.json``; ``old_suite.json`` beside the list
has those of the suite as it was before the rebuild (1e6d7a8), of which the new one is to kill no fewer.
"""
