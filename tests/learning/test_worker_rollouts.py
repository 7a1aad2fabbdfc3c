"""Rollouts in processes: the same as in this one, and what happens when something goes wrong there."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from learning_cases import Line, assert_same, line_length, line_policy

from desim.agents.learning.rollout import Collector, Rollout, concatenated
from desim.agents.learning.workers import WorkerCollector
from desim.exceptions import DesimError, InvalidConfiguration

Make = Callable[..., WorkerCollector]


class Stubborn(ValueError):
    """An error that cannot be sent from one process to another."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"{first} {second}")
        self.reason = (part for part in (first, second))


class Failing(Line):
    """Fails twice, in two ways."""

    def step(self, action: Any) -> Any:
        """Fail at the fourth and at the fifth call."""
        if self.num_steps == 4:
            raise Stubborn("cannot", "go on")
        return super().step(action)


def failing_to_begin() -> Line:
    """Return nothing."""
    raise InvalidConfiguration("there is no line")


@pytest.fixture
def made() -> Iterator[Make]:
    """Return a function that makes collectors, which are closed at the end."""
    collectors: list[WorkerCollector] = []

    def make(count: int, workers: int, env: Any = Line, seed: int = 0) -> WorkerCollector:
        seeds = np.random.SeedSequence(seed).spawn(count)
        collectors.append(WorkerCollector(env, seeds, np.random.default_rng(seed), workers, measure=line_length))
        return collectors[-1]

    yield make
    for collector in collectors:
        collector.close()


def pieces(count: int, workers: int) -> list[Collector]:
    """Return the same environments and generators in this process."""
    seeds, rng = np.random.SeedSequence(0).spawn(count), np.random.default_rng(0)
    bounds = [count * number // workers for number in range(workers + 1)]
    return [
        Collector(Line, seeds[begin:end], generator, measure=line_length)
        for begin, end, generator in zip(bounds[:-1], bounds[1:], rng.spawn(workers), strict=True)
    ]


def test_two_processes_make_the_rollouts_of_two_collectors(made: Make) -> None:
    policy, count = line_policy(), 5
    ours, theirs = made(count, 2), pieces(count, 2)
    states = []
    for number in range(3):
        if number == 1:  # whole episodes in between
            first: Rollout = ours.collect_episodes(policy, 6)
            second = concatenated([piece.collect_episodes(policy, 6) for piece in theirs])
        else:
            first, second = ours.collect(policy, 8), concatenated([piece.collect(policy, 8) for piece in theirs])
        assert_same(first, second)
        assert first.seconds.keys() == second.seconds.keys()
        with torch.no_grad():  # the weights that they use are those of now
            for parameter in policy.parameters():
                parameter.add_(0.1)
        states.append(json.loads(json.dumps(ours.state())))
    assert states[-1] == {"workers": [piece.state() for piece in theirs]}
    again = ours.collect(policy, 5)
    ours.restore(states[-1])
    assert_same(ours.collect(policy, 5), again)
    with pytest.raises(InvalidConfiguration, match="a state of 1 workers, there are 2"):
        ours.restore({"workers": states[0]["workers"][:1]})
    with pytest.raises(InvalidConfiguration, match="a state of 0 workers"):
        ours.restore(pieces(5, 1)[0].state())
    ours.close()
    assert not any(process.is_alive() for process in ours._processes)
    ours.close()  # once more does no harm


def test_an_error_in_an_environment_reaches_the_caller(made: Make) -> None:
    policy = line_policy()
    ours = made(1, 1, partial(Failing, fails_after=4))
    ours.collect(policy, 3)
    with pytest.raises(ValueError, match="the line is broken at") as caught:
        ours.collect(policy, 3)
    assert any("in step" in note and "learning_cases.py" in note for note in caught.value.__notes__)  # where it was
    with pytest.raises(DesimError) as told:
        ours.collect(policy, 3)
    assert str(told.value) == "Stubborn: cannot go on"  # the error itself cannot be sent
    assert any("test_worker_rollouts.py" in note for note in told.value.__notes__)


def test_an_environment_that_cannot_be_made_is_told(made: Make, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InvalidConfiguration, match="there is no line"):
        made(2, 1, failing_to_begin).collect(line_policy(), 5)
    assert capfd.readouterr().err == ""


def test_a_process_that_is_gone_is_told(made: Make) -> None:
    policy = line_policy()
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        ours = made(2, 1)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    status = Path(f"/proc/{ours._processes[0].pid}/status")
    if status.exists():  # it ignores Ctrl-C from its first moment
        (ignored,) = (line.split()[1] for line in status.read_text().splitlines() if line.startswith("SigIgn"))
        assert int(ignored, 16) >> (signal.SIGINT - 1) & 1
    ours.collect(policy, 2)
    victim = ours._processes[0]
    assert victim.pid is not None
    os.kill(victim.pid, signal.SIGKILL)
    victim.join()
    for _ in range(2):
        with pytest.raises(DesimError, match="a worker process has ended unexpectedly"):
            ours.collect(policy, 2)


@pytest.mark.parametrize("workers", [-1, 0, 4])
def test_there_are_no_more_processes_than_environments(workers: int, made: Make) -> None:
    with pytest.raises(InvalidConfiguration, match=f"{workers} workers for 3 environments"):
        made(3, workers)
