"""Stored runs: nothing half written, nothing repeated, and a sweep that is killed goes on."""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from experiment_runs import Factor, Sum, multiply, runs, traced
from hypothesis import given, settings
from hypothesis import strategies as st

from desim.exceptions import InvalidConfiguration, RecordError
from desim.experiments import source
from desim.experiments.ogasched.agents import RIVALS, VARIANTS, ogasched
from desim.experiments.ogasched.simulating import Setting, perform
from desim.experiments.run import Run
from desim.experiments.runner import SweepFailed, SweepInterrupted, perform_all, settings_of
from desim.experiments.source import modules_behind, source_digest
from desim.experiments.store import Store
from desim.parallel import Workers

ROOT = Path(source.__file__).resolve().parents[1]
PACKAGES = str(ROOT / "desim")
PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


# -- the store ----------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(key=st.dictionaries(st.text(), PLAIN, max_size=4), outcome=st.dictionaries(st.text(), PLAIN, max_size=4))
def test_what_is_stored_is_found_again(tmp_path_factory: pytest.TempPathFactory, key: Any, outcome: Any) -> None:
    store = Store(tmp_path_factory.mktemp("store"))
    assert store.find(key) is None
    path = store.save(key, outcome)
    assert store.find(key) == outcome
    assert list(store.directory.iterdir()) == [path]


@settings(max_examples=60, deadline=None)
@given(one=st.dictionaries(st.text(), PLAIN, max_size=3), other=st.dictionaries(st.text(), PLAIN, max_size=3))
def test_a_file_belongs_to_one_set_of_settings(one: Any, other: Any) -> None:
    store = Store(Path("anywhere"))
    assert (store.path(one) == store.path(other)) == (
        json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
    )


def test_numbers_that_are_not_finite_are_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.save({"seed": 1}, {"ratio": float("nan"), "largest": float("inf"), "deep": [{"x": float("-inf")}]})
    assert store.find({"seed": 1}) == {"ratio": None, "largest": None, "deep": [{"x": None}]}


@pytest.mark.parametrize(
    "content", ["", "{", "[]", "null", '{"settings": {"seed": 1}}', '{"settings": {"seed": 1}, "outcome": 3}', "\xff"]
)
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, content: str) -> None:
    store = Store(tmp_path)
    path = store.save({"seed": 1}, {"x": 1})
    path.write_bytes(content.encode("latin-1"))
    with pytest.raises(RecordError, match=path.name):
        store.find({"seed": 1})


def test_the_outcome_of_another_run_under_the_name_of_this_one_is_refused(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.save({"seed": 1}, {"x": 1}).rename(store.path({"seed": 2}))
    with pytest.raises(RecordError, match="another run"):
        store.find({"seed": 2})


def test_a_failed_write_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path)
    store.save({"seed": 1}, {"x": 1})

    def fail(self: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(RecordError, match="No space left"):
        store.save({"seed": 1}, {"x": 2})
    monkeypatch.undo()
    assert store.find({"seed": 1}) == {"x": 1}
    assert len(list(tmp_path.iterdir())) == 1


# -- the runner ---------------------------------------------------------------------------------


@pytest.mark.parametrize("jobs", [1, 2])
def test_every_run_is_performed_once_and_never_again(tmp_path: Path, jobs: int) -> None:
    trace, store = tmp_path / "trace", Store(tmp_path / "runs")
    wanted = runs(trace, [3, 1, 2, 3, 1])
    outcomes = perform_all(multiply, wanted, store, workers=Workers(jobs))
    assert sorted(traced(trace)) == [1, 2, 3]
    assert [run.seed for run in outcomes] == [3, 1, 2]
    assert [outcome["product"] for outcome in outcomes.values()] == [6.0, 2.0, 4.0]
    assert perform_all(multiply, [*wanted, *runs(trace, [4])], store, workers=Workers(jobs)) == outcomes | {
        run: {"product": 8.0, "curve": [4, 4.5], "nothing": None} for run in runs(trace, [4])
    }
    assert sorted(traced(trace)) == [1, 2, 3, 4]


def test_whatever_determines_a_run_is_part_of_its_key(tmp_path: Path) -> None:
    base = Run(Sum("a"), Factor("b"), 0)
    others = [Run(Sum("c"), Factor("b"), 0), Run(Sum("a"), Factor("b", 3.0), 0), Run(Sum("a"), Factor("b"), 1)]
    keys = [settings_of(multiply, run) for run in (base, *others)] + [settings_of(traced, base)]  # type: ignore[arg-type]
    assert len({Store(tmp_path).path(key) for key in keys}) == len(keys)
    assert settings_of(multiply, base) == settings_of(multiply, Run(Sum("a"), Factor("b"), 0))


def test_a_file_that_cannot_be_read_is_named_and_its_run_repeated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace, store = tmp_path / "trace", Store(tmp_path / "runs")
    wanted = runs(trace, [1, 2])
    outcomes = perform_all(multiply, wanted, store, workers=Workers(1))
    broken = store.path(settings_of(multiply, wanted[1]))
    broken.write_text(broken.read_text()[:-20])
    capsys.readouterr()
    assert perform_all(multiply, wanted, store, workers=Workers(1)) == outcomes
    assert traced(trace) == [1, 2, 2]
    assert broken.name in capsys.readouterr().err
    assert store.find(settings_of(multiply, wanted[1])) == outcomes[wanted[1]]


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_error_names_the_run(tmp_path: Path, jobs: int) -> None:
    failing = runs(tmp_path / "trace", [7, 8], policy="fail")
    with pytest.raises(SweepFailed, match=r"policy='fail'.*seed [78]: WorkloadError: port 3 is on fire"):
        perform_all(multiply, failing, Store(tmp_path / "runs"), workers=Workers(jobs))
    assert not list(tmp_path.glob("runs/*.json"))


def test_an_interruption_keeps_what_is_finished(tmp_path: Path) -> None:
    trace, store = tmp_path / "trace", Store(tmp_path / "runs")
    with pytest.raises(SweepInterrupted, match="2 of 5 runs are stored"):
        perform_all(multiply, runs(trace, range(5), policy="stop"), store, workers=Workers(1))
    assert len(list(store.directory.glob("*.json"))) == 2


def test_a_sweep_that_is_killed_goes_on_where_it_was(tmp_path: Path) -> None:
    trace, store = tmp_path / "trace", Store(tmp_path / "runs")
    script = (
        "import sys; from pathlib import Path; from experiment_runs import multiply, runs\n"
        "from desim.parallel import Workers\n"
        "from desim.experiments.runner import perform_all; from desim.experiments.store import Store\n"
        "wanted = runs(Path(sys.argv[1]), range(6))\n"
        "perform_all(multiply, wanted, Store(Path(sys.argv[2])), workers=Workers(1))\n"
    )
    held = Path(f"{trace}.held")
    held.touch()  # the third run does not end
    child = subprocess.Popen(
        [sys.executable, "-c", script, str(trace), str(store.directory)],
        env=os.environ | {"PYTHONPATH": f"{ROOT}:{Path(__file__).parent}"},
        stderr=subprocess.DEVNULL,
    )
    while len(traced(trace)) < 3:
        assert child.poll() is None
        time.sleep(0.01)
    child.send_signal(signal.SIGKILL)
    child.wait()
    held.unlink()
    wanted = runs(trace, range(6))
    stored = [run.seed for run in wanted if store.find(settings_of(multiply, run)) is not None]
    assert stored == [0, 1]
    trace.unlink()
    outcomes = perform_all(multiply, wanted, store, workers=Workers(1))
    assert traced(trace) == [2, 3, 4, 5]
    assert [outcome["product"] for outcome in outcomes.values()] == [2.0 * seed for seed in range(6)]


# -- the digest of the code ---------------------------------------------------------------------


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the directory of a tiny project: ``study`` needs ``parts.engine`` and what that needs."""
    package = tmp_path / "tinyproject"
    (package / "parts").mkdir(parents=True)
    files = {
        "__init__.py": "",
        "study.py": '"""Study."""\nfrom tinyproject.parts import Engine\ndef run():\n    from . import late\n',
        "late.py": "import json\nVALUE = 1\n",
        "unused.py": "VALUE = 1\n",
        "parts/__init__.py": "from tinyproject.parts.engine import Engine\nfrom tinyproject.parts.other import Other\n",
        "parts/engine.py": "from .wheels import WHEELS\nclass Engine:\n    wheels = WHEELS\n",
        "parts/wheels.py": "WHEELS = 4\n",
        "parts/other.py": "class Other:\n    pass\n",
    }
    for name, content in files.items():
        (package / name).write_text(content)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(source, "PACKAGES", ("tinyproject",))
    _forget()
    yield package
    _forget()
    for name in [name for name in sys.modules if name.startswith("tinyproject")]:
        del sys.modules[name]


def _forget() -> None:
    source.source_digest.cache_clear()
    source._origin_of.cache_clear()
    importlib.invalidate_caches()


def _digest() -> str:
    _forget()
    return source_digest("tinyproject.study")


def test_the_modules_behind_a_module_are_those_that_it_needs(project: Path) -> None:
    names = ["late", "parts.engine", "parts.wheels", "study"]
    assert list(modules_behind("tinyproject.study")) == [f"tinyproject.{name}" for name in names]


@pytest.mark.parametrize(
    ("file", "content", "matters"),
    [
        ("parts/wheels.py", "WHEELS = 5\n", True),
        ("late.py", "import json\nVALUE = 2\n", True),
        ("parts/wheels.py", '"""How many."""\n\n# Cars have four.\nWHEELS = (4)\n', False),
        (
            "parts/engine.py",
            'from .wheels import WHEELS\nclass Engine:\n    """Turns."""\n    wheels = WHEELS\n',
            False,
        ),
        ("parts/other.py", "class Other:\n    changed = True\n", False),
        ("unused.py", "VALUE = 2\n", False),
    ],
)
def test_only_code_that_matters_changes_the_digest(project: Path, file: str, content: str, matters: bool) -> None:
    before = _digest()
    assert _digest() == before
    (project / file).write_text(content)
    assert (_digest() != before) == matters


def test_a_project_of_ones_own_counts_and_what_is_installed_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, content in {
        "ownstudy.py": "import numpy, json, ownhelp, ownkit.deep\nfrom desim.experiments.runner import perform_all\n",
        "ownhelp.py": "from desim.exceptions import DesimError\n",
        "ownkit/__init__.py": "",
        "ownkit/deep.py": "VALUE = 1\n",
        "unasked.py": "",
        "site-packages/bought.py": "import more\n",
        "site-packages/more.py": "",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.syspath_prepend(tmp_path / "site-packages")
    _forget()
    assert list(modules_behind("ownstudy")) == ["desim.exceptions", "ownhelp", "ownkit.deep", "ownstudy"]
    assert list(modules_behind("ownkit.deep")) == ["ownkit.deep"]
    assert list(modules_behind("bought")) == []
    before = source_digest("ownstudy")
    (tmp_path / "ownkit" / "deep.py").write_text("VALUE = 2\n")
    _forget()
    assert source_digest("ownstudy") != before
    _forget()


def test_the_experiments_depend_on_dynamics_agents_and_workloads_but_not_on_pictures() -> None:
    names = set(modules_behind("desim.experiments.ogasched.simulating"))
    needed = {
        "desim.core",
        "desim.problems.multiserver.cluster",
        "desim.agents.multiserver.projection",
        "desim.workloads.multiserver",
    }
    assert needed <= names
    outside = (
        "desim.cli",
        "desim.plotting",
        "desim.metrics",
        "desim.validation",
        "desim.agents.batch",
        "desim.problems.batch",
    )
    assert not [name for name in names if name.startswith(outside)]
    assert "desim.experiments.ogasched.pictures" not in names


def test_all_code_that_a_run_executes_is_in_the_digest() -> None:
    choices = {choice.policy: choice for choice in [ogasched(), *RIVALS.values(), *VARIANTS.values()]}
    wanted = [Run(Setting(num_nodes=12, num_slots=3), choice, 0) for choice in choices.values()]
    for run in wanted:
        perform(run)  # once before, so that nothing is imported while we watch
    executed: set[str] = set()

    def watch(frame: FrameType, event: str, argument: object) -> None:
        executed.add(frame.f_code.co_filename)

    sys.setprofile(watch)
    try:
        for run in wanted:
            perform(run)
    finally:
        sys.setprofile(None)
    ours = {Path(name) for name in executed if name.startswith(PACKAGES)}
    ours.discard(Path(__file__))
    assert ours >= {ROOT / "desim/agents/multiserver/projection.py", ROOT / "desim/core.py"}
    assert ours <= set(modules_behind("desim.experiments.ogasched.simulating").values())


def test_a_function_of_the_program_itself_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its module would be called __main__, so that no change of its code would be noticed."""
    monkeypatch.setattr(multiply, "__module__", "__main__")
    with pytest.raises(InvalidConfiguration, match="multiply performs runs: want it in a module of its own"):
        settings_of(multiply, runs(tmp_path / "trace", [0])[0])
