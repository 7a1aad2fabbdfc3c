"""Names on the command line that are nearly right, and options named as they were given."""

from __future__ import annotations

import pytest
from command_line import Desim


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("cmpare batch --agents fcfs", "unknown command 'cmpare' (did you mean 'compare'?)"),
        ("run bacth", "unknown problem 'bacth' (did you mean 'batch'?)"),
        ("run batch --agent heft", "unknown batch agent 'heft': it is an agent for problem 'dag'"),
        ("compare batch --agents fcfs,easy --metric wait", "did you mean 'waiting_time_mean'?"),
        ("run batch --agent eazy", "unknown batch agent 'eazy' (did you mean 'easy'?)"),
        ("run batch --agent easy-sff", "unknown priority 'sff' (did you mean 'sjf'?)"),
        ("run dag --agent rank-up-dft", "unknown allocation 'dft' (did you mean 'deft'?)"),
        ("run batch --trace lubln", "lubln: no such file or generated workload (did you mean 'lublin'?)"),
        ("run deferrable --set slak=3", "unknown parameter 'slak' of deferrable jobs (did you mean 'slack'?)"),
        ("compare batch --agents fcfs,sjf --baseline fcf", "unknown batch agent 'fcf' (did you mean 'fcfs'?)"),
        ("reproduce lachesis figure77", "unknown experiment 'figure77' of lachesis (did you mean 'figure7'?)"),
        ("reproduce osdce", "unknown paper 'osdce' (did you mean 'osdec'?)"),
        ("train bacth", "no training for 'bacth' (did you mean 'batch'?)"),
    ],
)
def test_names_that_are_nearly_right_are_suggested(desim: Desim, line: str, message: str) -> None:
    """Before the list of all names."""
    outcome = desim(*line.split())
    assert outcome.status == 2 and message in outcome.err and outcome.err.count("\n") == 1


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("run batch --cores 0", "--cores: got 0, expected an integer from 1 to"),
        ("run batch --jobs 0", "--jobs: got 0, expected"),
        ("run batch --load -1", "--load: got -1.0, expected a finite number > 0"),
        ("run batch --jobs 5 --until -1", "--until: got -1.0, expected a time > 0"),
        ("run dag --executors -2", "--executors: got -2, expected"),
        ("run multiserver --slots 0", "--slots: got 0, expected"),
        ("compare batch --agents fcfs,sjf --cores 0", "--cores: got 0, expected"),
    ],
)
def test_options_are_named_as_on_the_command_line(desim: Desim, line: str, message: str) -> None:
    """Not as the library names its arguments."""
    outcome = desim(*line.split())
    assert outcome.status == 2 and message in outcome.err and "num_" not in outcome.err


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("run batch --jobs 1.5", "--jobs: got '1.5', expected an integer"),
        ("run batch --seed x", "--seed: got 'x', expected an integer"),
        ("run batch --load much", "--load: got 'much', expected a number"),
    ],
)
def test_what_is_no_number_is_told_in_words(desim: Desim, line: str, message: str) -> None:
    outcome = desim(*line.split())
    assert outcome.status == 2 and message in outcome.err
