"""Rows of the Standard Workload Format for the tests."""

from __future__ import annotations

HEADER = (
    "; Version: 2.2\n; MaxNodes: 4\n; MaxProcs: 8 (2 of them interactive)\n; Note: one\n;       more\n; Note: two\n"
)


def row(number: float = 1, submit: float = 0, ran: float = 10, cores: int = 2, **fields: float) -> str:
    """Return a row in which all that is not given is unknown."""
    values = dict(enumerate([-1.0] * 18, 1)) | {1: number, 2: submit, 4: ran, 5: cores, 11: 1}
    values |= {int(name[1:]): value for name, value in fields.items()}
    return " ".join(f"{value:g}" for value in values.values())
