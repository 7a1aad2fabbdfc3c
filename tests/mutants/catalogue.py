"""All mutants."""

from __future__ import annotations

from collections import Counter

from tests.mutants.agents import AGENTS
from tests.mutants.dynamics import DYNAMICS
from tests.mutants.inputs import INPUTS
from tests.mutants.measures import MEASURES
from tests.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

MUTANTS: tuple[Mutant, ...] = (*DYNAMICS, *AGENTS, *MEASURES, *INPUTS)
"""In the order of their rooms."""

assert max(Counter(mutant.name for mutant in MUTANTS).values()) == 1, "two mutants have one name"
