"""Registry of multi-server agents, by name."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

from desim.agents.multiserver.baselines import DRF, BinPacking, Fairness, Spreading
from desim.agents.multiserver.gang import GangRepair
from desim.agents.multiserver.line_search import BestSlot, LineSearchOGA
from desim.agents.multiserver.oga import AdaGrad, ExactOGA, GeometricSteps, OptimisticOGA
from desim.agents.multiserver.ogasched import OGASched
from desim.agents.registry import Family, Registry
from desim.exceptions import InvalidConfiguration

__all__ = ["create", "descriptions"]


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
    """Return the agent of a variant: words joined by hyphens, such as ``reservation-eta=5``."""
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
            "Algorithm 1 of the OGASched paper as printed; infeasible allocations are refused.",
            OGASched,
        ),
        "exact-oga-reactive": (
            "Online gradient ascent with exact projection that sees a slot's jobs first (not in the paper).",
            ExactOGA,
        ),
        "exact-oga-reservation": (
            "Online gradient ascent with exact projection that reserves first (the paper's OGA policy).",
            partial(ExactOGA, "reservation"),
        ),
        "drf": ("Dominant resource fairness: smallest dominant share first.", DRF),
        "drf-progressive": (
            "Dominant resource fairness: dominant shares on a node grow at the same rate.",
            partial(DRF, "progressive"),
        ),
        "fairness": ("Each resource of a node is shared in proportion to requests.", Fairness),
        "bin-packing": ("Workers are placed on the fullest nodes.", BinPacking),
        "spreading": ("Workers are placed on the emptiest nodes.", Spreading),
        "adagrad-reactive": ("Online gradient ascent with AdaGrad steps that sees a slot's jobs first.", AdaGrad),
        "adagrad-reservation": (
            "Online gradient ascent with AdaGrad steps that reserves first.",
            partial(AdaGrad, "reservation"),
        ),
        "line-search-reactive": (
            "Line searches that start from the best of the last allocation, Fairness and DRF.",
            LineSearchOGA,
        ),
        "line-search-reservation": (
            "Line searches on the mean reward so far; reserves first.",
            partial(LineSearchOGA, "reservation"),
        ),
        "best-slot": ("Optimal allocation for the jobs of each slot.", BestSlot),
        "optimistic-oga": ("Optimistic online gradient ascent that reserves first.", OptimisticOGA),
    },
    {
        "ogasched-VARIANT": Family(
            "Variant of ogasched: words from this list, in this order, joined by hyphens: reservation, arrived, forget "
            "or remember, leftovers, capped, eta=25, decay=0.9999.",
            partial(_variant, OGASched, ("reservation", "arrived", "forget", "remember", "leftovers", "capped")),
        ),
        "exact-oga-VARIANT": Family(
            "Variant of exact-oga: words from this list, in this order, joined by hyphens: reactive or reservation, "
            "all, forget, eta=25, decay=0.9999.",
            partial(_variant, ExactOGA, ("reactive", "reservation", "all", "forget")),
        ),
        "gang-NAME": Family(
            "Any agent above, with its allocations repaired so that no gang is served in part.",
            lambda name: GangRepair(_REGISTRY.create(name)),
        ),
    },
)
create, descriptions = _REGISTRY.create, _REGISTRY.descriptions
