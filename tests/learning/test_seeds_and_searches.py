"""Trainings from several seeds, and searches over settings: what they write, and that interruptions change nothing."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch

from desim.agents.batch.split_window import SplitWindowAgent, SplitWindowConfig
from desim.agents.batch.training import EpisodeOptions, SplitWindowTraining
from desim.agents.learning import seeds as module
from desim.agents.learning.seeds import band_of, draw_learning
from desim.agents.learning.training import TrainingConfig, TrainingResult
from desim.agents.learning.tune import Trial, Tuned, range_of, with_values
from desim.cli import main
from desim.exceptions import InvalidConfiguration, MissingDependency, RecordError
from desim.statistics import mean_interval

SMALL = SplitWindowTraining(
    agent=SplitWindowConfig(3, 1, hidden=(4,), num_cores=16),
    episodes=EpisodeOptions(load=(1.5,), num_traces=2, trace_jobs=60, num_jobs=15),
    training=TrainingConfig(40, 3, num_envs=2, num_steps=10, validation_episodes=2, validate_every=1),
)
COMMAND = (
    *("batch", "--head", "3", "--tail", "1", "--hidden", "4", "--num-cores", "16", "--load", "1.5", "--seed", "3"),
    *("--num-traces", "2", "--trace-jobs", "60", "--num-jobs", "15", "--num-envs", "2", "--num-steps", "10"),
    *("--total-steps", "40", "--validation-episodes", "2", "--validate-every", "1"),
)


class TestSeeds:
    def test_each_is_the_training_of_its_seed(self, tmp_path: Path) -> None:
        told: list[dict[str, Any]] = []
        found = SMALL.train_seeds(tmp_path, 3, report=told.append)
        assert (found.status, found.seeds, found.objective) == ("complete", (3, 4, 5), "waiting_time_mean")
        for seed, stem, result in zip(found.seeds, found.stems, found.results, strict=True):
            alone = replace(SMALL, training=replace(SMALL.training, seed=seed)).train()
            assert all(torch.equal(tensor, alone.weights[name]) for name, tensor in result.weights.items())
            assert result.best == alone.best
            assert SplitWindowAgent.load(stem).config == SMALL.agent
        assert [entry["seed"] for entry in told] == [3] * 3 + [4] * 3 + [5] * 3
        reached = [result.best["waiting_time_mean"] for result in found.results]
        assert found.final == mean_interval(reached)
        found.write(tmp_path)
        curves = pl.read_csv(tmp_path / "curves.csv")
        assert curves.height == 9
        assert curves["seed"].unique().sort().to_list() == [3, 4, 5]
        document = json.loads((tmp_path / "seeds.json").read_text())
        assert document["mean"] == pytest.approx(np.mean(reached))
        assert document["seeds"]["4"] == found.results[1].best
        assert (tmp_path / "curves.png").read_bytes()[1:4] == b"PNG"

    def test_what_is_complete_is_not_done_again_and_what_was_interrupted_goes_on(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        usual, begun = SplitWindowTraining.train, list[int]()

        def train(self: SplitWindowTraining, directory: Path, report: Any = None) -> TrainingResult:
            begun.append(self.training.seed)
            result = usual(self, directory, report)
            return replace(result, status="interrupted") if begun == [3, 4] else result

        monkeypatch.setattr(SplitWindowTraining, "train", train)
        first = SMALL.train_seeds(tmp_path, 3)
        assert (first.status, first.seeds) == ("interrupted", (3, 4))
        assert not first.stems[1].with_suffix(".json").exists()
        again = SMALL.train_seeds(tmp_path, 3)
        assert begun == [3, 4, 4, 5]
        assert again.status == "complete"
        assert again.results[0].history == json.loads(json.dumps(first.results[0].history))
        assert SMALL.train_seeds(tmp_path, 3).final == again.final
        longer = replace(SMALL, training=replace(SMALL.training, total_steps=60))
        assert longer.train_seeds(tmp_path, 1).results[0].history[-1]["steps"] == 60
        with pytest.raises(InvalidConfiguration, match="holds a checkpoint of another training"):
            replace(SMALL, reward="paper").train_seeds(tmp_path, 1)
        with pytest.raises(InvalidConfiguration, match="seeds: got 0"):
            SMALL.train_seeds(tmp_path, 0)

    def test_a_band_goes_as_far_as_all_curves(self) -> None:
        curves = [(np.array([0.0, 2.0, 4.0]), np.array([0.0, 2.0, 4.0])), (np.array([0.0, 3.0]), np.array([2.0, 5.0]))]
        steps, means, halves = band_of(curves)
        assert steps.tolist() == [0.0, 2.0, 3.0]
        np.testing.assert_allclose(means, [1.0, 3.0, 4.0])
        np.testing.assert_allclose(halves, mean_interval([0.0, 2.0]).half_width)
        assert band_of(curves[:1])[2].tolist() == [0.0, 0.0, 0.0]

    def test_all_seeds_their_mean_and_the_band_are_drawn(self) -> None:
        rows = [(seed, step, float(step + seed)) for seed in (0, 1, 2) for step in (0, 10, 20)]
        axes = draw_learning(pl.DataFrame(rows, ["seed", "steps", "cost"], orient="row"), "cost")
        assert [line.get_ydata().tolist() for line in axes.lines] == [  # type: ignore[union-attr]  # arrays
            *([seed, seed + 10.0, seed + 20.0] for seed in (0.0, 1.0, 2.0)),
            [1.0, 11.0, 21.0],
        ]
        assert len(axes.collections) == 1
        assert (axes.get_xlabel(), axes.get_ylabel()) == ("decisions", "cost")

    def test_where_nothing_can_be_written_it_is_told(self, tmp_path: Path) -> None:
        found = SMALL.train_seeds(tmp_path / "one", 1)
        (tmp_path / "file").write_text("")
        with pytest.raises(RecordError, match="cannot write"):
            found.write(tmp_path / "file")

    def test_the_command_line_trains_several_seeds(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["train", *COMMAND, "--seeds", "2", "--out", str(tmp_path)]) == 0
        out, err = capsys.readouterr()
        assert "95 % interval over 2 seeds" in out
        assert "curves.png" in out
        assert err.count("seed 3: ") == err.count("seed 4: ") == 3
        assert main(["train", *COMMAND, "--seeds", "2", "--out", str(tmp_path), "--json"]) == 0
        out, err = capsys.readouterr()
        document = json.loads(out)
        found = SMALL.train_seeds(tmp_path, 2)
        assert document["waiting_time_mean"]["mean"] == pytest.approx(found.final.mean)
        assert document["weights"] == [str(stem) for stem in found.stems]
        assert err == ""  # there was nothing left to do
        assert main(["train", *COMMAND, "--seeds", "0", "--out", str(tmp_path)]) == 2


class TestRanges:
    def test_numbers_and_choices(self) -> None:
        found = [range_of(SMALL, text) for text in ("learning-rate=1e-4:0.01:log", "epochs=2:8", "entropy-coef=0:.1")]
        assert [(one.name, one.low, one.high, one.log, one.is_whole) for one in found] == [
            ("learning_rate", 1e-4, 0.01, True, False),
            ("epochs", 2, 8, False, True),
            ("entropy_coef", 0, 0.1, False, False),
        ]
        hidden = range_of(SMALL, "--hidden=64 32, 8")
        changed = with_values(SMALL, {"hidden": hidden.choices[0], "epochs": 3, "masked": "no", "reserve_after": "60"})
        assert changed.agent == replace(SMALL.agent, hidden=(64, 32), masked=False, reserve_after=60.0)
        assert changed.learning.epochs == 3
        assert changed.training == SMALL.training

    @pytest.mark.parametrize(
        ("text", "what"),
        [
            ("epochs", "range: got 'epochs', expected for example"),
            ("depth=1:2", "cannot search over 'depth'; expected one of head, "),
            ("seed=1:5", "cannot search over 'seed'"),
            ("epochs=8:2", "expected least:most"),
            ("epochs=1.5:3", "expected least:most"),
            ("entropy-coef=0:1:log", "least:most:log with least > 0"),
            ("entropy-coef=a:b", "expected numbers"),
            ("masked=maybe,no", "masked: got 'maybe', expected yes or no"),
            ("epochs=two,3", "epochs: got 'two'"),
        ],
    )
    def test_what_makes_no_sense_is_told(self, text: str, what: str) -> None:
        with pytest.raises(InvalidConfiguration, match=what):
            range_of(SMALL, text)


def fake(monkeypatch: pytest.MonkeyPatch, stop_at: int | None = None) -> list[float]:
    """Let trainings take no time, and find how far the logarithm of the learning rate is from -7."""
    tried: list[float] = []

    def train(self: SplitWindowTraining, directory: Path, report: Any = None) -> TrainingResult:
        rate = self.learning.learning_rate
        tried.append(rate)
        if len(tried) - 1 == stop_at:
            raise KeyboardInterrupt
        if self.learning.epochs == 5:
            raise InvalidConfiguration("five epochs are too many")
        found = {"waiting_time_mean": abs(np.log(rate) + 7.0)}
        weights = dict(self.agent.policy(np.random.default_rng(0)).state_dict())
        return TrainingResult(weights, found, [{"steps": 0, "seconds": 0.0, "validation": found}], "complete")

    monkeypatch.setattr(SplitWindowTraining, "train", train)
    return tried


class TestSearches:
    OVER = ("learning-rate=1e-5:1e-1:log", "epochs=2:5", "minibatch-size=1024,2048")

    def test_an_interrupted_search_goes_on_as_if_it_had_not_been(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        pytest.importorskip("optuna")
        fake(monkeypatch)
        told: list[Trial] = []
        at_once = SMALL.tune(tmp_path / "a", 15, over=self.OVER, report=told.append)
        assert told == list(at_once.trials)
        assert at_once.best.found == min(one.found for one in at_once.trials if one.found is not None)
        refused = [one for one in at_once.trials if one.refused]
        assert refused
        assert all(one.values["epochs"] == 5 and one.found is None for one in refused)
        for stop_at in (2, 9):
            fake(monkeypatch, stop_at)
            with pytest.raises(KeyboardInterrupt):
                SMALL.tune(tmp_path / "b", 15, over=self.OVER)
        fake(monkeypatch)
        assert SMALL.tune(tmp_path / "b", 4, over=self.OVER).trials == at_once.trials[:4]
        assert SMALL.tune(tmp_path / "b", 15, over=self.OVER) == at_once
        other = replace(SMALL, training=replace(SMALL.training, seed=4))
        assert other.tune(tmp_path / "c", 2, over=self.OVER).trials != at_once.trials[:2]
        with pytest.raises(InvalidConfiguration, match="b holds another search: over: got"):
            SMALL.tune(tmp_path / "b", 2, over=self.OVER[:1])

    def test_proposals_are_better_than_chance(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        pytest.importorskip("optuna")
        fake(monkeypatch)
        found = SMALL.tune(tmp_path, 40, over=self.OVER[:1])
        costs = [one.found or 0.0 for one in found.trials]
        assert np.mean(costs[20:]) < 0.6 * np.mean(costs[:10])
        assert found.best.found is not None
        assert found.best.found < 0.5

    def test_several_seeds_count_by_their_mean(self, tmp_path: Path) -> None:
        pytest.importorskip("optuna")
        found = SMALL.tune(tmp_path, 1, over=("entropy-coef=0:0.1",), seeds=2)
        trained = with_values(SMALL, found.best.values).train_seeds(tmp_path / "trial-0", 2)
        assert found.best.found == trained.final.mean

    def test_the_command_line_searches(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        pytest.importorskip("optuna")
        search = [
            "tune",
            *COMMAND,
            "--trials",
            "2",
            "--over",
            "entropy-coef=0:0.1",
            "epochs=1,2",
            "--out",
            str(tmp_path),
        ]
        assert main(search) == 0
        out, err = capsys.readouterr()
        assert err.count("trial ") == 2
        assert "best: trial " in out
        best = json.loads((tmp_path / "best.json").read_text())
        assert out.splitlines()[-1] == best["command"]
        assert len((tmp_path / "trials.csv").read_text().splitlines()) == 3
        assert main([*search, "--json"]) == 0
        out, err = capsys.readouterr()
        assert json.loads(out)["command"] == best["command"]
        assert err == ""
        assert main(["tune", "--out", str(tmp_path)]) == 2
        assert "PROBLEM is missing: try desim tune batch" in capsys.readouterr().err

    def test_without_optuna_it_is_told_what_to_install(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "optuna", None)
        with pytest.raises(MissingDependency, match=r"pip install 'desim\[tune\]'"):
            SMALL.tune(tmp_path, 1)

    def test_a_search_without_a_trial_that_ended_has_no_best(self) -> None:
        with pytest.raises(InvalidConfiguration, match="no trial has a result: too small"):
            _ = Tuned("cost", False, (Trial(0, {"epochs": 1}, None, "too small"),), "complete").best


def test_searching_loads_optuna_only_when_it_is_asked_for() -> None:
    assert "optuna" not in vars(module)
