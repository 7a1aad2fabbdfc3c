"""What the tests of the command line share."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

HEADER = "; Version: 2.2\n; MaxProcs: 8\n"
#: (job number, submit time, run time, processors, requested time, user)
ROWS = [(1, 0, 50, 4, 60, 1), (2, 5, 30, 8, 20, 2), (3, 6, 10, 2, 10, 1), (4, 6, 100, 1, 120, 3), (9, 40, 5, 8, 5, 2)]


class Outcome(NamedTuple):
    """What a command line led to."""

    status: int
    out: str
    err: str


#: Whoever runs the tests may have told their processes to ignore Ctrl-C.
INTERRUPTIBLE = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "

Desim = Callable[..., Outcome]


def swf_row(number: int, submit: int, run: int, cores: int, requested: int, user: int) -> str:
    """Write a row of a Standard Workload Format log."""
    return f"{number} {submit} -1 {run} {cores} -1 -1 {cores} {requested} -1 1 {user} -1 -1 -1 -1 -1 -1"
