"""Multi-server agents by name."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from desim.agents.multiserver.gang import GangRepair
from desim.agents.multiserver.line_search import BestSlot, LineSearchOGA
from desim.agents.multiserver.oga import AdaGrad, OGASched, OptimisticOGA
from desim.agents.multiserver.rivals import DRF, BinPacking, Fairness, Spreading
from desim.agents.registry import Family, Registry

__all__ = ["create", "descriptions", "files"]


def _base_files(base: str) -> tuple[Path, ...] | None:
    """Return the files of the agent that another one is made of."""
    return _REGISTRY.files(base)


_REGISTRY: Registry = Registry(
    "multiserver",
    {
        "oga-reactive": ("Online gradient ascent (OGASched) that sees the jobs of a slot first.", OGASched),
        "oga-reservation": ("Online gradient ascent (OGASched) that reserves first.", partial(OGASched, "reservation")),
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
        "gang-NAME": Family(
            "Any of these, repaired so that no gang is served in part.",
            lambda name: GangRepair(_REGISTRY.create(name)),
            files=_base_files,
        )
    },
)
create, descriptions, files = _REGISTRY.create, _REGISTRY.descriptions, _REGISTRY.files
