"""Learning curves: what model cards say, and when a training was long enough for a verdict."""

from __future__ import annotations

from typing import Any

import pytest

from desim.agents.learning.pretrained import read_card
from desim.experiments import learning_curves
from desim.experiments.dbf.figure3 import Figure3
from desim.experiments.frame import Choice, Frame
from desim.experiments.lachesis.figure6 import Figure6
from desim.experiments.learning_curves import COLUMN, Curve, curves_of, is_flat, perform
from desim.experiments.osdec.figure4 import Figure4
from desim.experiments.study import Study
from desim.sweep import Run


@pytest.mark.parametrize("kind", [Figure3, Figure4, Figure6])
def test_curves_are_those_of_the_cards(kind: type[Study]) -> None:
    study: Any = kind()
    for panel in study.panels():
        for column, row, choice in panel.cells():
            run = Run(panel.columns[column], choice, 0)
            outcome = perform(run)
            agent, _, weights = choice.policy.partition(":")
            history = read_card(weights, agent)["history"]
            metric = run.setting.metric
            values = [entry["validation"][metric] for entry in history]
            assert outcome["evaluations"] == len(history) > 1, row
            assert (outcome["first"], outcome["last"]) == (values[0], values[-1])
            assert (outcome["lowest"], outcome["highest"]) == (min(values), max(values))
            assert outcome["decisions"] == history[-1]["steps"] > 0
            assert outcome["decisions"] > outcome["episodes"] > 0
            for name, points in outcome["by episode"].items():
                assert list(points) == sorted(points)
                assert points or "value_loss" in name
                assert all(count <= outcome["episodes"] for count in points)
                if points:
                    seen = list(points.values())
                    assert outcome[f"{name}, first"] == seen[0]
                    assert min(seen) <= outcome[f"{name}, last quarter"] <= max(seen)


def curve(values: list[float], monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    history = [
        {"steps": 100 * at, "seconds": 2.0 * at, "validation": {"wait": value}} | ({"episodes": 4} if at else {})
        for at, value in enumerate(values)
    ]
    card = {"history": history, "training": {"training": {"whole_episodes": False, "num_envs": 2}}}
    monkeypatch.setattr(learning_curves, "read_card", lambda name, agent: card)
    return perform(Run(Curve("wait", ("validation/wait",)), Choice("dbf:any"), 0))


def test_all_trainings_of_an_agent_have_to_be_flat(monkeypatch: pytest.MonkeyPatch) -> None:
    def verdict(*trainings: list[float]) -> tuple[bool, str]:
        rows = {f"dbf, seed {seed}" if seed else "dbf": values for seed, values in enumerate(trainings)}
        rows["other"] = [1.0, 2.0]
        return is_flat(
            Frame.of({("DBF", COLUMN, row, 0): curve(values, monkeypatch) for row, values in rows.items()}),
            "DBF",
            "dbf",
            5.0,
        )

    flat, rising = [9.0] * 24, [9.0] * 15 + [9.9] * 5
    assert verdict(flat, flat[:20]) == (
        True,
        "2 trainings of 76 to 92 episodes, 1,900 to 2,300 decisions: flat, the last quarter +0.0, +0.0 % from the one "
        "before",
    )
    assert verdict(flat[:20], rising) == (
        False,
        "2 trainings of 76 episodes, 1,900 decisions: not flat, the last quarter +0.0, +10.0 % from the one before",
    )
    found, sentence = verdict(flat[:19], flat, flat)
    assert not found
    assert sentence.endswith("decisions: 19 to 24 validations, too few")


def test_a_training_is_flat_or_not(monkeypatch: pytest.MonkeyPatch) -> None:
    rising = curve([10.0, 20, 30, 40, 50, 60, 70, 80], monkeypatch)
    assert (rising["decisions"], rising["seconds"], rising["episodes"], rising["evaluations"]) == (700, 14, 28, 8)
    assert rising["change"] == pytest.approx(100 * (75 - 55) / 55)
    assert rising["by episode"]["validation/wait"][12] == 40
    assert curve([0.0, 10, 20, 30, 30, 40, 40, 40], monkeypatch)["change"] == pytest.approx(100 * (40 - 35) / 35)
    assert curve([5.0], monkeypatch)["change"] == 0

    def verdict(values: list[float]) -> tuple[bool, str]:
        frame = Frame.of({("DBF", COLUMN, "dbf", 0): curve(values, monkeypatch)})
        assert curves_of("DBF") in frame.panels
        return is_flat(frame, "DBF", "dbf", 5.0)

    assert verdict([9.0] * 19) == (False, "72 episodes, 1,800 decisions: 19 validations, too few")
    flat, sentence = verdict([9.0] * 20)
    assert flat
    assert sentence == "76 episodes, 1,900 decisions: flat, the last quarter +0.0 % from the one before"
    is_there, sentence = verdict([9.0] * 15 + [6.0] * 5)
    assert not is_there
    assert "not flat, the last quarter -33.3 %" in sentence
    assert is_flat(None, "DBF", "dbf", 5.0) == is_flat(Frame.of({}), "DBF", "dbf", 5.0) == (False, "no learning curve")
