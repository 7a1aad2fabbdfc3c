"""Multi-server agents by name."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Any

from desim.agents.multiserver.baselines import DRF, BinPacking, Fairness, Spreading
from desim.agents.multiserver.gang import GangRepair
from desim.agents.multiserver.line_search import BestSlot, LineSearchOGA
from desim.agents.multiserver.oga import AdaGrad, ExactOGA, GeometricSteps, OptimisticOGA
from desim.agents.multiserver.ogasched import OGASched
from desim.agents.registry import Family, Registry
from desim.exceptions import InvalidConfiguration

__all__ = ["create", "descriptions", "files"]


def _base_files(base: str) -> tuple[Path, ...] | None:
    """Return the files of the agent that another one is made of."""
    return _REGISTRY.files(base)


_WORDS: dict[str, tuple[str, Any]] = {
    "reactive": ("form", "reactive"),
    "reservation": ("form", "reservation"),
    "all": ("among", "all"),
    "arrived": ("among", "arrived"),
    "forget": ("forget", True),
    "remember": ("forget", False),
    "leftovers": ("leftovers", "kept"),
    "capped": ("capped", True),
}
_STEPS = {"eta": 25.0, "decay": 0.9999}


def _variant(make: Any, words: tuple[str, ...], rest: str) -> Any:
    """Return the agent whose name goes on in words that are joined by hyphens, such as ``reservation-eta=5``."""
    options: dict[str, Any] = {}
    steps: dict[str, float] = {}
    for word in re.split(r"-(?=[a-z])", rest):
        name, _, number = word.partition("=")
        try:
            if name in _STEPS and number:
                steps[name] = float(number)
            else:
                key, value = _WORDS[word if word in words else ""]
                options[key] = value
        except (KeyError, ValueError) as error:
            known = ", ".join([*words, *(f"{step}=NUMBER" for step in _STEPS)])
            raise InvalidConfiguration(f"variant {rest!r}: got {word!r}, expected one of {known}") from error
    taken = _STEPS | steps
    return make(steps=GeometricSteps(taken["eta"], taken["decay"]), **options)


_REGISTRY: Registry = Registry(
    "multiserver",
    {
        "ogasched": (
            "Algorithm 1 of the OGASched paper as printed; its answers may be infeasible, and are then refused.",
            OGASched,
        ),
        "exact-oga-reactive": (
            "Online gradient ascent with exact projection (not in the paper) that sees the jobs of a slot first.",
            ExactOGA,
        ),
        "exact-oga-reservation": (
            "Online gradient ascent with exact projection (the paper's OGA policy) that reserves first.",
            partial(ExactOGA, "reservation"),
        ),
        "drf": ("Dominant resource fairness: jobs in ascending order of their dominant shares.", DRF),
        "drf-progressive": (
            "Dominant resource fairness: dominant shares on every node grow together.",
            partial(DRF, "progressive"),
        ),
        "fairness": ("Every node shares each resource in proportion to requests.", Fairness),
        "bin-packing": ("Workers go to the fullest nodes.", BinPacking),
        "spreading": ("Workers go to the emptiest nodes.", Spreading),
        "adagrad-reactive": ("Online gradient ascent with AdaGrad's steps that sees the jobs first.", AdaGrad),
        "adagrad-reservation": (
            "Online gradient ascent with AdaGrad's steps that reserves first.",
            partial(AdaGrad, "reservation"),
        ),
        "line-search-reactive": (
            "Line searches from the best of memory, Fairness and DRF, for the jobs of a slot.",
            LineSearchOGA,
        ),
        "line-search-reservation": (
            "Line searches on the mean reward so far, which reserve first.",
            partial(LineSearchOGA, "reservation"),
        ),
        "best-slot": ("The best for the jobs of each slot, solved exactly.", BestSlot),
        "optimistic-oga": ("Optimistic online gradient ascent that reserves first.", OptimisticOGA),
    },
    {
        "ogasched-VARIANT": Family(
            "The same in words of these, in this order: reservation, arrived, forget or remember, leftovers, capped, "
            "eta=25, decay=0.9999.",
            partial(_variant, OGASched, ("reservation", "arrived", "forget", "remember", "leftovers", "capped")),
        ),
        "exact-oga-VARIANT": Family(
            "The same in words of these, in this order: reactive or reservation, all, forget, eta=25, decay=0.9999.",
            partial(_variant, ExactOGA, ("reactive", "reservation", "all", "forget")),
        ),
        "gang-NAME": Family(
            "Any of these, repaired so that no gang is served in part.",
            lambda name: GangRepair(_REGISTRY.create(name)),
            files=_base_files,
        ),
    },
)
create, descriptions, files = _REGISTRY.create, _REGISTRY.descriptions, _REGISTRY.files
