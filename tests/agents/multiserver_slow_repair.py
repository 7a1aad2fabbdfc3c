"""The repair for gangs a second time, in loops; gangs to try it on, and the rule that it must obey."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from multiserver_slow_agents import Floats, random_rewards
from numpy.random import Generator

from desim.problems.multiserver import Gang, GangRewards, MultiServerObservation

VALUE: dict[str, Callable[[float, float], float]] = {
    "linear": lambda y, alpha: alpha * y,
    "log": lambda y, alpha: alpha * math.log(y + 1),
    "reciprocal": lambda y, alpha: 1 / alpha - 1 / (y + alpha),
    "poly": lambda y, alpha: alpha * math.sqrt(y + 1) - alpha,
}


def random_gangs(rng: Generator, *, whole: bool, holding: bool = False) -> MultiServerObservation:
    """Return what an agent may see of jobs with one to four components."""
    jobs = random_rewards(rng)
    counts = rng.integers(1, 5, jobs.graph.num_ports)
    components = [
        rng.uniform(0.05, 1.5, (count, jobs.graph.num_resources)) * (rng.random((count, 1)) < 0.95) for count in counts
    ]
    gang = Gang(components, [int(rng.integers(1, count + 1)) for count in counts], whole=whole)
    rewards = GangRewards(jobs, gang)
    observation = MultiServerObservation(rewards.graph, rewards)
    observation.arrived = np.repeat(rng.random(len(counts)) < 0.8, counts)
    if holding:
        observation.capacity = rewards.graph.capacity * rng.random(rewards.graph.capacity.shape)
    return observation


def random_answer(observation: MultiServerObservation, rng: Generator) -> Floats:
    """Return a feasible allocation of components in which many have nothing."""
    graph = observation.graph
    answer = rng.random(graph.shape) * graph.channel_requests * (rng.random((graph.num_channels, 1)) < 0.3)
    total = np.maximum(graph.node_sums(answer), 1e-300)
    return answer * np.minimum(observation.capacity / total, 1.0)[graph.channel_node]


class Loops:
    """The repair as its description has it, job by job."""

    def __init__(self, observation: MultiServerObservation, answer: Floats) -> None:
        assert isinstance(observation.rewards, GangRewards)
        self.rewards, graph = observation.rewards, observation.graph
        self.ends = list(zip(graph.channel_port.tolist(), graph.channel_node.tolist(), strict=True))
        self.resources = range(graph.num_resources)
        self.requests, self.capacity = graph.requests.tolist(), observation.capacity.tolist()
        self.y = {end: row.tolist() for end, row in zip(self.ends, answer, strict=True)}
        self.parts: list[list[int]] = [[] for _ in self.rewards.jobs.graph.ports]
        for port, job in enumerate(self.rewards.job_of.tolist()):
            self.parts[job].append(port)
        for port, _ in self.ends:
            if not observation.arrived[port]:
                self.clear(port)
        self.there = [job for job, ports in enumerate(self.parts) if observation.arrived[ports[0]]]

    def clear(self, port: int) -> None:
        for end in self.ends:
            if end[0] == port:
                self.y[end] = [0.0] * len(self.resources)

    def has(self, port: int) -> float:
        return sum(sum(self.y[end]) for end in self.ends if end[0] == port)

    def is_served(self, port: int) -> bool:
        return any(amount > 1e-9 for end in self.ends if end[0] == port for amount in self.y[end])

    def free(self, node: int, k: int) -> float:
        return self.capacity[node][k] - sum(self.y[end][k] for end in self.ends if end[1] == node)

    def reward(self, job: int) -> float:
        model, total = self.rewards.jobs, [0.0] * len(self.resources)
        gain = 0.0
        for node in range(model.graph.num_nodes):
            for k in self.resources:
                amount = sum(self.y[end][k] for end in self.ends if end[0] in self.parts[job] and end[1] == node)
                gain += VALUE[str(model.utilities[node, k])](amount, float(model.weights[node, k]))
                total[k] += amount
        return gain - max(beta * held for beta, held in zip(model.overhead.tolist(), total, strict=True))

    def order(self) -> list[int]:
        return sorted(self.there, key=lambda job: (-self.reward(job), job))

    def complete(self) -> Floats:
        for job in self.order():
            needed = int(self.rewards.gang.minimum[job])
            served = sum(self.is_served(port) for port in self.parts[job])
            if not 0 < served < needed:
                continue
            for port in self.parts[job]:
                offers = {
                    node: [min(self.requests[port][k], max(self.free(node, k), 0.0)) for k in self.resources]
                    for other, node in self.ends
                    if other == port
                }
                if served < needed and not self.is_served(port) and max(map(max, offers.values()), default=0.0) > 1e-9:
                    best = max(offers, key=lambda node: (sum(offers[node]), -node))
                    self.y[port, best] = offers[best]
                    served += 1
            if served < needed:
                for port in self.parts[job]:
                    self.clear(port)
        return self.rows()

    def round(self) -> Floats:
        order, wanted = self.order(), {end: sum(row) for end, row in self.y.items()}
        mass = [self.has(port) for ports in self.parts for port in ports]
        for port, _ in self.ends:
            self.clear(port)
        for job in order:
            needed, count, earned = int(self.rewards.gang.minimum[job]), 0, 0.0
            for port in sorted(self.parts[job], key=lambda port: (-mass[port], port)):
                request = self.requests[port]
                fits = [
                    node
                    for other, node in self.ends
                    if other == port and all(request[k] <= self.free(node, k) * (1 + 1e-12) for k in self.resources)
                ]
                if not fits or not any(request):
                    continue
                self.y[port, max(fits, key=lambda node: (wanted[port, node], -node))] = list(request)
                reward = self.reward(job)
                if count >= needed and reward <= earned:
                    self.clear(port)
                else:
                    count, earned = count + 1, reward
            if count < needed:
                for port in self.parts[job]:
                    self.clear(port)
        return self.rows()

    def rows(self) -> Floats:
        return np.array([self.y[end] for end in self.ends]).reshape(-1, len(self.resources))


def assert_carried_out(observation: MultiServerObservation, answer: Floats) -> None:
    """Check bounds, capacities, the rule for gangs, and that absent jobs have nothing, by loops."""
    loops = Loops(observation, answer)
    assert isinstance(observation.rewards, GangRewards)
    assert np.array_equal(loops.rows(), answer)  # absent jobs had nothing to be cleared
    gang = observation.rewards.gang
    for (port, _), row in loops.y.items():
        for amount, request in zip(row, loops.requests[port], strict=True):
            assert amount == 0 or 0 < amount <= request * (1 + 1e-9)
            assert not gang.whole or not any(row) or amount == request
    for node in range(observation.graph.num_nodes):
        for k in loops.resources:
            assert loops.free(node, k) >= -1e-9 * (observation.graph.capacity[node, k] + 1)
    for job, ports in enumerate(loops.parts):
        served = sum(loops.has(port) > 0 for port in ports)
        assert served == 0 or served >= gang.minimum[job]
        for port in ports if gang.whole else ():
            assert sum(any(loops.y[end]) for end in loops.ends if end[0] == port) <= 1
