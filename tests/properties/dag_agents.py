"""Agents that do anything, and runs whose decisions are noted."""

from __future__ import annotations

import math
from random import Random
from typing import Any

from dag_reference import Reference, ReferenceCopy, Scenario

from desim import Result, simulate
from desim.problems.dag import Assign, Copy


class Logged:
    """Let another agent answer, and note when it answered what."""

    def __init__(self, agent: Any) -> None:
        self.agent = agent
        self.log: list[tuple[float, list[Assign]]] = []

    def reset(self, info: Any, rng: Any) -> None:
        reset = getattr(self.agent, "reset", None)
        if reset is not None:
            reset(info, rng)

    def act(self, observation: Any) -> Any:
        action = self.agent.act(observation)
        actions = action if isinstance(action, list) else [action]
        self.log.append((observation.time, [single for single in actions if single is not None]))
        return action


class Anything:
    """Answer anything that is allowed: wait, several nodes, duplicates of any kind, places in a queue.

    Places are tried on the reference first: nothing that waits may start later.
    """

    def __init__(self, scenario: Scenario, seed: str, *, spare: bool) -> None:
        self.rng = Random(seed)
        self.spare = spare
        self.reference = Reference(scenario)

    def act(self, observation: Any) -> Any:
        rng = self.rng
        self.reference.advance(observation.time)
        busy = any(self.reference.running) or any(self.reference.queues)
        if busy and rng.random() < 0.2:
            return rng.choice([None, []])
        if rng.random() < 0.3:
            some = rng.sample(list(observation.ready.values()), rng.randint(1, len(observation.ready)))
            answer = [self.assign(*entry, rng.randrange(observation.executors.num_executors)) for entry in some]
        else:
            answer = [self.anything(observation)]
        if self.spare and busy and rng.random() < 0.3:
            assigned = [(state, int(i)) for state in observation.jobs.values() for i in state.assigned.nonzero()[0]]
            if assigned:
                executor = rng.randrange(observation.executors.num_executors)
                answer.append(self.assign(*rng.choice(assigned), executor))
        for single in answer:
            carry_out(self.reference, single)
        return answer if len(answer) > 1 or rng.random() < 0.5 else answer[0]

    def assign(self, state: Any, node: int, executor: int) -> Assign:
        duplicates: tuple[int, ...] = ()
        if self.rng.random() < 0.5:
            known = [int(other) for other in state.assigned.nonzero()[0]]
            if not self.spare:
                known = [int(parent) for parent in state.job.parents(node)]
            duplicates = tuple(self.rng.sample(known, min(len(known), self.rng.randint(0, 2))))
        return Assign(state.job.job_id, node, executor, duplicates)

    def anything(self, observation: Any) -> Assign:
        executor = self.rng.randrange(observation.executors.num_executors)
        behind = self.assign(*self.rng.choice(list(observation.ready.values())), executor)
        action = behind._replace(position=self.rng.randint(0, len(self.reference.queues[executor])))
        return action if is_expected(self.reference, observation) and fits(self.reference, action) else behind


def carry_out(reference: Reference, action: Assign) -> list[ReferenceCopy]:
    nodes = (*action.duplicates, action.node)
    return reference.assign(action.job_id, nodes, action.executor, action.position)


def is_expected(reference: Reference, observation: Any) -> bool:
    """Tell whether all that waits is expected when it will start, no duplicate bringing data earlier."""
    clone = reference.clone()
    clone.advance(math.inf)
    starts = sorted(copy.start for copy in clone.copies if not copy.start <= reference.now)
    return starts == sorted(copy.start for table in observation.executor_queues.values() for copy in table.waiting)


def fits(reference: Reference, action: Assign) -> bool:
    """Tell whether all that waits starts as before, and what is inserted begins before what is behind it ends."""
    before, after = reference.clone(), reference.clone()
    behind = after.queues[action.executor][action.position :]
    new = carry_out(after, action)
    before.advance(math.inf)
    after.advance(math.inf)
    if behind and not new[-1].start < behind[0].finish:
        return False
    pairs = zip(before.copies, after.copies, strict=False)
    return all(then.start == copy.start or math.isnan(copy.start) for copy, then in pairs)


def logged_run(scenario: Scenario, agent: Any, seed: int = 0) -> tuple[Result, list[Copy], Logged]:
    cluster = scenario.cluster()
    copies: list[Copy] = []
    cluster.on("assignment", lambda time, copy: copies.append(copy))
    logged = Logged(agent)
    return simulate(cluster, logged, seed=seed), copies, logged
