"""What holds for all tests: nothing is drawn anew, and nothing depends on how busy the machine is or on other tests."""

from __future__ import annotations

import random
import signal
import sys

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

# Whoever is busy is slow, and fixtures that tests with examples ask for do not change from one example to the next.
PATIENT = settings(
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.register_profile("repeatable", PATIENT, derandomize=True)
settings.register_profile("random", PATIENT, derandomize=False)  # what `make slow` asks for
settings.load_profile("repeatable")

TORCH_BEGINS_WITH = 67280421310721


def pytest_sessionstart() -> None:
    """Make the examples those of the test alone, and Ctrl-C what it is at a terminal."""
    if settings().derandomize:
        # Hypothesis also draws constants that it finds in those of our modules that happen to be imported already.
        providers.is_local_module_file = lambda path: False
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell's background jobs ignore it
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _same_start() -> None:
    """Begin each test with the same global random numbers, whichever tests came before it."""
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002 - nobody is to use it, but whoever does is to be found out each time
    if (torch := sys.modules.get("torch")) is not None:
        torch.manual_seed(TORCH_BEGINS_WITH)
