"""Checkpoints and weights in files: what was written is read, and nothing else is taken for it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from desim.agents.learning import checkpoint
from desim.agents.learning.checkpoint import load_checkpoint, load_into, load_weights, save_checkpoint, save_weights
from desim.exceptions import RecordError

TENSORS = {
    "single": torch.tensor([1.5, -0.0, 1e-40, math.inf, math.nan]),
    "double": torch.tensor([[math.pi], [1e300]], dtype=torch.float64),
    "whole": torch.tensor(7),
}
DOCUMENT = {"steps": 3, "rng": {"state": 2**127 + 1}, "mean": 0.1, "missing": math.nan, "list": [1, None, "x"]}


def assert_equal(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> None:
    assert first.keys() == second.keys()
    for name, tensor in first.items():
        assert tensor.dtype == second[name].dtype
        assert tensor.shape == second[name].shape
        assert tensor.numpy().tobytes() == second[name].numpy().tobytes()


def test_a_checkpoint_is_read_as_it_was_written(tmp_path: Path) -> None:
    folder = tmp_path / "not" / "there"
    assert load_checkpoint(folder) is None
    for step in range(3):
        tensors = TENSORS | {"step": torch.tensor(step)}
        save_checkpoint(folder, tensors, DOCUMENT | {"step": step})
        found = load_checkpoint(folder)
        assert found is not None
        assert_equal(found[0], tensors)
        assert {name: value for name, value in found[1].items() if name in ("steps", "rng", "mean", "list")} == {
            name: value for name, value in DOCUMENT.items() if name != "missing"
        }
        assert found[1]["step"] == step
        assert math.isnan(found[1]["missing"])
        save_checkpoint(folder, tensors, DOCUMENT | {"step": step})  # the same may be written again
        assert len(list(folder.iterdir())) == 2  # nothing old, nothing half


class Crash(BaseException):
    """The end of the process."""


@pytest.mark.parametrize("number", range(4))
def test_a_crash_at_any_moment_leaves_a_whole_checkpoint(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_checkpoint(tmp_path, {"a": torch.zeros(3)}, {"which": "former"})
    moments = 0

    def moment(call: Callable[..., Any]) -> Callable[..., Any]:
        def maybe(*arguments: Any, **named: Any) -> Any:
            nonlocal moments
            if moments == number:
                raise Crash
            moments += 1
            return call(*arguments, **named)

        return maybe

    for name in ("write_bytes", "write_text", "replace"):
        monkeypatch.setattr(Path, name, moment(getattr(Path, name)))
    with pytest.raises(Crash):
        save_checkpoint(tmp_path, {"a": torch.ones(3)}, {"which": "new"})
    assert moments == number
    monkeypatch.undo()
    found = load_checkpoint(tmp_path)
    assert found is not None
    assert found[1]["which"] == "former"
    assert found[0]["a"].tolist() == [0, 0, 0]
    save_checkpoint(tmp_path, {"a": torch.ones(3)}, {"which": "new"})
    found = load_checkpoint(tmp_path)
    assert found is not None
    assert found[1]["which"] == "new"
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("form", ["../other/{}", "{1}/{0}"])
def test_a_checkpoint_has_its_tensors_beside_it(tmp_path: Path, form: str) -> None:
    for name in ("mine", "other"):
        save_checkpoint(tmp_path / name, {"a": torch.zeros(3)}, {})
    document = json.loads((tmp_path / "mine" / "checkpoint.json").read_text())
    document["tensors"] = form.format(document["tensors"], tmp_path / "other")
    (tmp_path / "mine" / "checkpoint.json").write_text(json.dumps(document))
    with pytest.raises(RecordError, match="expected the name of a file beside it"):
        load_checkpoint(tmp_path / "mine")


def test_a_crash_before_the_old_one_is_deleted_leaves_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unlink(path: Path, **named: Any) -> None:
        raise Crash

    save_checkpoint(tmp_path, {"a": torch.zeros(3)}, {"which": "former"})
    monkeypatch.setattr(Path, "unlink", unlink)
    with pytest.raises(Crash):
        save_checkpoint(tmp_path, {"a": torch.ones(3)}, {"which": "new"})
    found = load_checkpoint(tmp_path)
    assert found is not None
    assert found[1]["which"] == "new"


def test_a_full_disk_is_told_and_costs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, content: bytes) -> None:
        raise OSError(28, "No space left on device")

    save_checkpoint(tmp_path, TENSORS, {"which": "former"})
    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(RecordError, match="No space left on device"):
        save_checkpoint(tmp_path, {"a": torch.ones(3)}, {"which": "new"})
    monkeypatch.undo()
    found = load_checkpoint(tmp_path)
    assert found is not None
    assert found[1]["which"] == "former"
    (tmp_path / "file").write_text("")
    with pytest.raises(RecordError, match=r"cannot write a checkpoint to .*file"):
        save_checkpoint(tmp_path / "file" / "below", TENSORS, {})


def tensor_file(folder: Path) -> Path:
    (path,) = folder.glob("*.safetensors")
    return path


def flipped(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-3] ^= 4  # in the middle of a number: still a valid file
    path.write_bytes(content)


DAMAGES: dict[str, Callable[[Path], Any]] = {
    "short document": lambda folder: (folder / checkpoint.DOCUMENT).write_text('{"tensors": "tens'),
    "empty document": lambda folder: (folder / checkpoint.DOCUMENT).write_text(""),
    "no object": lambda folder: (folder / checkpoint.DOCUMENT).write_text("[1, 2]"),
    "no name": lambda folder: (folder / checkpoint.DOCUMENT).write_text("{}"),
    "no text": lambda folder: (folder / checkpoint.DOCUMENT).write_bytes(b"\xff\xfe\x00"),
    "short tensors": lambda folder: tensor_file(folder).write_bytes(tensor_file(folder).read_bytes()[:-5]),
    "empty tensors": lambda folder: tensor_file(folder).write_bytes(b""),
    "no tensors": lambda folder: tensor_file(folder).unlink(),
    "another number": lambda folder: flipped(tensor_file(folder)),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_what_is_broken_is_named_and_left_alone(damage: str, tmp_path: Path) -> None:
    save_checkpoint(tmp_path, TENSORS, DOCUMENT)
    DAMAGES[damage](tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(RecordError, match=r"checkpoint\.json|tensors-\w*\.safetensors") as caught:
        load_checkpoint(tmp_path)
    assert str(tmp_path) in str(caught.value)
    assert before == {path.name: path.read_bytes() for path in tmp_path.iterdir()}


class TestWeights:
    def test_they_are_read_as_they_were_written_in_single_precision(self, tmp_path: Path) -> None:
        stem = tmp_path / "new" / "model-1.5"  # the point is part of the name
        save_weights(stem, TENSORS, {"agent": "x", "seed": 3})
        assert sorted(path.name for path in stem.parent.iterdir()) == ["model-1.5.json", "model-1.5.safetensors"]
        for given in (stem, f"{stem}.json", f"{stem}.safetensors"):
            tensors, card = load_weights(Path(given))
            assert_equal(tensors, {name: t.float() if t.is_floating_point() else t for name, t in TENSORS.items()})
            assert (card["agent"], card["seed"]) == ("x", 3)

    @pytest.mark.parametrize("missing", [".json", ".safetensors"])
    def test_missing_files_are_named(self, missing: str, tmp_path: Path) -> None:
        save_weights(tmp_path / "model", TENSORS, {})
        (tmp_path / f"model{missing}").unlink()
        with pytest.raises(RecordError, match=rf"no weights at .*model: model\{missing} is missing"):
            load_weights(tmp_path / "model")

    @pytest.mark.parametrize(
        ("suffix", "content"), [(".json", b"{"), (".json", b"\xff"), (".json", b"[]"), (".safetensors", b"12345678")]
    )
    def test_broken_files_are_named(self, suffix: str, content: bytes, tmp_path: Path) -> None:
        save_weights(tmp_path / "model", TENSORS, {})
        (tmp_path / f"model{suffix}").write_bytes(content)
        with pytest.raises(RecordError, match="model"):
            load_weights(tmp_path / "model")

    def test_files_that_do_not_belong_together_are_refused(self, tmp_path: Path) -> None:
        save_weights(tmp_path / "a", TENSORS, {})
        save_weights(tmp_path / "b", {"a": torch.ones(2)}, {})
        (tmp_path / "a.safetensors").write_bytes((tmp_path / "b.safetensors").read_bytes())
        with pytest.raises(RecordError, match=r"a\.safetensors is not the file that a\.json describes"):
            load_weights(tmp_path / "a")
        flipped(tmp_path / "b.safetensors")
        with pytest.raises(RecordError, match="not the file"):
            load_weights(tmp_path / "b")

    def test_where_nothing_can_be_written_it_is_told(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        with pytest.raises(RecordError, match=r"cannot write .*model"):
            save_weights(tmp_path / "file" / "model", TENSORS, {})

    def test_weights_of_another_shape_are_refused_in_one_line(self) -> None:
        module = torch.nn.Linear(2, 3)
        with pytest.raises(RecordError, match=r"the weights of somewhere do not fit .*: sizes differ for") as found:
            load_into(module, {"weight": torch.zeros(3, 3), "bias": torch.zeros(3)}, "somewhere")
        assert "\n" not in str(found.value)
        with pytest.raises(RecordError, match="the file lacks bias"):
            load_into(module, {"weight": torch.zeros(3, 2)}, "somewhere")


def test_cards_from_before_the_renames_are_read_under_the_names_of_today(tmp_path: Path) -> None:
    old = {
        "agent": "inspector",
        "config": {"base": "easy-sjf-cores", "expert": "rank_up-deft"},
        "training": {
            "learning": {"algorithm": "actor_critic", "decay": 0.9, "entropy": 0.1, "value_weight": 2.0, "clip": 0.3},
            "episodes": {"names": ["sjf-cores", "my_rank_up"]},
        },
        "own_code": {"mine:Net": "0"},
        "history": [{"figures": {"entropy": 0.5}}],
    }
    save_weights(tmp_path / "old", {"a": torch.zeros(1)}, old)
    card = load_weights(tmp_path / "old")[1]
    assert card["config"] == {"base": "easy-smallest-first", "expert": "rank-up-deft"}
    assert card["training"]["learning"] == {
        "algorithm": "a2c",
        "gae_lambda": 0.9,
        "entropy_coef": 0.1,
        "value_coef": 2.0,
        "clip_range": 0.3,
    }
    assert card["training"]["episodes"]["names"] == ["smallest-first", "my_rank_up"]
    assert card["user_code"] == {"mine:Net": "0"} and "own_code" not in card
    assert card["history"] == old["history"]
