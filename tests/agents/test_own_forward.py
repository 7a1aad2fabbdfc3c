"""Networks that compute in a way of their own are asked themselves: no copy in NumPy of their parent stands in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")

from score_cases import drawn_arrays  # noqa: E402
from torch import nn  # noqa: E402

from desim import simulate  # noqa: E402
from desim.agents.batch.split_window import SplitWindowAgent, SplitWindowConfig, WindowScorer  # noqa: E402
from desim.agents.dag.graph_agent import CustomGraphAgent, GraphAgent, GraphConfig  # noqa: E402
from desim.agents.dag.graph_policy import GraphPolicy, NodeEmbedding  # noqa: E402
from desim.agents.deferrable.score_agent import InTorch, ScoreConfig, scores_of  # noqa: E402
from desim.agents.deferrable.score_policy import AttentionPolicy, FixedLengthPolicy  # noqa: E402
from desim.agents.learning.policy import NumpyMLP, mlp  # noqa: E402
from desim.exceptions import InvalidConfiguration  # noqa: E402
from desim.problems.batch import BatchCluster  # noqa: E402
from desim.problems.dag import DagCluster, Executors, Job  # noqa: E402
from desim.workloads import lublin  # noqa: E402


class AskedError(Exception):
    """The network was asked."""


def refuse(*arguments: Any, **options: Any) -> Any:
    raise AskedError


def mine(kind: type[Any], method: str = "forward") -> type[Any]:
    """Return a subclass with a method of its own."""
    return type("Mine", (kind,), {method: refuse})


def softer(policy: Any) -> None:
    policy.layers[0].activation = torch.nn.functional.gelu


SMALL = ScoreConfig(max_jobs=4, width=8)
ATTENTION_METHODS = ("forward", "context", "encode", "tokens", "_spread")


def attention(kind: type[Any] = AttentionPolicy) -> Any:
    return kind(SMALL.encoder(), np.random.default_rng(0), "both", 8, 1)


def fixed(kind: type[Any] = FixedLengthPolicy) -> Any:
    return kind(SMALL.encoder(), np.random.default_rng(0), "both", 8)


@pytest.mark.parametrize(
    "make",
    [
        *(lambda name=name: attention(mine(AttentionPolicy, name)) for name in ATTENTION_METHODS),
        *(lambda name=name: fixed(mine(FixedLengthPolicy, name)) for name in ("forward", "context")),
    ],
)
def test_a_network_that_scores_jobs_in_its_own_way_is_asked(make: Callable[[], Any]) -> None:
    seen = drawn_arrays(SMALL.encoder(), np.random.default_rng(1), 3, 2)
    with pytest.raises(AskedError):
        scores_of(make())(seen)


def test_parts_may_compute_in_their_own_way(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = drawn_arrays(SMALL.encoder(), np.random.default_rng(1), 3, 2)
    changed = [attention() for _ in range(6)]
    changed[0].score[0] = mine(nn.Linear)(8, 8)
    changed[1].auxiliary.shared = mine(nn.Linear)(32, 5)
    changed[2].forward = refuse
    changed[3].auxiliary.vectors = refuse
    changed[4].of_current.register_forward_hook(refuse)
    changed[5].score[1].register_forward_pre_hook(refuse)
    for policy in changed:
        assert isinstance(scores_of(policy), InTorch)
    softer(policy := attention())
    rounded = scores_of(policy)(seen)
    with torch.inference_mode():
        met = {name: torch.from_numpy(array[None].astype(np.float32)) for name, array in seen.items()}
        wanted = policy.eval()(met)[0].mode()[0].numpy()
    np.testing.assert_allclose(rounded, wanted, rtol=1e-4, atol=1e-5)
    assert np.abs(scores_of(attention())(seen) - rounded).max() > 1e-5


def test_a_subclass_that_computes_like_its_parent_is_copied() -> None:
    for make, kind in ((attention, AttentionPolicy), (fixed, FixedLengthPolicy)):
        alike = type("Alike", (kind,), {"rates": lambda self: {}})
        assert type(scores_of(make(alike))) is type(scores_of(make())) is not InTorch


def test_a_reference_in_a_card_leads_to_a_network_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_scoring_net.py").write_text(
        "from desim.agents.deferrable.score_agent import ScoreConfig\n"
        "from desim.agents.deferrable.score_policy import AttentionPolicy\n"
        "class Mine(AttentionPolicy):\n"
        "    def __init__(self, observation_space, action_space, rng):\n"
        "        super().__init__(ScoreConfig(max_jobs=4, width=8).encoder(), rng, 'none', 8, 1)\n"
        "    def forward(self, observations):\n"
        "        raise ZeroDivisionError\n"
    )
    monkeypatch.chdir(tmp_path)
    config = ScoreConfig(max_jobs=4, width=8, network="own_scoring_net:Mine")
    with pytest.raises(ZeroDivisionError):
        scores_of(config.policy(np.random.default_rng(0)))(
            drawn_arrays(config.encoder(), np.random.default_rng(1), 3, 2)
        )


GRAPH_METHODS = ("forward", "_scores", "_embed", "_recall", "_embedded")


class OwnEmbedding(NodeEmbedding):
    """An embedding with messages of its own."""

    def message(self, x_j: torch.Tensor, known: torch.Tensor) -> torch.Tensor:
        """Refuse."""
        raise AskedError


def small_dags() -> DagCluster:
    job = Job(1, [1.0, 2.0, 3.0], [(0, 1, 1.0), (0, 2, 1.0)])
    return DagCluster([job, job.submitted(0.0, job_id=2)], Executors([1.0, 2.0], 1.0))


@pytest.mark.parametrize("method", GRAPH_METHODS)
def test_a_graph_network_that_computes_in_its_own_way_is_asked(method: str) -> None:
    policy = mine(GraphPolicy, method)("messages", np.random.default_rng(0))
    agent = GraphAgent.of(GraphConfig(), policy, name="mine")
    if method == "_embed":  # which is for learning
        assert isinstance(agent, CustomGraphAgent)
        return
    with pytest.raises(AskedError):
        simulate(small_dags(), agent)
    with pytest.raises(InvalidConfiguration, match="policy: got Mine, which overrides GraphPolicy's computation"):
        GraphAgent(policy, GraphConfig())


def test_so_is_one_with_an_embedding_of_its_own() -> None:
    rng = np.random.default_rng(0)
    policy = GraphPolicy("messages", rng)
    assert isinstance(GraphAgent.of(GraphConfig(), policy, name="usual"), GraphAgent)
    policy.embedding = OwnEmbedding("messages", policy.embedding.prepare[0].in_features, policy.width, rng)
    with pytest.raises(AskedError):
        simulate(small_dags(), GraphAgent.of(GraphConfig(), policy, name="mine"))


def test_a_window_network_that_computes_in_its_own_way_is_asked() -> None:
    jobs = lublin.generate(20, 16, seed=0, load=1.0)
    policy = mine(WindowScorer)(np.random.default_rng(0))
    with pytest.raises(AskedError):
        simulate(BatchCluster(jobs, 16), SplitWindowAgent(policy, SplitWindowConfig(head=4, tail=4)))


def test_so_is_one_whose_parts_do_and_one_of_its_object() -> None:
    for part in ("job_score", "wait_score"):
        policy = WindowScorer(np.random.default_rng(0))
        getattr(policy, part)[0].forward = refuse
        agent = SplitWindowAgent(policy, SplitWindowConfig(head=4, tail=4))
        assert agent._choose is None, part
    policy = WindowScorer(np.random.default_rng(0))
    policy.forward = refuse  # type: ignore[method-assign]
    with pytest.raises(AskedError):
        simulate(
            BatchCluster(lublin.generate(20, 16, seed=0, load=1.0), 16),
            SplitWindowAgent(policy, SplitWindowConfig(head=4, tail=4)),
        )


def test_which_layers_can_be_copied() -> None:
    assert NumpyMLP.can_copy(mlp([3, 4, 2], nn.ReLU)) and NumpyMLP.can_copy(mlp([3, 2]))
    assert NumpyMLP.can_copy(nn.Sequential(nn.Linear(3, 4), nn.LeakyReLU(0.1), nn.Linear(4, 2)))
    for other in (
        mlp([3, 4, 2], nn.GELU),
        nn.Linear(3, 2),
        nn.Sequential(nn.Linear(3, 4), nn.Tanh()),
        nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2)),
        nn.Sequential(nn.Linear(3, 4, bias=False), nn.Tanh(), nn.Linear(4, 2)),
        nn.Sequential(nn.Linear(3, 4), nn.LeakyReLU(0.1), nn.Linear(4, 4), nn.LeakyReLU(0.2), nn.Linear(4, 2)),
        nn.Sequential(nn.Linear(3, 4), mine(nn.Tanh)(), nn.Linear(4, 2)),
    ):
        assert not NumpyMLP.can_copy(other)
