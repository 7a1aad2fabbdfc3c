"""Digests of code: whatever a run depends on is in them, and nothing else."""

from __future__ import annotations

import gc
import importlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import pytest

from desim.exceptions import InvalidConfiguration, RecordError
from desim.experiments.ogasched.agents import RULES, STEPS, chosen
from desim.experiments.ogasched.simulate import Setting, perform
from desim.sweep import Run, digest
from desim.sweep.digest import file_digest, modules_behind, source_digest, traits_of

ROOT = Path(digest.__file__).resolve().parents[2]
FILES = {
    "__init__.py": "",
    "study.py": '"""Study."""\nfrom tinyproject.parts import Engine\ndef run():\n    from . import late\n',
    "late.py": "import json\nVALUE = 1\n",
    "unused.py": "VALUE = 1\n",
    "parts/__init__.py": "from tinyproject.parts.engine import Engine\nfrom tinyproject.parts.other import Other\n",
    "parts/engine.py": "from .wheels import WHEELS\nclass Engine:\n    wheels = WHEELS\n",
    "parts/wheels.py": "WHEELS = 4\n",
    "parts/other.py": "class Other:\n    pass\n",
}


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return the directory of a tiny project: ``study`` needs ``parts.engine`` and what that needs."""
    package = tmp_path_factory.mktemp("project") / "tinyproject"
    (package / "parts").mkdir(parents=True)
    for name, content in FILES.items():
        (package / name).write_text(content)
    sys.path.insert(0, str(package.parent))
    yield package
    sys.path.remove(str(package.parent))
    for name in [name for name in sys.modules if name.startswith("tinyproject")]:
        del sys.modules[name]


@pytest.fixture
def project(package: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Treat it like desim, and leave it as it was."""
    monkeypatch.setattr(digest, "PACKAGES", ("tinyproject",))
    yield package
    for name, content in FILES.items():
        (package / name).write_text(content)


def test_the_modules_behind_a_module_are_those_that_it_needs(project: Path) -> None:
    names = ["late", "parts.engine", "parts.wheels", "study"]
    assert list(modules_behind("tinyproject.study")) == [f"tinyproject.{name}" for name in names]
    both = modules_behind("tinyproject.study", "tinyproject.unused")
    assert list(both) == [f"tinyproject.{name}" for name in [*names, "unused"]]


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
    before = source_digest("tinyproject.study")
    assert source_digest("tinyproject.study") == before
    (project / file).write_text(content)
    assert (source_digest("tinyproject.study") != before) == matters


def test_a_loaded_module_counts_as_it_was_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "loadedstudy.py"
    path.write_text("VALUE = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    before = source_digest("loadedstudy")
    module = importlib.import_module("loadedstudy")
    monkeypatch.setitem(sys.modules, "loadedstudy", module)
    assert source_digest("loadedstudy") == before
    path.write_text("VALUE = 22\n")
    assert source_digest("loadedstudy") == before  # which is what runs
    with pytest.raises(InvalidConfiguration, match="has changed since module loadedstudy was loaded; reload it, or"):
        source_digest("loadedstudy", as_in_files=True)
    importlib.reload(module)
    assert module.VALUE == 22 and source_digest("loadedstudy", as_in_files=True) != before
    path.write_text("VALUE = 333\n")
    importlib.reload(module)
    path.write_text("VALUE = 4444\n")  # before anybody has asked for what was loaded
    with pytest.raises(InvalidConfiguration, match="start again in a new process"):
        source_digest("loadedstudy")


def test_traits_of_own_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    texts = {
        "traitsplain": "import os, traitsinner\nLEVEL = os.environ['LEVEL']\n",
        "traitsinner": "from os import environ, getenv\nENVIRONMENT_VARIABLES = ('A', 'B')\n"
        "f = getenv('F', environ.get('G'))\n",
        "traitsdynamic": "import importlib\ndef use(name):\n    return importlib.import_module(name)\n",
    }
    for name, text in texts.items():
        (tmp_path / f"{name}.py").write_text(text)
    assert traits_of(["traitsplain", "desim.core"]) == (False, ("A", "B", "F", "G", "LEVEL"))
    assert traits_of(["traitsdynamic"]) == (True, ())


def test_a_project_of_ones_own_counts_and_of_what_is_installed_only_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, content in {
        "ownstudy.py": "import numpy, json, ownhelp, ownkit.deep, bought\nfrom desim.sweep import run_all\n",
        "ownhelp.py": "from desim.exceptions import DesimError\n",
        "ownkit/__init__.py": "from ownkit import wide\n",
        "ownkit/deep.py": "VALUE = 1\n",
        "ownkit/wide.py": "VALUE = 1\n",
        "ownkit/unasked.py": "",
        "unasked.py": "",
        "loose/inner.py": "import ownhelp\n",
        "site-packages/bought.py": "import more\n",
        "site-packages/more.py": "",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.syspath_prepend(tmp_path / "site-packages")
    own = ["ownhelp", "ownkit", "ownkit.deep", "ownkit.wide", "ownstudy"]
    assert list(modules_behind("ownstudy")) == ["desim.exceptions", *own]
    assert list(modules_behind("ownkit.deep")) == ["ownkit", "ownkit.deep", "ownkit.wide"]
    assert list(modules_behind("loose.inner")) == ["desim.exceptions", "loose.inner", "ownhelp"]
    assert list(modules_behind("bought")) == ["bought"]
    before = source_digest("ownstudy")
    (tmp_path / "ownkit" / "deep.py").write_text("VALUE = 2\n")
    assert source_digest("ownstudy") != before


def test_runs_depend_on_dynamics_agents_and_workloads_but_not_on_pictures() -> None:
    names = set(modules_behind("desim.experiments.ogasched.simulate"))
    assert names >= {"desim.core", "desim.agents.multiserver.projection"}
    assert [name for name in names if name.startswith("desim.workloads.multiserver")]
    outside = ("desim.cli", "desim.plotting", "desim.sweep", "desim.agents.batch", "desim.problems.batch")
    assert not [name for name in names if name.startswith(outside)]
    assert "desim.experiments.ogasched.figure2" not in names


def test_runs_depend_on_all_modules_of_a_feature() -> None:
    names = modules_behind("desim.problems.batch.options")
    features = ROOT / "desim" / "problems" / "batch" / "parts"
    assert {path for path in features.rglob("*.py") if path.name not in ("usage.py",)} <= set(names.values())


def test_all_code_that_a_run_executes_is_in_the_digest() -> None:
    choices = chosen(*STEPS, *RULES).values()
    wanted = [Run(Setting(num_nodes=12, num_slots=3), choice, 0) for choice in choices]
    for run in wanted:
        perform(run)  # once before, so that nothing is imported while we watch
    executed: set[str] = set()

    def watch(frame: FrameType, event: str, argument: object) -> None:
        executed.add(frame.f_code.co_filename)

    gc.collect()  # what others left would end now, and be watched
    gc.disable()
    sys.setprofile(watch)
    try:
        for run in wanted:
            perform(run)
    finally:
        sys.setprofile(None)
        gc.enable()
    ours = {Path(name) for name in executed if name.startswith(str(ROOT / "desim"))}
    assert ours >= {ROOT / "desim/agents/multiserver/projection.py", ROOT / "desim/core.py"}
    handed = {
        ROOT / "desim/experiments/study.py",  # asks whether records are valid, and nothing else of a run
        ROOT / "desim/agent_resolution.py",  # whether the arguments make sense
    }
    assert ours - handed <= set(modules_behind("desim.experiments.ogasched.simulate").values())


def test_files_are_known_by_their_content(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.write_text("content")
    other.write_text("content")
    assert file_digest(one) == file_digest(other)
    other.write_text("another")
    os.utime(other, ns=(one.stat().st_atime_ns, one.stat().st_mtime_ns + 1))
    assert file_digest(one) != file_digest(other)
    with pytest.raises(RecordError, match="nowhere cannot be read"):
        file_digest(tmp_path / "nowhere")


def test_a_file_that_changes_within_a_tick_of_the_clock_is_read_again(tmp_path: Path) -> None:
    path, digests = tmp_path / "one", set()
    for number in range(50):
        path.write_text(f"{number:02}")
        os.utime(path, ns=(0, 0))
        digests.add(file_digest(path))
    assert len(digests) == 50
