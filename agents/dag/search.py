"""Search over plans for the DAG cluster: over the order of nodes and over their executors.

When jobs arrive, or an outage has invalidated the plan, all unassigned nodes are planned again. A plan is an order of
these nodes with fixed executors for some of them; list scheduling decodes it, see :mod:`desim.agents.dag.decoders`. The
search starts from the plans of common orders and allocations and from the rest of the last plan. It moves nodes and
jobs to other positions until the budget is used up. Between plannings the plan is carried out, with each copy assigned
as late as possible, so that later arrivals can still change it. For the makespan where each node may run on one
executor only, as in job shops, tabu search moves nodes within blocks, see ``desim.agents.dag.disjunctive_search``. On
pools, the search justifies schedules instead, see ``desim.agents.dag.pool_search``.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.random import Generator, default_rng
from numpy.typing import NDArray

from desim.agents.dag.allocation import EFT
from desim.agents.dag.disjunctive_search import improved, is_disjunctive
from desim.agents.dag.list_scheduling import ListScheduler
from desim.agents.dag.orders import SJF, CriticalPath, LeastWork, Order, RankUp, upward_rank
from desim.agents.dag.planning import in_order_of_start
from desim.agents.dag.pool_search import PoolState, search
from desim.agents.lookahead import Forking
from desim.agents.search import Budget, SearchName, decoders
from desim.checks import check_choice
from desim.core import Agent
from desim.exceptions import InvalidConfiguration
from desim.problems.dag import Assign, Copy, DagObservation, JobState
from desim.problems.dag.job import means_where_eligible
from desim.reprs import NamedRepr

__all__ = ["DagSearchState", "GuidedSearchAgent", "SearchAgent"]

Objective = Literal["makespan", "turnaround_time_mean", "job_slr_mean"]
Floats = NDArray[np.float64]
IntArray = NDArray[np.int64]

DECODERS = "desim.agents.dag.decoders"
MOVES = Budget(moves=1_000)
AT_ONCE = 16  # moves between two readings of the clock
SHORTEST = 1e-9  # seconds; lower limit of the path length that job ends are divided by
TIE = 1e-3  # weight of the mean completion time beside the makespan: of equal makespans, jobs should end sooner
PATIENCE = 3  # moves; minimum length of the acceptance history
LEAST_WORK_SLACK = 1.35  # as in the agent least-work-ALLOCATION-patient
NONE = -1


class DagSearchState:
    """The observed state as arrays for the decoders: jobs with unassigned nodes.

    Parameters
    ----------
    observation : DagObservation
        Current observation.
    objective : {"makespan", "turnaround_time_mean", "job_slr_mean"}
        Quantity to minimize.
    gaps : bool
        Whether nodes may be inserted before waiting copies.
    late : bool
        Whether data are sent only once all parents of a node have finished.

    Attributes
    ----------
    states : list of JobState
        Jobs with unassigned nodes.
    owners : list of (int, int)
        For each node, the index of its job in ``states`` and its number in the job.
    planned : list of int
        Unassigned nodes, except those that no executor that is up may run, and their descendants.
    is_disjunctive : bool
        Whether jobs restrict executors so that each of these nodes may run on exactly one.
    """

    def __init__(self, observation: DagObservation, objective: Objective, *, gaps: bool, late: bool) -> None:
        self._decoders: Any = decoders(DECODERS)
        self.states = [state for state in observation.jobs.values() if not state.assigned.all()]
        self.owners = [(job, node) for job, state in enumerate(self.states) for node in range(state.job.num_nodes)]
        up = observation.available_times < np.inf
        self.planned = np.flatnonzero(np.concatenate([_nodes_to_plan(state, up) for state in self.states]))
        nodes, edges, children = self._graph()
        executors, copies = self._places(observation, nodes, gaps)
        jobs = np.zeros(len(self.states), dtype=self._decoders.JOB)
        number = len(observation.jobs)
        jobs["weight"] = [_weight(state, objective) / number for state in self.states]
        self.schedule = self._decoders.Schedule(
            now=float(observation.time),
            run_times=np.concatenate([state.run_times for state in self.states]),
            seconds=np.array(observation.executors.seconds_per_unit),
            latencies=np.array(observation.executors.latencies),
            edges=edges,
            nodes=nodes,
            copies=copies,
            executors=executors,
            jobs=jobs,
            places=np.zeros(len(self.planned), dtype=self._decoders.PLACE),
            children=children,
            sizes=np.array([len(copies) - 2 * len(self.planned), 0]),
            sums=np.zeros(2),
            makespan_weight=float(objective == "makespan"),
            last_end=float(_last_end(observation)),
            late=late,
            insertion=True,
            duplication=True,
        )
        restricted = any(state.is_restricted for state in self.states)
        self.is_disjunctive = restricted and is_disjunctive(self.schedule, self.planned)
        self._decoded: IntArray = self.planned
        self._decoders.find_bounds(self.schedule, self.planned)

    def _graph(self) -> tuple[NDArray[Any], NDArray[Any], IntArray]:
        """Return the records of nodes and edges, and the children."""
        jobs = [state.job for state in self.states]
        first_node = np.cumsum([0, *(job.num_nodes for job in jobs)])
        first_edge = np.cumsum([0, *(job.num_edges for job in jobs)])
        nodes = np.zeros(first_node[-1], dtype=self._decoders.NODE)
        edges = np.zeros(first_edge[-1], dtype=self._decoders.EDGE)
        children = np.zeros(first_edge[-1], dtype=np.int64)
        for number, (job, node, edge) in enumerate(zip(jobs, first_node.tolist(), first_edge.tolist(), strict=False)):
            own, own_edges = nodes[node : node + job.num_nodes], slice(edge, edge + job.num_edges)
            own["job"] = number
            own["first_edge"], own["last_edge"] = edge + job.parent_start[:-1], edge + job.parent_start[1:]
            own["first_child"], own["last_child"] = edge + job.child_start[:-1], edge + job.child_start[1:]
            edges[own_edges]["parent"], edges[own_edges]["size"] = node + job.parent_index, job.parent_size
            children[own_edges] = node + job.child_index
        nodes["copy"] = NONE
        return nodes, edges, children

    def _places(
        self, observation: DagObservation, nodes: NDArray[Any], gaps: bool
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the records of executors and of existing copies, with capacity for those to come."""
        available, sent = observation.available_times, self.states[0].earliest_sending
        executors = np.zeros(len(available), dtype=self._decoders.EXECUTOR)
        executors["first"] = executors["last"] = NONE
        executors["free"] = executors["available"] = available
        executors["gap_end"] = observation.last_gap_ends if gaps else -np.inf
        executors["sent"] = -np.inf if sent is None else sent
        known = {id(copy): copy for state in self.states for copies in state.copies for copy in copies}
        if gaps:
            known |= {id(copy): copy for table in observation.executor_queues.values() for copy in table.waiting}
        copies = np.zeros(len(known) + 2 * len(self.planned), dtype=self._decoders.COPY)
        for name in ("node", "before", "behind", "sibling"):
            copies[name] = NONE
        first = {id(state): np.searchsorted(nodes["job"], job).item() for job, state in enumerate(self.states)}
        numbers = {identity: number for number, identity in enumerate(known)}
        for number, copy in enumerate(known.values()):
            record = copies[number]
            record["executor"], record["start"], record["finish"] = copy.executor, copy.start, copy.finish
            if id(copy.state) in first:
                record["node"] = node = first[id(copy.state)] + copy.node
                record["sibling"], nodes[node]["copy"] = nodes[node]["copy"], number
        for executor, table in observation.executor_queues.items() if gaps else ():
            executors[executor]["free"] = table.finish_before(0)
            queue = [numbers[id(copy)] for copy in table.waiting]
            copies["before"][queue[1:]], copies["behind"][queue[:-1]] = queue[:-1], queue[1:]
            executors["first"][executor], executors["last"][executor] = (queue[0], queue[-1]) if queue else (NONE, NONE)
        return executors, copies

    # -- plans ---------------------------------------------------------------------------------------

    def order_by(self, keys: Sequence[Any]) -> IntArray:
        """Return the nodes to plan in the order of a list scheduler: smallest key first, parents before children.

        Parameters
        ----------
        keys : sequence
            Keys of all nodes, numbers or tuples of numbers; ties go to the first node.

        Returns
        -------
        numpy.ndarray of int
            Ordered nodes.
        """
        nodes, planned = self.schedule.nodes, set(self.planned.tolist())
        parents, children = self.schedule.edges["parent"].tolist(), self.schedule.children.tolist()
        first, last = nodes["first_edge"].tolist(), nodes["last_edge"].tolist()
        missing = {
            node: sum(parent in planned for parent in parents[first[node] : last[node]])
            for node in self.planned.tolist()
        }
        first, last = nodes["first_child"].tolist(), nodes["last_child"].tolist()
        heap = [(keys[node], node) for node in missing if not missing[node]]
        heapq.heapify(heap)
        order = []
        while heap:
            _, node = heapq.heappop(heap)
            order.append(node)
            for child in children[first[node] : last[node]]:
                if child in missing:
                    missing[child] -= 1
                    if not missing[child]:
                        heapq.heappush(heap, (keys[child], child))
        return np.array(order)

    def clear(self) -> None:
        """Undo the last decoding."""
        self._decoders.roll_back(self.schedule, self._decoded, 0)

    def value(self, order: IntArray, own: IntArray, *, insertion: bool, duplication: bool) -> float:
        """Return the value of a plan after decoding it; the decoded plan remains in ``schedule``."""
        schedule = self.schedule._replace(insertion=insertion, duplication=duplication)
        self.clear()
        self._decoded = order
        if not self._decoders.decode(schedule, order, own, len(order), np.inf):
            return np.inf
        value: float = self._decoders.value_of(schedule)
        return value


def _nodes_to_plan(state: JobState, up: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which unassigned nodes can run, with all of their ancestors, on the executors that are up."""
    found = ~state.assigned
    if state.is_restricted:
        able: NDArray[np.bool_] = np.any(state.run_times[:, up] < np.inf, axis=1)
        for node in np.flatnonzero(found).tolist():
            able[node] &= all(state.assigned[parent] or able[parent] for parent, _ in state.job.parent_lists[node])
        found &= able
    return found


def _last_end(observation: DagObservation) -> float:
    """Return the last end of the jobs whose nodes are all assigned."""
    states = [state for state in observation.jobs.values() if state.assigned.all()]
    return max(
        (min(copy.finish for copy in copies) for state in states for copies in state.copies if copies), default=0.0
    )


def _weight(state: JobState, objective: Objective) -> float:
    """Return the weight of a second of a job's end."""
    if objective == "job_slr_mean":
        return 1.0 / max(_critical_path(state), SHORTEST)
    return TIE if objective == "makespan" else 1.0


def _critical_path(state: JobState) -> float:
    """Return the longest path through a job by the shortest run time of each node, without transfers."""
    finish = state.run_times.min(axis=1).tolist()
    for node, parents in enumerate(state.job.parent_lists):
        finish[node] += max((finish[parent] for parent, _ in parents), default=0.0)
    return float(max(finish))


class Step(NamedTuple):
    """A planned copy of a node on an executor, on a pool in a mode if the node has modes."""

    state: JobState
    node: int
    start: float = 0.0
    mode: int | None = None


class SearchAgent(NamedRepr):
    """Agent that carries out the best plan that a local search finds, and plans again whenever jobs arrive.

    Parameters
    ----------
    objective : {"makespan", "turnaround_time_mean", "job_slr_mean"}
        Quantity to minimize for the jobs in the system: end of the last job; mean end; or mean ratio of the time from
        submission to end to the longest path through the job.
    budget : Budget, optional
        Limit on each search. Default: 1,000 moves. On pools, a move is a backward and a forward pass.
    by_shares : bool
        Whether demands are added as floats, in shares of the capacity of a pool, as in the arithmetic of a published
        study. Exact fills may then be refused.

    Attributes
    ----------
    name : str
        Full name, such as ``"search:dag:makespan:1000"``.
    value : float
        Expected objective of the last plan, with ends in seconds since time 0. Makespans include a thousandth of the
        mean end; the other two objectives also count from time 0 instead of the submissions.

    Raises
    ------
    InvalidConfiguration
        If the objective is unknown.
    MissingDependency
        If numba is not installed.
    """

    considers = frozenset({"outages", "arrivals", "demands", "modes"})

    def __init__(self, objective: Objective = "makespan", budget: Budget = MOVES, *, by_shares: bool = False) -> None:
        self.by_shares = by_shares
        self.objective: Objective = check_choice("objective", objective, get_args(Objective))
        self.budget = budget
        self.name = str(SearchName("dag", objective, budget))
        decoders(DECODERS)  # raises MissingDependency now if numba is missing
        self._fallback = ListScheduler(RankUp(), EFT())
        self._orders: list[Order] = [RankUp(), SJF(), LeastWork(), CriticalPath()]
        self.reset({}, default_rng(0))

    @staticmethod
    def named(rest: str, create: Callable[[str], Agent]) -> SearchAgent:
        """Return the agent with a given name.

        Parameters
        ----------
        rest : str
            Name without ``search:``: ``dag``, ``dag:OBJECTIVE``, ``dag:OBJECTIVE:BUDGET`` or
            ``dag:OBJECTIVE:BUDGET:GUIDE``.
        create : callable
            Function that takes the name of the guide and returns the agent.

        Returns
        -------
        SearchAgent
            A new agent.

        Raises
        ------
        InvalidConfiguration
            If a part is unknown.
        """
        name = SearchName.parse("dag", rest, get_args(Objective), MOVES, guided=True)
        objective: Any = name.objective  # checked by parse
        if name.guide:
            return GuidedSearchAgent(create(name.guide), objective, name.budget)
        return SearchAgent(objective, name.budget)

    def reset(self, info: Mapping[str, Any], rng: Generator) -> None:
        """Begin a new run; raise InvalidConfiguration if the cluster schedules single tasks."""
        if info.get("granularity") == "task":
            raise InvalidConfiguration(f"{self.name}: got a cluster of tasks, expected a DagCluster of whole nodes")
        self.plan_ahead = bool(info.get("plan_ahead"))
        self._on_pools = bool(info.get("resources"))
        self._next_end = np.inf
        # A late assignment costs nothing if data are sent when a parent finishes; otherwise it delays transfers.
        self._at_once = info.get("transfers") == "when_assigned"
        self._state = rng.integers(2**64, size=1, dtype=np.uint64)
        self._fallback.reset(info, rng)
        for order in self._orders:
            order.reset(rng)
        self._queues: list[list[Step]] = []
        self._known: dict[int, JobState] = {}
        self._last: dict[JobState, tuple[Floats, IntArray]] = {}
        self._expected: dict[JobState, NDArray[np.bool_]] = {}
        self._up = np.empty(0, dtype=bool)
        self._answered: dict[tuple[int, int], set[int]] = {}

    def act(self, observation: DagObservation) -> Sequence[Assign | None] | Assign | None:
        """Return the assignments of the plan that are due; plan again if jobs arrived or the plan is invalid."""
        if observation.available_times.min() == np.inf:
            return None
        if not self._holds(observation):
            self._plan(observation)
        due = self._due(observation)
        if not due and not any(table.running or table.waiting for table in observation.executor_queues.values()):
            self._plan(observation)  # what the plan waits for was lost: without a new plan, the run would stall
            due = self._due(observation)
            if not due:
                chosen = self._fallback.act(observation)
                if chosen is not None:
                    self._expected[observation.jobs[chosen.job_id]][chosen.node] = True
                return chosen
        self._note(observation, due)
        return [*due, None]

    def _note(self, observation: DagObservation, due: Sequence[Assign]) -> None:
        """Store the executors on which the nodes assigned now may have copies."""
        self._answered = {}
        for one in due:
            known = {copy.executor for copy in observation.jobs[one.job_id].copies[one.node]}
            self._answered.setdefault((one.job_id, one.node), known).add(one.executor)

    # -- carrying out a plan -------------------------------------------------------------------------

    def _holds(self, observation: DagObservation) -> bool:
        """Return whether the plan covers all current jobs, and exactly its assignments have been made.

        If the agent only gives advice, other assignments may have been made.
        """
        if any(self._known.get(job_id) is not state for job_id, state in observation.jobs.items()):
            return False
        if ((observation.available_times < np.inf) != self._up).any():
            return False
        if any((self._expected[state] != state.assigned).any() for state in observation.jobs.values()):
            return False
        return all(
            copy.executor in executors
            for (job_id, node), executors in self._answered.items()
            if job_id in observation.jobs
            for copy in observation.jobs[job_id].copies[node]
        )

    def _due(self, observation: DagObservation) -> list[Assign]:
        """Return the assignments that must be made now."""
        jobs = observation.jobs
        due: list[Assign] = []
        chosen: set[tuple[int, int]] = set()  # never iterated
        idle = [not (table.running or table.waiting) for table in observation.executor_queues.values()]
        if observation.executors.resources:
            queues = observation.executor_queues.values()
            self._next_end = min((copy.finish for table in queues for copy in table.copies()), default=np.inf)
        goes_on = True
        while goes_on:
            goes_on = False
            for executor, queue in enumerate(self._queues):
                while queue and self._is_due(queue[-1], observation.time, idle[executor], chosen):
                    step = queue.pop()
                    goes_on = True
                    if jobs.get(step.state.job.job_id) is not step.state:
                        continue  # the job has ended without this copy
                    due.append(Assign(step.state.job.job_id, step.node, executor, mode=step.mode))
                    chosen.add((step.state.job.job_id, step.node))
                    self._expected[step.state][step.node] = True
                    idle[executor] = False
        return due

    def _is_due(self, step: Step, now: float, idle: bool, chosen: set[tuple[int, int]]) -> bool:
        """Return whether the next copy on an executor can and must be assigned now."""
        state, node, start, _ = step
        job_id = state.job.job_id
        parents = state.job.parent_lists[node]
        if state.assigned[node] or (job_id, node) in chosen:  # duplicates: no decision may follow in time
            return all(state.copies[parent] or (job_id, parent) in chosen for parent, _ in parents)
        if self._at_once:
            if self.plan_ahead:
                return all(state.assigned[parent] or (job_id, parent) in chosen for parent, _ in parents)
            return state.tickets[node] is not None
        if self._on_pools:  # no decision follows before a running copy ends
            idle = start <= now or start < self._next_end
        return idle and state.tickets[node] is not None and all(state.has_data[parent] for parent, _ in parents)

    # -- planning --------------------------------------------------------------------------------------

    def _plan(self, observation: DagObservation) -> None:
        """Search for a plan for all unassigned nodes."""
        self._answered = {}
        self._known = dict(observation.jobs)
        self._expected = {state: state.assigned.copy() for state in observation.jobs.values()}
        self._up = observation.available_times < np.inf
        if self._on_pools:
            self._queues = self._plan_on_pools(observation)
            return
        late = self._at_once and not self.plan_ahead
        situation = DagSearchState(observation, self.objective, gaps=False, late=late)
        if not len(situation.planned):
            self._queues = []
            return
        order, own, insertion, duplication = self._best_beginning(situation, observation)
        if self.objective == "makespan" and situation.is_disjunctive:
            order, insertion, duplication = self._reorder(situation, order, own, insertion, duplication)
        else:
            search = self._improve(situation, order, own, insertion, duplication)
            order, own = search.best_order, search.best_own
        self.value = situation.value(order, own, insertion=insertion, duplication=duplication)
        self._remember(situation, order, own)
        self._queues = self._read(situation)

    def _plan_on_pools(self, observation: DagObservation) -> list[list[Step]]:
        """Return the steps of the best schedule found on pools, by pool, in reverse order of start."""
        number = len(observation.jobs)
        states = [state for state in observation.jobs.values() if not state.assigned.all()]
        weights = {state: _weight(state, self.objective) / number for state in states}
        weight = float(self.objective == "makespan")
        situation = PoolState.of(observation, weights, weight, by_shares=self.by_shares)
        owners = situation.owners
        if not owners:
            return []
        tables = [{state: order.keys(observation, state) for state in states} for order in self._orders]
        beginnings = [np.array([table[state][node] for state, node in owners]) for table in tables]
        if any(state in self._last for state, _ in owners):
            last = np.array([self._last[state][0][node] if state in self._last else np.nan for state, node in owners])
            beginnings += [np.where(np.isnan(last), place, last) for place in (np.inf, -1.0)]
        found = search(situation, beginnings, self.budget, self._state)
        self.value = float(found.values[0])
        if self.value == np.inf:
            return []
        keys = {state: np.full(state.job.num_nodes, np.nan) for state in states}
        queues: list[list[Step]] = [[] for _ in range(observation.executors.num_executors)]
        for place in np.lexsort((found.starts + situation.net.run_times.min(axis=1), found.starts))[::-1].tolist():
            state, node = owners[place]
            keys[state][node] = start = float(found.starts[place])
            at = found.own.item(place)
            mode = situation.modes[at] if node in state.modes else None
            queues[situation.net.place.item(at)].append(Step(state, node, start, mode))
        self._last = {state: (places, np.empty(0, dtype=np.int64)) for state, places in keys.items()}
        return queues

    def _best_beginning(
        self, situation: DagSearchState, observation: DagObservation
    ) -> tuple[IntArray, IntArray, bool, bool]:
        """Return the best initial plan, among those of common orders and allocations and the rest of the last plan."""
        best, best_value = None, np.inf
        for order, own in self._beginnings(situation, observation):
            for insertion in (True, False):
                for duplication in (True, False):
                    value = situation.value(order, own, insertion=insertion, duplication=duplication)
                    if best is None or value < best_value:
                        best, best_value = (order, own, insertion, duplication), value
        assert best is not None
        return best

    def _beginnings(
        self, situation: DagSearchState, observation: DagObservation
    ) -> Iterator[tuple[IntArray, IntArray]]:
        """Yield initial plans: orders of nodes, with fixed executors for some."""
        anywhere = np.full(len(situation.owners), NONE)
        for order in self._orders:
            keys = np.concatenate([order.keys(observation, state) for state in situation.states])
            yield situation.order_by(keys.tolist()), anywhere
        ranks = np.concatenate([upward_rank(state.job, observation.executors) for state in situation.states])
        yield from self._patient_plans(situation, ranks)
        if not any(state in self._last for state in situation.states):
            return
        keys, own = self._last_plan(situation)
        is_new = np.isnan(keys)
        # New nodes come last, first, or among the others by rank.
        for among in (np.inf, -1.0, np.searchsorted(np.sort(-ranks[~is_new]), -ranks[is_new])):
            keys[is_new] = among
            yield situation.order_by(list(zip(keys.tolist(), (-ranks).tolist(), strict=True))), own

    def _patient_plans(self, situation: DagSearchState, ranks: Floats) -> Iterator[tuple[IntArray, IntArray]]:
        """Yield the plans of patient schedulers: by unassigned work, by total work, and by rank."""
        schedule = situation.schedule._replace(insertion=False, duplication=True)
        job_of, planned = schedule.nodes["job"], situation.planned
        times = means_where_eligible(schedule.run_times)
        left = np.bincount(job_of[planned], times[planned], len(situation.states))
        nothing = np.zeros(len(times))
        for keys, work, shares, slack in (
            (left, times, 0.01 * ranks, LEAST_WORK_SLACK),
            (np.bincount(job_of, times), nothing, nothing, 1.0),
            (np.zeros(len(left)), nothing, ranks, 1.0),
        ):
            missing = np.zeros(len(times), dtype=bool)
            missing[planned] = True
            ready, found = np.zeros(schedule.run_times.shape), np.zeros(len(times), dtype=np.int64)
            count = np.zeros(1, dtype=np.int64)
            patience = decoders(DECODERS).Patience(keys, work, shares, slack, missing, ready, found, count)
            order, own = np.empty_like(planned), np.full(len(times), NONE)
            situation.clear()
            if decoders(DECODERS).plan_patiently(schedule, patience, order, own) == len(order):
                yield order, own

    def _last_plan(self, situation: DagSearchState) -> tuple[Floats, IntArray]:
        """Return the position in the last plan (NaN if none) and the executor in it (NONE if none) for each node."""
        keys, own = [], []
        for state in situation.states:
            unknown = np.full(state.job.num_nodes, np.nan), np.full(state.job.num_nodes, NONE)
            places, executors = self._last.get(state, unknown)
            keys.append(places)
            own.append(executors)
        joined = np.concatenate(own)
        return np.concatenate(keys), np.where(self._up[joined], joined, NONE)

    def _remember(self, situation: DagSearchState, order: IntArray, own: IntArray) -> None:
        """Store a plan as an initial plan for the next search."""
        keys = np.full(len(situation.owners), -1.0)
        keys[order] = np.arange(len(order))
        ends = np.cumsum([state.job.num_nodes for state in situation.states])[:-1]
        plans = zip(np.split(keys, ends), np.split(own, ends), strict=True)
        self._last = dict(zip(situation.states, plans, strict=True))

    def _reorder(
        self, situation: DagSearchState, order: IntArray, own: IntArray, insertion: bool, duplication: bool
    ) -> tuple[IntArray, bool, bool]:
        """Return the best order that a tabu search finds, and whether to decode it with insertion and duplication."""
        value = situation.value(order, own, insertion=insertion, duplication=duplication)
        nodes, copies = situation.schedule.nodes, situation.schedule.copies
        beginning = order[np.argsort(copies["start"][nodes["copy"][order]], kind="stable")]
        situation.clear()
        found = improved(situation.schedule, beginning, self.budget, self._state)
        if situation.value(found, own, insertion=False, duplication=False) > value:
            return order, insertion, duplication
        return found, False, False

    def _improve(
        self, situation: DagSearchState, order: IntArray, own: IntArray, insertion: bool, duplication: bool
    ) -> Any:
        """Return the search, with the best order and executors, when the budget is used up."""
        schedule = situation.schedule._replace(insertion=insertion, duplication=duplication)
        value = situation.value(order, own, insertion=insertion, duplication=duplication)
        places = np.full(len(situation.owners), NONE)
        places[order] = np.arange(len(order))
        search = decoders(DECODERS).Search(
            order=order.copy(),
            places=places,
            own=own.copy(),
            best_order=order.copy(),
            best_own=own.copy(),
            values=np.array([value, value]),
            history=np.full(self._patience(len(order)), value),
            moves=np.zeros(2, dtype=np.int64),
            spare=order.copy(),
            chain=np.zeros(len(order) + 1, dtype=np.int64),
            state=self._state,
        )
        decoders(DECODERS).find_chain(schedule, search)
        left, used = self.budget.most_moves, self.budget.timer()
        while left > 0 and used() < 1.0:
            number = int(min(left, AT_ONCE))
            decoders(DECODERS).improve(schedule, search, number)
            left -= number
        decoders(DECODERS).roll_back(schedule, search.order, 0)
        return search

    def _patience(self, number: int) -> int:
        """Return the length of the history in late acceptance, in moves."""
        moves = self.budget.moves
        return PATIENCE if moves is None else PATIENCE + moves // (2 * number)

    def _read(self, situation: DagSearchState) -> list[list[Step]]:
        """Return the decoded copies by executor, in reverse order of start."""
        copies = situation.schedule.copies
        queues = []
        for last in situation.schedule.executors["last"].tolist():
            queue, copy = [], last
            while copy != NONE:
                job, node = situation.owners[copies["node"][copy]]
                queue.append(Step(situation.states[job], node))
                copy = copies["before"][copy].item()
            queues.append(queue)
        return queues


class GuidedSearchAgent(Forking, SearchAgent):
    """A search that also starts from the plan of another agent, the guide.

    Whenever a plan is made, the guide acts in a fork without foresight until all jobs have ended. The order of starts
    in the fork, with the executors used there, is an additional initial plan. Duplicates are chosen again by the
    search, so the plan may differ slightly from what the guide would do. If a learned guide imitates a search, and is
    trained again on the plans found around its own, this is expert iteration (T. Anthony, Z. Tian and D. Barber,
    "Thinking fast and slow with deep learning and tree search", NIPS 2017).

    Parameters
    ----------
    guide : Agent
        Agent whose plan is an additional starting point; it must not look ahead itself.
    objective : {"makespan", "turnaround_time_mean", "job_slr_mean"}
        Quantity to minimize for the jobs in the system.
    budget : Budget, optional
        Limit on each search. Default: 1,000 moves.

    Attributes
    ----------
    num_plans, num_guided : int
        Number of plans in this run, and number of those that started from the guide's plan.

    Raises
    ------
    InvalidConfiguration
        If the guide looks ahead itself.
    """

    def __init__(self, guide: Agent, objective: Objective = "makespan", budget: Budget = MOVES) -> None:
        own_name = str(getattr(guide, "name", type(guide).__name__))
        if hasattr(guide, "attach"):
            raise InvalidConfiguration(f"{own_name}: the guide looks ahead itself, which forks do not support")
        self.guide = guide
        super().__init__(objective, budget)
        self.name = str(SearchName("dag", objective, budget, own_name))

    def reset(self, info: Mapping[str, Any], rng: Generator) -> None:
        """Begin a new run, also for the guide."""
        super().reset(info, rng)
        if self._on_pools:
            raise InvalidConfiguration(
                f"{self.name}: got pools, on which no guide is followed; try it without the guide"
            )
        self._info, self._guide_seed = dict(info), int(rng.integers(2**63))
        self._guided_order: IntArray | None = None
        self.num_plans = self.num_guided = 0
        if info:
            self._reset_guide()

    def _reset_guide(self) -> None:
        reset = getattr(self.guide, "reset", None)
        if reset is not None:
            reset(self._info, default_rng(self._guide_seed))

    def _best_beginning(
        self, situation: DagSearchState, observation: DagObservation
    ) -> tuple[IntArray, IntArray, bool, bool]:
        """Return the best initial plan, among the common ones and that of the guide."""
        self._guided_order = None
        found = super()._best_beginning(situation, observation)
        self.num_plans += 1
        self.num_guided += found[0] is self._guided_order
        return found

    def _beginnings(
        self, situation: DagSearchState, observation: DagObservation
    ) -> Iterator[tuple[IntArray, IntArray]]:
        """Yield the common initial plans, and that of the guide."""
        yield from super()._beginnings(situation, observation)
        numbers = {(situation.states[job].job.job_id, node): at for at, (job, node) in enumerate(situation.owners)}
        keys, own = np.full(len(numbers), np.inf), np.full(len(numbers), NONE)
        planned = set(situation.planned.tolist())  # never iterated
        for place, copy in enumerate(self._followed()):
            number = numbers.get((copy.state.job.job_id, copy.node))
            if number in planned:
                keys[number] = min(place, keys[number])
                if own[number] == NONE or not copy.duplicate:
                    own[number] = copy.executor
        if (own[situation.planned] != NONE).all():  # all nodes ran in the fork
            self._guided_order = situation.order_by(keys.tolist())
            yield self._guided_order, own

    def _followed(self) -> list[Copy]:
        """Return the copies that start if the guide acts alone, in order of start."""
        if self._fork is None:
            raise InvalidConfiguration(
                f"{self.name}: got no forks before the first decision; try desim.simulate, or desim.core.prepare_agent"
            )
        simulation = self._fork()
        started: list[Copy] = []
        simulation.problem.on("start", lambda time, copy: started.append(copy))
        self._reset_guide()
        while (decision := simulation.advance()) is not None:
            decision.answer(self.guide.act(decision.observation))
        return in_order_of_start(started)
