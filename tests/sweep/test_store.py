"""Stored runs: nothing half written, nothing lost, and what is not what it should be is named."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from desim import simulate
from desim.agents.batch import FCFS
from desim.exceptions import RecordError
from desim.files import HOST, is_alive, locked, process_mark, remove_leftovers, write_durably
from desim.problems.batch import BatchCluster, Job
from desim.sweep import StorageError, Store, StoredOutcome
from desim.sweep.digest import file_digest, source_digest

PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
KEY, OTHER = {"seed": 1}, {"seed": 2}
USED: dict[str, Any] = {"modules": [], "code": source_digest(), "files": {}, "environment": {}}


def found(outcome: dict[str, Any], seconds: float | None = None, **used: Any) -> StoredOutcome:
    return StoredOutcome(outcome, seconds, USED | used)


@settings(max_examples=40, deadline=None)
@given(key=st.dictionaries(st.text(), PLAIN, max_size=4), outcome=st.dictionaries(st.text(), PLAIN, max_size=4))
def test_what_is_stored_is_found_again(tmp_path_factory: pytest.TempPathFactory, key: Any, outcome: Any) -> None:
    store = Store(tmp_path_factory.mktemp("store"))
    assert store.recall(key) is None
    store.save(key, found(outcome, 2.0))
    assert (kept := store.recall(key)) is not None and kept[:2] == (outcome, 2.0)
    assert list(store.directory.iterdir()) == [store.path(key)]


def test_an_outcome_is_found_in_the_state_that_it_was_performed_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, path = Store(tmp_path / "runs"), tmp_path / "data"
    for content in ("one", "other"):
        path.write_text(content)
        store.save(KEY, found({"read": content}, files={str(path): file_digest(path)}))
    for variable in ("1", "2"):
        store.save(OTHER, found({"read": variable}, environment={"LEVEL_OF_TEST": variable}))
    for content, variable in (("one", "1"), ("other", "2"), ("third", "3")):
        path.write_text(content)
        monkeypatch.setenv("LEVEL_OF_TEST", variable)
        kept = [one and one.outcome for one in map(store.recall, (KEY, OTHER))]
        assert kept == ([None, None] if content == "third" else [{"read": content}, {"read": variable}])
    path.unlink()
    assert store.recall(KEY) is None
    store.save(KEY, found({"read": ""}, files={str(path): None}))
    assert (kept_one := store.recall(KEY)) is not None and kept_one.outcome == {"read": ""}


@settings(max_examples=40, deadline=None)
@given(one=st.dictionaries(st.text(), PLAIN, max_size=3), other=st.dictionaries(st.text(), PLAIN, max_size=3))
def test_a_file_belongs_to_one_set_of_settings(one: Any, other: Any) -> None:
    store = Store(Path("anywhere"))
    same = json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
    assert (store.path(one) == store.path(other)) == same


def test_numbers_that_are_not_finite_are_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.save(KEY, found({"ratio": float("nan"), "largest": float("inf"), "deep": [{"x": float("-inf")}]}))
    assert (kept := store.recall(KEY)) is not None
    assert kept.outcome == {"ratio": None, "largest": None, "deep": [{"x": None}]}


@pytest.mark.parametrize("content", ["", "{", "[]", '{"settings": {"seed": 1}}', '{"outcome": 3}', "\xff"])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, content: str) -> None:
    store = Store(tmp_path)
    store.save(KEY, found({"x": 1}))
    path = store.path(KEY)
    path.write_bytes(content.encode("latin-1"))
    with pytest.raises(RecordError, match=path.name):
        store.recall(KEY)


def test_outcomes_of_other_runs_and_changed_ones_are_refused(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.save(KEY, found({"x": 1}))
    path = store.path(KEY)
    path.write_text(path.read_text().replace('"x": 1', '"x": 2'))
    with pytest.raises(RecordError, match="does not contain what was stored"):
        store.recall(KEY)
    path.rename(store.path(OTHER))
    with pytest.raises(RecordError, match="another run"):
        store.recall(OTHER)


def test_records_appear_when_they_are_complete(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs")
    for text in ("first", "second"):
        with store.draft(KEY) as draft:
            draft.mkdir(parents=True)
            (draft / "note").write_text(text)
            records = store.keep_records(KEY, USED, draft)
        assert records is not None and (records / "note").read_text() == text
    with pytest.raises(ZeroDivisionError), store.draft(KEY) as draft:
        draft.mkdir()
        raise ZeroDivisionError
    assert records is not None and list(store.directory.iterdir()) == [records]
    (tmp_path / "gone" / "draft").mkdir(parents=True)
    with pytest.raises(StorageError, match="cannot write"):
        Store(tmp_path / "nowhere").keep_records(KEY, USED, tmp_path / "gone" / "draft")


@pytest.mark.parametrize("by", ["a sweep", "save"])
def test_all_files_of_records_are_on_the_disk_before_the_directory_gets_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    synchronized: set[int] = set()
    awaited: dict[str, bool] = {}
    fsync, moves = os.fsync, {"rename": Path.rename, "replace": Path.replace}

    def noted(file: int) -> None:
        synchronized.add(os.fstat(file).st_ino)
        fsync(file)

    def moved(how: str, path: Path, target: Path) -> Path:
        if path.is_dir():
            inside = [path, *path.rglob("*")]
            awaited.update({str(one.relative_to(path)): one.stat().st_ino in synchronized for one in inside})
        return moves[how](path, target)

    result = simulate(BatchCluster([Job("a", 0.0, 1, 1.0, 1.0)], num_cores=2), FCFS())
    monkeypatch.setattr(os, "fsync", noted)
    for how in moves:
        monkeypatch.setattr(Path, how, lambda path, target, how=how: moved(how, path, target))
    if by == "save":
        result.save(tmp_path / "records")
    else:
        store = Store(tmp_path / "runs")
        with store.draft(KEY) as draft:
            simulate(BatchCluster([Job("a", 0.0, 1, 1.0, 1.0)], num_cores=2), FCFS(), out=draft)
            store.keep_records(KEY, USED, draft)
    assert awaited.pop("jobs/part-000000.parquet") and awaited.pop("jobs") and awaited.pop("result.json")
    assert all(awaited.values())


def test_a_network_file_system_may_lack_locks_and_keep_what_is_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    store, real, stale = Store(tmp_path / "runs"), Path.read_bytes, [OSError(errno.ESTALE, "Stale file handle")]

    def unlocked(*_: Any) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    def read_bytes(path: Path) -> bytes:
        if path.suffix == ".json" and stale:
            raise stale.pop()
        return real(path)

    monkeypatch.setattr(fcntl, "flock", unlocked)
    monkeypatch.setattr(shutil, "rmtree", lambda *_, **__: None)
    monkeypatch.setattr(Path, "read_bytes", read_bytes)
    for text in ("first", "second"):
        with store.draft(KEY) as draft, locked(draft):
            (draft / "note").write_text(text)
            records = store.keep_records(KEY, USED, draft)
        assert records is not None and (records / "note").read_text() == text
        store.save(KEY, found({"text": text}))
    with store.draft(OTHER) as draft:
        draft.mkdir()
        (draft / "note").write_text("late")
        monkeypatch.setattr(Path, "rename", lambda *_: (_ for _ in ()).throw(OSError(errno.ENOTEMPTY, "not empty")))
        store.keep_records(KEY, USED, draft)
        monkeypatch.undo()
    assert (kept := store.recall(KEY)) is not None and kept.outcome == {"text": "second"} and not stale
    assert kept.records is not None and (kept.records / "note").read_text() == "second"
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(fcntl, "flock", unlocked)
    for _ in range(2):
        with locked(tmp_path / "run"):
            pass
    assert capsys.readouterr().err.splitlines() == [
        "desim: results cannot be locked (No locks available): do not write one directory by two runs at the same time"
    ]


class Wrapped:
    """A file whose methods can be replaced."""

    def __init__(self, file: Any) -> None:
        self.file, self.fileno = file, file.fileno

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()

    def write(self, text: str) -> int:
        return self.file.write(text)

    def flush(self) -> None:
        self.file.flush()


@pytest.mark.parametrize("moment", ["write", "fsync", "replace", "mkdir"])
def test_whenever_writing_fails_what_was_there_stays_and_nothing_is_left(
    tmp_path: Path, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "deep" / "file.json"
    if moment != "mkdir":
        write_durably(path, "before")

    def fail(*_: Any, **__: Any) -> None:
        raise OSError(122, "Disk quota exceeded")

    if moment == "write":
        real = Path.open
        monkeypatch.setattr(Wrapped, moment, fail)
        monkeypatch.setattr(Path, "open", lambda self, *given, **more: Wrapped(real(self, *given, **more)))
    else:
        monkeypatch.setattr(os if moment == "fsync" else Path, moment, fail)
    with pytest.raises(StorageError, match=r"cannot write .*file\.json: Disk quota exceeded"):
        write_durably(path, "after")
    monkeypatch.undo()
    assert [one.name for one in tmp_path.rglob("*.*")] == (["file.json"] if moment != "mkdir" else [])
    assert moment == "mkdir" or path.read_text() == "before"


def test_drafts_of_ended_processes_are_removed_and_no_others_however_old(tmp_path: Path) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    hour_ago = time.time() - 3_700
    files = {
        f".a.json.{dead.pid}@{HOST}.partial": True,
        f".b.json.{os.getppid()}@{HOST}.partial": False,
        f".c.json.{dead.pid}@elsewhere.partial": False,
        ".d.json.1234.partial": False,
        "e.json": False,
        f".f.json.{os.getppid()}@{HOST}.partial": False,
        ".g.json.partial": False,
    }
    for name in files:
        (tmp_path / name).write_text("{")
        if name[1] in "fg":
            os.utime(tmp_path / name, (hour_ago, hour_ago))
    records = {f".h.{dead.pid}@{HOST}.partial": True, f".i.{os.getppid()}@{HOST}.partial": False}
    for name in records:
        (tmp_path / name / "jobs").mkdir(parents=True)
        os.utime(tmp_path / name, (hour_ago, hour_ago))
    remove_leftovers(tmp_path)
    there = {path.name for path in tmp_path.iterdir()}
    assert there == {name for name, gone in (files | records).items() if not gone}
    remove_leftovers(tmp_path / "nowhere")


def test_a_process_is_told_from_a_later_one_with_its_number() -> None:
    assert is_alive(os.getpid())
    assert is_alive(os.getpid(), process_mark(os.getpid()))
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    assert is_alive(child.pid)
    if (mark := process_mark(child.pid)) is not None:
        assert not is_alive(child.pid, f"{mark}0")
    child.kill()
    while is_alive(child.pid):  # it is dead before anybody has waited for it
        time.sleep(0.002)
    child.communicate()
    assert not is_alive(child.pid)
