"""What a mutant is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["ROOMS", "Mutant", "Spelling", "mutant"]

ROOMS: dict[str, tuple[str, ...]] = {
    "kernel": ("desim", "processes", "properties", "analytic"),
    "batch": ("desim", "properties", "analytic"),
    "dag": ("desim", "properties", "agents"),
    "deferrable": ("desim", "agents", "properties"),
    "multiserver": ("desim", "agents", "properties"),
    "agents": ("agents", "properties", "published"),
    "metrics": ("metrics", "properties"),
    "rules": ("validation", "properties"),
    "readers": ("workloads", "cli"),
    "learning": ("learning", "envs", "agents"),
}
"""The rooms of mutants, and the folders of tests that see them."""

Spelling = tuple[str, str]
"""A text that occurs once, and its replacement; indentation is left out, and kept."""


@dataclass(frozen=True)
class Mutant:
    """A fault.

    Attributes
    ----------
    name : str
        A few words with hyphens.
    room : str
        One of :data:`ROOMS`.
    spellings : tuple of (str, str)
        What to replace, and by what; the first that is found in the tree counts.
    tests : tuple of str
        Names of test modules without folder and ending, and folders of tests with a slash at their end, the quickest
        likely killers first.
    """

    name: str
    room: str
    spellings: tuple[Spelling, ...]
    tests: tuple[str, ...]


def mutant(room: str, name: str, *parts: str | Sequence[str]) -> Mutant:
    """Return a mutant: original, replacement, and again for other spellings; at the end, a string of tests."""
    *texts, tests = parts
    assert len(texts) % 2 == 0, name
    assert isinstance(tests, str), name
    spellings = tuple((str(texts[at]), str(texts[at + 1])) for at in range(0, len(texts), 2))
    return Mutant(name, room, spellings, tuple(tests.split()))
