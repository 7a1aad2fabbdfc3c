"""Placement from the definitions: exact fractions, lists, loops over nodes, tasks and GPUs; nothing of what is tested.

A request goes task by task to the first node in the order of the policy that has room for another one, and to the next
node when it has none. Of GPUs, whole ones are the first that are free; a share goes where the policy says.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from desim.problems.batch import Node, NodeAllocation, Request

WHOLE = 1000
Typical = Sequence[tuple[Request, int]]


@dataclass
class There:
    """What is free on a node."""

    node: Node
    amounts: dict[str, int]
    gpus: list[int]
    jobs: int = 0
    down: bool = False

    @classmethod
    def of(cls, node: Node, resources: Sequence[str]) -> There:
        """Return an empty node."""
        has = {"cores": node.cores, "memory": node.memory} | dict(node.resources)
        return cls(node, {name: has.get(name, 0) for name in resources}, [WHOLE] * node.gpus)

    def copy(self) -> There:
        """Return the same, to be changed."""
        return There(self.node, dict(self.amounts), list(self.gpus), self.jobs, self.down)


def wanted(request: Request) -> dict[str, int]:
    """Return what a task requests of all but GPUs."""
    return {"cores": request.cores, "memory": request.memory} | dict(request.resources)


def share_of(request: Request) -> int:
    """Return the thousandths of one GPU that a task requests, 0 if it requests whole ones, or none."""
    return round(request.gpus * WHOLE) if request.gpus < 1 else 0


def suits(node: Node, request: Request) -> bool:
    """Tell whether a node will do by what it is."""
    return (
        request.partition in ("", node.partition)
        and (not request.gpu_models or node.gpu_model in request.gpu_models)
        and set(request.features) <= node.features
        and not set(request.excluded_features) & node.features
    )


def fitting(there: There, request: Request) -> list[int]:
    """Return the GPUs that could serve a task, whole ones or for a share."""
    least = share_of(request) or WHOLE
    return [gpu for gpu, free in enumerate(there.gpus) if free >= least]


def has_room(there: There, request: Request) -> bool:
    """Tell whether a node could take one task."""
    if there.down or not suits(there.node, request) or (request.exclusive and there.jobs):
        return False
    if any(there.amounts[name] < amount for name, amount in wanted(request).items()):
        return False
    return len(fitting(there, request)) >= (int(request.gpus) or bool(share_of(request)))


def after(there: There, request: Request, gpu: int | None) -> There:
    """Return what is free with one more task, its share on a GPU, or its whole GPUs the first that are free."""
    left = there.copy()
    for name, amount in wanted(request).items():
        left.amounts[name] -= amount
    if gpu is not None:
        left.gpus[gpu] -= share_of(request)
    else:
        for one in fitting(there, request)[: int(request.gpus)]:
            left.gpus[one] -= WHOLE
    return left


def fragmentation(there: There, typical: Typical) -> Fraction:
    """Return the free thousandths of GPUs that a task of the workload could not use, on the mean over its kinds.

    A task that does not fit can use none of them. One that fits can use those GPUs that have as much free as it wants
    of one GPU. Cores decide beside GPUs whether it fits, and tasks without GPUs use none.
    """
    lost, total = Fraction(0), Fraction(0)
    for request, count in typical:
        each = share_of(request) or WHOLE
        usable = [free for free in there.gpus if free >= each]
        fits = (
            request.gpus > 0
            and suits(there.node, request)
            and there.amounts["cores"] >= request.cores
            and len(usable) >= (int(request.gpus) or 1)
        )
        lost += count * (sum(there.gpus) - (sum(usable) if fits else 0))
        total += count
    return lost / total


class Plain:
    """The policies on nodes, and what is free there.

    Parameters
    ----------
    nodes : sequence of Node
        All empty.
    typical : sequence of (Request, int)
        For FGD.
    """

    def __init__(self, nodes: Sequence[Node], typical: Typical) -> None:
        resources = ["cores", "memory", *sorted({name for node in nodes for name in node.resources})]
        self.there = [There.of(node, resources) for node in nodes]
        self.most = {name: max(there.amounts[name] for there in self.there) for name in resources}
        self.most_gpus = max(sum(there.gpus) for there in self.there)
        self.typical = typical

    def score(self, policy: str, there: There, request: Request) -> object:
        """Return what a policy thinks of a node for a task; the greatest comes first."""
        asked = wanted(request)
        gpus = int(request.gpus) * WHOLE or share_of(request)
        pairs = [(there.amounts[name], asked.get(name, 0), most) for name, most in self.most.items()]
        pairs.append((sum(there.gpus), gpus, self.most_gpus))
        left = sum(Fraction(free - want, most) for free, want, most in pairs if most)
        match policy:
            case "best-fit":
                return -left
            case "worst-fit":
                return left
            case "dot-product":
                return sum(Fraction(free * want, most * most) for free, want, most in pairs if most)
            case "gpu-packing" if gpus:
                shared = [free for free in fitting(there, request) if there.gpus[free] < WHOLE]
                is_used = sum(there.gpus) < WHOLE * len(there.gpus)
                group = 2 if share_of(request) and shared else 1 if is_used else 0
                return group, -there.gpus.count(WHOLE), -sum(there.gpus)
            case "fgd":
                return max(self.gain(there, request, gpu) for gpu in self.choices(there, request))
        return 0

    def choices(self, there: There, request: Request) -> list[int | None]:
        """Return the GPUs on which a share could go; nothing to choose for whole ones."""
        return list(fitting(there, request)) if share_of(request) else [None]

    def gain(self, there: There, request: Request, gpu: int | None) -> int:
        """Return whole hundredths of a sigmoid of how much less fragmented a node would be, in GPUs."""
        less = fragmentation(there, self.typical) - fragmentation(after(there, request, gpu), self.typical)
        return math.floor(100 / (1 + math.exp(-float(less / WHOLE))))

    def device(self, policy: str, there: There, request: Request) -> int | None:
        """Return the GPU that a share gets: under FGD where least is lost, else the fullest that has room."""
        choices = self.choices(there, request)
        if policy == "fgd":
            return max(choices, key=lambda gpu: self.gain(there, request, gpu))  # the first of equal ones
        return min(choices, key=lambda gpu: 0 if gpu is None else there.gpus[gpu])

    def place(self, policy: str, request: Request) -> tuple[NodeAllocation, ...] | None:
        """Return what a request gets; None if not all of its tasks have room."""
        able = [number for number, there in enumerate(self.there) if has_room(there, request)]
        able.sort(key=lambda number: self.score(policy, self.there[number], request), reverse=True)  # type: ignore[arg-type, return-value]
        held, left = [], request.tasks
        for number in able:
            there, tasks = self.there[number].copy(), 0
            while left and tasks < (request.tasks_per_node or left + tasks) and has_room(there, request):
                there = after(there, request, self.device(policy, there, request))
                tasks, left = tasks + 1, left - 1
            if tasks:
                held.append(self.held(number, there, tasks, request))
        return None if left else tuple(held)

    def held(self, number: int, there: There, tasks: int, request: Request) -> NodeAllocation:
        """Return the difference between what was and what is free; all of a node for an exclusive job."""
        before = self.there[number]
        if request.exclusive:
            there = There(before.node, dict.fromkeys(before.amounts, 0), [0] * len(before.gpus))
        amounts = tuple(before.amounts[name] - there.amounts[name] for name in before.amounts)
        shares = [(gpu, before.gpus[gpu] - free) for gpu, free in enumerate(there.gpus) if free < before.gpus[gpu]]
        return NodeAllocation(number, tasks, amounts, tuple(shares))

    def change(self, held: tuple[NodeAllocation, ...], sign: int) -> None:
        """Let a job have something, or give it back."""
        for number, _, amounts, gpus in held:
            there = self.there[number]
            for name, amount in zip(there.amounts, amounts, strict=True):
                there.amounts[name] -= sign * amount
            for gpu, share in gpus:
                there.gpus[gpu] -= sign * share
            there.jobs += sign
