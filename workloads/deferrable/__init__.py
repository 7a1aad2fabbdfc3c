"""Randomly generated deferrable jobs and the capacity that on-demand jobs leave for them."""

from __future__ import annotations

from desim.workloads.deferrable.distributions import Constant, Law, Sometimes, Uniform
from desim.workloads.deferrable.generator import (
    CORE_CASES,
    DEFAULT,
    DURATION_CASES,
    FLUCTUATING,
    Scenario,
    Settings,
    case,
    generate,
    named,
)

__all__ = [
    "CORE_CASES",
    "DEFAULT",
    "DURATION_CASES",
    "FLUCTUATING",
    "Constant",
    "Law",
    "Scenario",
    "Settings",
    "Sometimes",
    "Uniform",
    "case",
    "generate",
    "named",
]
