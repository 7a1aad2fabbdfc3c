"""Backfilling: jobs may overtake earlier jobs that do not fit yet.

* Simple backfilling starts any job that fits and reserves nothing.
* EASY backfilling reserves the earliest possible start for the first blocked job, and starts other jobs only if they
  do not delay it: Lifka, "The ANL/IBM SP scheduling system", JSSPP 1995; Mu'alem and Feitelson, IEEE TPDS 12(6), 2001.
* Conservative backfilling reserves for every job, so no job delays another (also Mu'alem and Feitelson). A new job gets
  the earliest start that the profile allows. When jobs end, the schedule is compressed once: in order of priority, each
  queued job is removed and fitted again, so it keeps its reservation or moves forward. Reservations are kept: if no
  arrival or completion coincides with a reserved start, the agent asks for a decision at that time.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Any

import numpy as np

from desim.agents.batch.cores_only import refuse_nodes
from desim.agents.batch.priorities import FCFS, Priority, as_priority, compiled_rule
from desim.exceptions import InvalidConfiguration
from desim.problems.batch import BatchObservation, CompiledRule, Profile, Slot, WaitUntil
from desim.problems.batch.predictors import RunTimePredictor, as_predictor, name_of
from desim.reprs import NamedRepr

__all__ = ["ConservativeBackfilling", "EASYBackfilling", "SimpleBackfilling"]


class SimpleBackfilling(NamedRepr):
    """Start every queued job that fits, in order of priority, without reservations.

    The baselines of the DBF paper use this kind of backfilling. A wide job can starve.

    Parameters
    ----------
    order : str, Priority, or class of Priority
        Priority order of the jobs, for example ``"fcfs"`` or ``F1``.
    """

    def __init__(self, order: str | Priority | type[Priority] = "fcfs") -> None:
        self.priority = as_priority(order)
        self.name = f"backfilling-{self.priority.name}"

    def compiled_rule(self) -> CompiledRule | str:
        """Return what the compiled engine needs to know, or why it cannot simulate this agent."""
        return compiled_rule(self, SimpleBackfilling, "simple", self.priority)

    def act(self, observation: BatchObservation) -> list[Any] | None:
        """Return the jobs to start or, if no job fits, the number of free cores to wait for."""
        self.priority.look(observation)
        plan = observation.plan()
        fitting = plan.fitting()
        if not len(fitting):
            return plan.wait()
        for positions in self.priority.parts_among(observation.queue, observation.time, fitting):
            plan.start_each(positions)
            if plan.is_full():
                break
        return plan.answer


def _suffix(predictor: str | RunTimePredictor | None) -> str:
    """Return what the name of an agent says of its predictor; raise InvalidConfiguration if it is none."""
    return "" if predictor is None else f"@{name_of(as_predictor(predictor))}"


class EASYBackfilling(NamedRepr):
    """EASY backfilling: only the first blocked job has a reservation, renewed at each decision.

    Parameters
    ----------
    order : str, Priority, or class of Priority
        Priority order of the jobs, for example ``"fcfs"`` or ``F1``.
    specific_cores : bool
        Whether a reservation is for particular cores instead of a number of cores, as in Batsim's reference schedulers.
    backfill : str, Priority, or class of Priority, optional
        Order in which jobs overtake the blocked one (default: the same).
    predictor : str or RunTimePredictor, optional
        What predicts run times in the agent's runs (default: the cluster's predictor); see
        ``desim.problems.batch.predictors``. EASY++ is ``EASYBackfilling("fcfs", backfill="sjf-expected",
        predictor="user-average")``.
    """

    def __init__(
        self,
        order: str | Priority | type[Priority] = "fcfs",
        *,
        specific_cores: bool = False,
        backfill: str | Priority | type[Priority] | None = None,
        predictor: str | RunTimePredictor | None = None,
    ) -> None:
        self.priority = as_priority(order)
        self.backfill = self.priority if backfill is None else as_priority(backfill)
        self.specific_cores = specific_cores
        self.run_time_predictor = predictor
        then = "" if backfill is None else f"+{self.backfill.name}"
        self.name = f"easy-{'specific-' if specific_cores else ''}{self.priority.name}{then}{_suffix(predictor)}"

    def reset(self, simulation_info: dict[str, Any], rng: np.random.Generator | None) -> None:
        """Begin a run; raise InvalidConfiguration if specific_cores is used on a cluster with nodes."""
        if self.specific_cores:
            refuse_nodes(simulation_info, self.name, f"easy-{self.priority.name}")

    def compiled_rule(self) -> CompiledRule | str:
        """Return what the compiled engine needs to know, or why it cannot simulate this agent."""
        return compiled_rule(self, EASYBackfilling, "easy", self.priority, self.backfill)

    def act(self, observation: BatchObservation) -> list[Any] | None:
        """Return the jobs to start or, if no job fits, the number of free cores to wait for."""
        priority = self.priority
        priority.look(observation)
        queue, time, plan = observation.queue, observation.time, observation.plan(specific_cores=self.specific_cores)
        fitting = plan.fitting()
        if not len(fitting):
            return plan.wait()
        blocked = priority.first(queue, time)
        if plan.fits(blocked):
            following = plan.start_in_order(priority.first_few(observation))
            if following is None or plan.is_full() or len(plan.answer) == len(fitting):
                return plan.answer
            blocked = following
        plan.reserve(blocked)
        backfill = self.backfill
        if backfill is not priority:
            backfill.look(observation)
        for positions in backfill.parts_among(queue, time, plan.fitting(fitting)):
            plan.start_each(positions)
            if plan.is_full():
                break
        return plan.answer


class ConservativeBackfilling(NamedRepr):
    """Conservative backfilling with any priority order.

    Parameters
    ----------
    order : str, Priority, or class of Priority
        Priority order in which jobs that arrive together are fitted, and in which the schedule is compressed.
    specific_cores : bool
        Whether a reservation is for particular cores instead of a number of cores, as in Batsim's reference schedulers.
    predictor : str or RunTimePredictor, optional
        What predicts run times in the agent's runs (default: the cluster's predictor).

    Attributes
    ----------
    reservations : dict of int to Slot
        Reserved slots of the queued jobs, by row; a job may have none while cores are down.
    """

    def __init__(
        self,
        order: str | Priority | type[Priority] = "fcfs",
        *,
        specific_cores: bool = False,
        predictor: str | RunTimePredictor | None = None,
    ) -> None:
        self.priority = as_priority(order)
        self.specific_cores = specific_cores
        self.run_time_predictor = predictor
        self.name = f"conservative-{'specific-' if specific_cores else ''}{self.priority.name}{_suffix(predictor)}"
        self.reset({}, None)

    def reset(self, simulation_info: dict[str, Any], rng: np.random.Generator | None) -> None:
        """Discard all reservations."""
        if self.specific_cores:
            refuse_nodes(simulation_info, self.name, f"conservative-{self.priority.name}")
        self.reservations: dict[int, Slot] = {}
        self._starts: list[tuple[float, int]] = []  # heap of reserved starts; entries of moved jobs are stale
        self._ends: dict[float, int] = {}  # number of running jobs expected to end at each time
        self._profile: Profile | None = None
        self._changes = 0
        self._settled = True

    def compiled_rule(self) -> CompiledRule | str:
        """Return what the compiled engine needs to know, or why it cannot simulate this agent."""
        return compiled_rule(self, ConservativeBackfilling, "conservative", self.priority)

    def act(self, observation: BatchObservation) -> list[Any] | None:
        """Return the jobs whose reserved start is due, and the time of the next decision if one must be requested."""
        self.priority.look(observation)
        profile, time, running = self._profile, observation.time, observation.running
        if profile is None or profile.is_outdated(observation) or self._is_late(time):
            profile = self._rebuild(observation)
        else:
            profile.advance(time)
            if running.changes != self._changes:
                self._follow(profile, observation)
        self._fit_new(profile, observation)
        due = self._pop_due(time)
        is_settled = running.first_end > time  # else jobs that end now have not all ended
        if is_settled and not profile.agrees_with(observation, [slot for _, slot in due if slot.end > slot.start]):
            # another agent has acted: no reservation is valid any more
            profile = self._rebuild(observation)
            self._fit_new(profile, observation)
            due = self._pop_due(time)
        return self._start(profile, due, observation)

    def _rebuild(self, observation: BatchObservation) -> Profile:
        """Build the profile from the running jobs alone; all reservations are discarded."""
        self._profile = profile = observation.profile(specific_cores=self.specific_cores)
        self._ends = {}
        for slot in profile.running.values():
            self._count_end(slot.end, 1)
        self._changes = observation.running.changes
        self.reservations = {}
        self._starts = []
        self._settled = True
        return profile

    def _count_end(self, end: float, change: int) -> None:
        """Count that one running job more, or one less, is expected to end at a given time."""
        count = self._ends.get(end, 0) + change
        if count:
            self._ends[end] = count
        else:
            del self._ends[end]

    def _follow(self, profile: Profile, observation: BatchObservation) -> None:
        """Free the remaining slots of ended jobs, extend those of corrected ones, and compress the schedule."""
        self._changes = observation.running.changes
        time = observation.time
        ended = profile.running.keys() - observation.running.rows()
        for row in ended:
            slot = profile.running.pop(row)
            self._count_end(slot.end, -1)
            if slot.end > time:
                profile.give(slot._replace(start=time))
                self._settled = False
        has_lost = min(self._ends, default=np.inf) <= time and self._extend(profile, observation)
        if (ended or has_lost) and not self._settled:
            self._fit_again(profile, observation)

    def _extend(self, profile: Profile, observation: BatchObservation) -> bool:
        """Extend the slots of running jobs whose expected ends were corrected.

        Reservations are kept in order of priority as long as they fit. The others are given back; return whether there
        are any.
        """
        ends = {row: end for end, _, row in observation.running.releases()}
        longer, until = [], observation.time
        for row, slot in profile.running.items():
            end = ends[row]
            if end > slot.end:
                longer.append(slot._replace(start=max(slot.end, observation.time), end=end))
                profile.running[row] = slot._replace(end=end)
                self._count_end(slot.end, -1)
                self._count_end(end, 1)
                until = max(until, end)
        queue, held = observation.queue, self.reservations
        in_order = queue.row[self.priority.order(queue, observation.time)].tolist()
        slots = ((row, held[row]) for row in in_order if row in held)
        has_lost = False
        affected = {row: slot for row, slot in slots if slot.start < min(until, slot.end)}
        for row, is_kept in zip(affected, profile.extend(longer, list(affected.values())), strict=True):
            if not is_kept:
                del held[row]
                has_lost, self._settled = True, False
        return has_lost

    def _is_late(self, time: float) -> bool:
        """Return whether a reserved start has passed between two decisions."""
        return self._next_start()[0] < time and any(
            slot.start < min(time, slot.end) for slot in self.reservations.values()
        )

    def _fit_again(self, profile: Profile, observation: BatchObservation) -> None:
        """Compress the schedule: move each queued job, in order, to the earliest start beside all others.

        If no job moves, none will move at the next job end either unless that job ends early, because the number of
        free cores has only decreased. ``_settled`` records this.
        """
        self._settled = True
        if not self.reservations:
            return
        queue, held = observation.queue, self.reservations
        arrays = [queue.row, queue.expected_time, *([queue.requested_time] if observation.predicts else ())]
        if not isinstance(self.priority, FCFS):
            order = self.priority.order(queue, observation.time)
            arrays = [array[order] for array in arrays]
        columns = [array.tolist() for array in arrays]
        if len(held) < len(queue):
            columns = [*zip(*(job for job in zip(*columns, strict=True) if job[0] in held), strict=True)]
        with_slot, lengths, longest = columns[0], columns[1], columns[-1]
        for place, slot in profile.compress([*map(held.__getitem__, with_slot)], lengths, longest):
            self._note(with_slot[place], slot)
            self._settled = False

    def _fit_new(self, profile: Profile, observation: BatchObservation) -> None:
        """Reserve for the jobs without a reservation, in order."""
        queue, held = observation.queue, self.reservations
        missing = len(queue) - len(held)
        if not missing:
            return
        if missing == 1 and queue.job_at(len(queue) - 1)[0] not in held:
            positions = [len(queue) - 1]
        else:
            positions = self.priority.order(queue, observation.time).tolist()
        for position in positions:
            row, _, length = queue.job_at(position)
            if row not in held:
                try:
                    longest = float(queue.requested_time[position]) if observation.predicts else length
                    slot = profile.fit(observation.request_at(position), length, longest)
                except InvalidConfiguration as error:  # of the placement policy, which does not know the job
                    raise InvalidConfiguration(f"job {observation.id_of(row)}: {error}") from error
                if slot is not None:  # otherwise cores are down, and the job waits for their repair
                    profile.take(slot)
                    self._note(row, slot)

    def _note(self, row: int, slot: Slot) -> None:
        """Note the reservation of a job, which the profile has taken."""
        self.reservations[row] = slot
        heappush(self._starts, (slot.start, row))
        if len(self._starts) > 64 + 4 * len(self.reservations):
            self._starts = [(slot.start, row) for row, slot in self.reservations.items()]
            heapify(self._starts)

    def _next_start(self) -> tuple[float, int]:
        """Return the time and row of the earliest valid reservation."""
        while self._starts:
            start, row = self._starts[0]
            slot = self.reservations.get(row)
            if slot is not None and slot.start == start:
                return start, row
            heappop(self._starts)
        return np.inf, -1

    def _pop_due(self, time: float) -> list[tuple[int, Slot]]:
        """Remove and return the reservations that are due."""
        due = []
        start, row = self._next_start()
        while start <= time:
            due.append((row, self.reservations.pop(row)))
            start, row = self._next_start()
        return due

    def _start(self, profile: Profile, due: list[tuple[int, Slot]], observation: BatchObservation) -> list[Any] | None:
        """Start jobs; ask for a decision at the next reserved start if no running job is expected to end then.

        In the profile, jobs with a requested time of 0 may share resources with others. They start one after the other
        at the same instant: when one completes, the next one starts.
        """
        actions: list[Any] = []
        if due:
            # the slots are free of advance reservations for the requested times of their jobs only
            around = observation.predicts
            plan = observation.plan(specific_cores=self.specific_cores, around_reservations=around)
            positions = observation.queue.positions_of([row for row, _ in due])
            for position, (row, slot) in zip(positions, due, strict=True):
                if plan.start(position, place=slot.place):
                    profile.running[row] = slot
                    self._count_end(slot.end, 1)
                    self._changes += 1
                else:
                    self.reservations[row] = slot
                    heappush(self._starts, (slot.start, row))
            actions = plan.answer
        following, _ = self._next_start()
        if observation.time < following < np.inf and following not in self._ends:
            actions.append(WaitUntil(following))
        return actions or None
