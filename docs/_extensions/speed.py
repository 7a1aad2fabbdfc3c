"""What makes a build faster; none of it changes a page.

Garbage is not collected, because memory suffices. The template of numpydoc is compiled once instead of for each
docstring. Debugging messages are not formatted. Modules are not searched for the lines of their definitions, which only
source pages need. The source of each function is read once. A parser creates a state when it needs it, instead of all
states for every list and field.
"""

from __future__ import annotations

import functools
import gc
import inspect
import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from docutils.statemachine import State, StateMachine
from jinja2 import BaseLoader, FileSystemLoader
from jinja2.sandbox import SandboxedEnvironment
from numpydoc import docscrape_sphinx
from sphinx.application import Sphinx
from sphinx.pycode.parser import Parser

__all__ = ["keep", "setup"]


def keep(*others: Any) -> None:
    """Exempt all objects from collections: those that the gallery requests, and the last one as Python ends."""
    gc.freeze()


class States(dict[str, State]):
    """States of a parser by name, created when they are needed."""

    def __init__(self, machine: StateMachine) -> None:
        super().__init__()
        self.machine = machine
        self.classes: dict[str, type[State]] = {}

    def __missing__(self, name: str) -> State:
        """Create a state; a parser that does not run yet initializes it when it begins."""
        state = self[name] = self.classes[name](self.machine, self.machine.debug)
        if hasattr(self.machine, "memo"):
            state.runtime_init()
        return state


def add_states(machine: StateMachine, classes: Iterable[type[State]]) -> None:
    """Prepare the states of a parser."""
    if not isinstance(machine.states, States):
        machine.states = States(machine)
    machine.states.classes.update({one.__name__: one for one in classes})


def setup(app: Sphinx) -> None:
    """Replace what is slow, for this process."""
    gc.disable()
    app.connect("build-finished", keep)
    shared = SandboxedEnvironment(loader=FileSystemLoader(Path(docscrape_sphinx.__file__).parent / "templates"))

    def environment(loader: BaseLoader) -> SandboxedEnvironment:
        return shared

    docscrape_sphinx.SandboxedEnvironment = environment  # type: ignore[misc]
    if app.verbosity == 0:
        logging.getLogger("sphinx").setLevel(logging.INFO)
    Parser.parse_definition = lambda parser: None  # type: ignore[method-assign]
    StateMachine.add_states = add_states
    inspect.getsource = functools.cache(inspect.getsource)
