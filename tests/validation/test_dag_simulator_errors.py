"""Errors that are planted in the simulator of DAG jobs: validation notices each by the rule that is meant for it."""

from __future__ import annotations

import pytest
from dag_runs import random_run, random_task_run

from desim import InvalidConfiguration
from desim.problems.dag import JobState, TaskState
from desim.problems.dag.execution import Execution, Plan
from desim.processes.channels import SharedChannels
from desim.validation import validate


def faster_transfers(patch):
    """Let data arrive in half the time."""
    right = JobState.arrival_from

    def wrong(self, copy, size, executor, assigned):
        begin = copy.finish
        return begin + (right(self, copy, size, executor, assigned) - begin) / 2

    patch.setattr(JobState, "arrival_from", wrong)


def first_source(patch):
    """Take data from the copy that was assigned first, if it has finished, not from the one that is first."""
    right = JobState.receive

    def wrong(self, copy, until):
        kept = [list(copies) for copies in self.copies]
        for copies in self.copies:
            copies[:] = [other for other in copies if other.has_finished][:1] or copies
        right(self, copy, until)
        self.copies[:] = kept

    patch.setattr(JobState, "receive", wrong)


def longer_runs(patch):
    """Let every copy run a little longer."""
    right = Plan.begin

    def wrong(self, copy, start):
        right(self, copy, start)
        copy.finish += 1e-3

    patch.setattr(Plan, "begin", wrong)


def unconcerned_starts(patch):
    """Start copies as soon as their executor is free, whether or not their data are there."""
    patch.setattr(JobState, "received_at", lambda self, copy: 0.0)


def idle_starts(patch):
    """Start copies a little late."""
    right = Execution.start_time

    def wrong(self, copy):
        start = right(self, copy)
        return start if start is None or copy.node % 2 else start + 0.5

    patch.setattr(Execution, "start_time", wrong)


def lasting_data(patch):
    """Let nothing be lost in outages, although it should be."""
    right = JobState.remove
    patch.setattr(JobState, "remove", lambda self, copy: None if copy.has_finished else right(self, copy))


def no_duplicates(patch):
    """Call no copy a duplicate."""
    right = JobState.add

    def wrong(self, copy):
        copy.duplicate = False
        right(self, copy)

    patch.setattr(JobState, "add", wrong)


def generous_links(patch):
    """Give each transfer all of each link that it takes."""
    right = SharedChannels.__init__
    patch.setattr(SharedChannels, "__init__", lambda self, env, bandwidths: right(self, env, [9.0] * len(bandwidths)))


def larger_shares(patch):
    """Send more than a task needs."""
    right = TaskState.shares

    def wrong(self, node, executor):
        shares = right(self, node, executor)
        return shares._replace(sizes=2.0 * shares.sizes)

    patch.setattr(TaskState, "shares", wrong)


def early_results(patch):
    """Offer a node when the first task of each parent has finished."""
    right = TaskState.complete
    patch.setattr(TaskState, "complete", lambda self, copy: right(self, copy) or True)


def shorter_runs(patch):
    """Let every task run a little shorter."""
    right = TaskState.run
    patch.setattr(TaskState, "run", lambda self, task: task.start + (right(self, task) - task.start) * 0.999)


def unconcerned_starts_of_tasks(patch):
    """Start tasks as soon as their executor is free, whether or not their data are there."""
    patch.setattr(TaskState, "received_at", lambda self, copy: 0.0)


def moving_always(patch):
    """Let executors take their time for every task."""
    patch.setattr(TaskState, "delay", lambda self, copy: 1.0)


def moving_never(patch):
    """Let executors take no time to move."""
    patch.setattr(TaskState, "delay", lambda self, copy: 0.0)


def early_data(patch):
    """Let shares arrive a little too early."""
    right = TaskState.shares

    def wrong(self, node, executor):
        shares = right(self, node, executor)
        return shares._replace(arrivals=shares.begins + 0.99 * (shares.arrivals - shares.begins))

    patch.setattr(TaskState, "shares", wrong)


def lasting_data_of_tasks(patch):
    """Forget that data were lost on the way, and let tasks that wait for them go on."""
    patch.setattr(TaskState, "unsupported", lambda self, waiting, executors, lost: iter(()))


def needless_repetitions(patch):
    """Run all tasks of a node again that has lost some."""
    right = TaskState.remove

    def wrong(self, copy):
        others = [other for other in self.copies[copy.node] if other.has_finished and other is not copy]
        right(self, copy)
        if copy.has_finished and others:
            right(self, others[0])

    patch.setattr(TaskState, "remove", wrong)


def kept_inputs(patch):
    """Do not send data again to executors that have been down."""
    patch.setattr(TaskState, "lose_received", lambda self, back_since: None)


@pytest.mark.parametrize(
    ("simulated", "error", "rule", "options"),
    [
        (random_run, faster_transfers, "transfer_times", {}),
        (random_run, first_source, "earliest_source", {"agent": "careless"}),
        (random_run, longer_runs, "duration", {}),
        (random_run, unconcerned_starts, "inputs", {"plan_ahead": True}),
        (random_run, idle_starts, "no_waiting", {}),
        (random_run, lasting_data, "sources", {"outages": True, "data": 5.0, "agent": "fifo-eft"}),
        (random_run, no_duplicates, "duplicates", {}),
        (random_run, generous_links, "links", {"links": True}),
        (random_task_run, larger_shares, "shares", {}),
        (random_task_run, shorter_runs, "duration", {}),
        (random_task_run, unconcerned_starts_of_tasks, "inputs", {}),
        (random_task_run, moving_always, "no_waiting", {"moving_delay": 1.0}),
        (random_task_run, moving_never, "moving_delay", {"moving_delay": 1.0}),
        (random_task_run, early_data, "transfer_times", {}),
        (random_task_run, early_results, "parents", {}),
        (random_task_run, lasting_data_of_tasks, "sources", {"outages": True}),
        (random_task_run, needless_repetitions, "repetitions", {"outages": True}),
        (random_task_run, kept_inputs, "transfer_times", {"outages": True}),
    ],
)
def test_an_error_in_the_simulator_is_noticed(monkeypatch, simulated, error, rule, options):
    error(monkeypatch)
    for seed in range(1, 17):
        try:
            if rule in validate(simulated(seed, **options, until=500.0).result).counts:
                return
        except (AssertionError, InvalidConfiguration, ValueError, IndexError):  # the simulator may notice itself
            continue
    pytest.fail(f"no run breaks the rule {rule}")
