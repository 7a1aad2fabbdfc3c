"""Training of the agents: which part of a round's processor time goes into what, in one process."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import torch

from benchmarks.common import print_table
from benchmarks.figures import trainings
from desim.agents.learning.lanes import CompiledLanes, Lanes
from desim.agents.learning.learner import Learner

PARTS = ("simulation", "new episodes", "encoding", "forward, acting", "forward, learning", "backward", "optimizer")
REST = "the rest"
ROUNDS = 3


class Clock:
    """Seconds of processor time by part; what is inside another part counts for itself alone."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys((*PARTS, REST), 0.0)
        self._within = [REST]
        self._since = time.process_time()

    def turn(self) -> None:
        """Count the time since the last turn for the part that is going on."""
        now = time.process_time()
        self.seconds[self._within[-1]] += now - self._since
        self._since = now

    def timed(self, part: Callable[[], str], function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that does the same, and whose time counts for a part."""

        def call(*args: Any, **kwargs: Any) -> Any:
            self.turn()
            self._within.append(part())
            try:
                return function(*args, **kwargs)
            finally:
                self.turn()
                self._within.pop()

        return call


@contextmanager
def clocked(clock: Clock, policy: type[torch.nn.Module]) -> Iterator[None]:
    """Let a clock run with the parts of a training."""

    def forward() -> str:
        return "forward, learning" if torch.is_grad_enabled() else "forward, acting"

    parts: list[tuple[Any, str, Callable[[], str]]] = [
        *((lanes, "step", lambda: "simulation") for lanes in (Lanes, CompiledLanes)),
        *((lanes, "begin", lambda: "new episodes") for lanes in (Lanes, CompiledLanes)),
        *((lanes, "show", lambda: "encoding") for lanes in (Lanes, CompiledLanes)),
        (policy, "forward", forward),
        (torch.Tensor, "backward", lambda: "backward"),
        (Learner, "step", lambda: "optimizer"),
    ]
    with ExitStack() as stack:
        for owner, name, part in parts:
            stack.enter_context(patch.object(owner, name, clock.timed(part, getattr(owner, name))))
        yield


def shares(name: str) -> tuple[float, dict[str, float]]:
    """Return decisions a second of some rounds of a training, and the share of each part in per cent."""
    training, learner = trainings(name)
    learner.update(training.collect(), 0.0)  # warms up
    clock, decisions = Clock(), 0
    with clocked(clock, type(learner.policy)):
        for _ in range(ROUNDS):
            found = training.collect()
            decisions += found.num_steps
            learner.update(found, 0.0)
    clock.turn()
    total = sum(clock.seconds.values())
    return decisions / total, {part: 100.0 * spent / total for part, spent in clock.seconds.items()}


def main() -> None:
    """Print the table."""
    from desim.agents.learning.policy import one_thread

    names = ("batch", "batch-inspector", "batch-schedinspector", "dag", "deferrable")
    with one_thread():
        found = {name: shares(name) for name in names}
    rows = [
        [name, f"{speed:,.0f}", *(f"{parts[part]:.0f}" for part in (*PARTS, REST))]
        for name, (speed, parts) in found.items()
    ]
    print_table(f"Training, % of the processor time ({ROUNDS} rounds)", ["", "decisions/s", *PARTS, REST], rows)


if __name__ == "__main__":
    main()
