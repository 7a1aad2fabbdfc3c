"""What a mutant is, and all of them."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

__all__ = ["MUTANTS", "ROOMS", "Mutant"]

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
"""The packages of mutants, and the folders of tests that see them."""


@dataclass(frozen=True)
class Mutant:
    """A fault.

    Attributes
    ----------
    name : str
        A few words with hyphens.
    room : str
        One of :data:`ROOMS`.
    original, replacement : str
        A text that occurs once, and what it is replaced by; indentation is left out, and kept.
    tests : tuple of str
        Names of test modules without folder and ending, and folders of tests with a slash at their end, the quickest
        likely killers first.
    """

    name: str
    room: str
    original: str
    replacement: str
    tests: tuple[str, ...]


def _read() -> tuple[Mutant, ...]:
    entries = tomllib.loads(Path(__file__).with_name("catalogue.toml").read_text(encoding="utf-8"))["mutants"]
    found = {entry["name"]: Mutant(**entry | {"tests": tuple(entry["tests"].split())}) for entry in entries}
    assert len(found) == len(entries), "two mutants have one name"
    return tuple(found.values())


MUTANTS = _read()
"""In the order of ``catalogue.toml``."""
