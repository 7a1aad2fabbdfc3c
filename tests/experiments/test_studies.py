"""Every study of every paper is carried out by the tests of its paper, in a size of seconds; this is openb's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from desim import plugins
from desim.experiments.drawing import readable_names
from desim.experiments.frame import FRAME_FILE, Frame
from desim.experiments.openb.simulate import made, thinned
from desim.experiments.report_blocks import Drawing, Table, with_interval
from desim.experiments.study import Account, Study, carry_out
from desim.sweep import Workers

FAMILIES: dict[str, Any] = plugins.experiment_families()


@pytest.fixture(scope="module")
def allocation(tmp_path_factory: pytest.TempPathFactory) -> Study:
    """Return the study of openb on made-up nodes and pods, carried out."""
    out = tmp_path_factory.mktemp("openb") / "allocation"
    study: Study = FAMILIES["openb"].study("allocation")(quick=True, seeds=2, workers=Workers(1), out=out)
    assert carry_out(study) == 0
    return study


def test_files_and_account_tell_what_was_shown(allocation: Study) -> None:
    account = Account.read(allocation.directory)
    assert (account.name, account.error, account.is_reduced) == ("allocation", "", True)
    drawings = [block.file for block in account.blocks if isinstance(block, Drawing)]
    files = {path.name for path in allocation.directory.iterdir()}
    assert files == {"account.json", FRAME_FILE, *drawings}
    for file in drawings:
        assert (allocation.directory / file).read_bytes()[:4] == b"\x89PNG"


def test_a_cell_of_a_table_is_the_mean_with_its_interval(allocation: Study) -> None:
    frame = Frame.read(allocation.directory / FRAME_FILE)
    tables = [block for block in Account.read(allocation.directory).blocks if isinstance(block, Table)]
    metrics = ("allocated_at_100", "allocated_at_130", "dropped")
    for table, metric in zip(tables, metrics, strict=True):
        for row in table.cells:
            for column, cell in zip(table.heads[1:], row[1:], strict=True):
                assert cell.text == with_interval(frame.estimate("allocation", column, row[0].text, metric))


def test_curves_end_with_what_is_in_use(allocation: Study) -> None:
    frame = Frame.read(allocation.directory / FRAME_FILE)
    (curves,) = (panel for panel in frame.panels if panel.endswith(" by percent requested"))
    last = [point for point in frame.columns(curves) if frame.has(curves, point, "FGD", "unused")][-1]
    assert 120 <= int(last) <= 130
    used = 100.0 - frame.values(curves, last, "FGD", "unused")
    assert used.mean() == pytest.approx(
        frame.estimate("allocation", "made-up", "FGD", "allocated_at_130").mean, abs=0.5
    )


def test_fewer_nodes_still_have_every_model() -> None:
    nodes, _ = made(40, np.random.default_rng(0))
    few = thinned(nodes, 10)
    assert {node.gpu_model for node in few} == {node.gpu_model for node in nodes}
    assert len(few) <= 6
    assert few == [node for node in nodes if node in few]


# -- drawing ----------------------------------------------------------------------------------------


def test_names_of_marks_that_would_touch_are_blank_and_the_last_one_stays() -> None:
    numbers = ["1", "2", "4", "6", "8", "10", "12", "14", "16", "18", "20"]
    assert readable_names(np.arange(11.0), numbers, 0.1) == numbers
    logarithms = np.log([float(number) for number in numbers])
    assert readable_names(logarithms, numbers, 0.085) == ["1", "2", "4", "6", "8", "", "12", "", "", "", "20"]
    assert readable_names(np.array([0.0, 0.2, 3.0, 8.0]), ["0", "0.2", "3", "8"], 0.085) == ["0", "", "3", "8"]
