"""Policies of other libraries as agents decide in `simulate` what they decide in the environment."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from typing import Any

import gymnasium
import numpy as np
import pytest

import desim
from desim import simulate
from desim.agents.batch import RolloutAgent
from desim.agents.learning import PolicyAgent
from desim.envs import FlattenArrays, environments
from desim.exceptions import InfeasibleAction, InvalidConfiguration
from desim.problems.batch import BatchCluster
from desim.problems.batch.encoders import JOB_FEATURES, FeatureEncoder, SplitWindow
from desim.workloads import lublin
from tests.envs.env_cases import SMALL
from tests.envs.node_cases import node_settings

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    **{name: (name, SMALL[name]) for name in environments()},
    "nodes": ("desim/Batch-v0", node_settings(num_jobs=25, window=(4, 2))),
    "job-on-node": ("desim/Batch-v0", node_settings(num_jobs=25, window=(4, 2), action="job-on-node")),
    "skip_forced": ("desim/Batch-v0", SMALL["desim/Batch-v0"] | {"skip_forced": True}),
}
"""Environments by what is tried: those of all problems, nodes, and one that asks where there is a choice only."""

WINDOW = SplitWindow(4, 2)
REQUESTED_TIME = JOB_FEATURES.index("requested_time")


def make(case: str, **more: Any) -> Any:
    """Return a small environment without wrappers."""
    name, settings = CASES[case]
    return gymnasium.make(name, **settings | more).unwrapped


def trained(gym_env: Any, kind: str = "MultiInputPolicy") -> Any:
    """Return a model of Stable-Baselines3 that was trained for a moment: MaskablePPO where it can be."""
    if isinstance(gym_env.action_space, gymnasium.spaces.Discrete):
        algorithm = pytest.importorskip("sb3_contrib").MaskablePPO
    else:
        algorithm = pytest.importorskip("stable_baselines3").PPO
    return algorithm(kind, gym_env, n_steps=32, batch_size=32, n_epochs=1, seed=0, device="cpu").learn(64)


def by_hand(model: Any) -> Any:
    """Return what calls a model as its library says."""

    def choose(seen: Any, gym_env: Any) -> Any:
        masks = {"action_masks": gym_env.action_masks()} if "Maskable" in type(model).__name__ else {}
        return model.predict(seen, deterministic=True, **masks)[0]

    return choose


class Noting:
    """An agent that notes the answers of another."""

    def __init__(self, agent: PolicyAgent) -> None:
        self.agent, self.reset = agent, agent.reset
        self.answers: list[Any] = []

    def act(self, observation: Any) -> Any:
        answer = self.agent.act(observation)
        self.answers.append(copy.copy(answer))
        return answer


def assert_same_as_in_the_environment(gym_env: Any, agent: PolicyAgent, choose: Any, seed: int) -> None:
    """Play one episode twice, as a loop over the environment and simulated with the agent: same answers and records."""
    base = gym_env.unwrapped
    problem = base.episodes(gymnasium.utils.seeding.np_random(seed)[0])
    seen, _ = gym_env.reset(seed=seed)
    over, answers = False, []
    while not over:
        action = choose(seen, base)
        answers.append(copy.copy(base.encoder.decode(base.observation, action)[0]))
        seen, _, terminated, truncated, _ = gym_env.step(action)
        over = terminated or truncated
    noting = Noting(agent)
    simulated, result = simulate(problem, noting, seed=base.simulation.seed, until=base.until), base.result()
    asked = [one for one in noting.answers if one is not None] if base.skip_forced else noting.answers
    given = [one for one in answers if one is not None] if base.skip_forced else answers
    assert len(asked) == len(given) > 3
    for ours, theirs in zip(asked, given, strict=True):
        assert np.array_equal(ours, theirs) if isinstance(ours, np.ndarray) else ours == theirs
    assert len(simulated.jobs) > 0
    for name in result.table_names:
        assert simulated.table(name).equals(result.table(name)), name


@pytest.mark.parametrize("case", CASES)
def test_a_trained_model_decides_what_it_decides_in_the_environment(case: str) -> None:
    gym_env = make(case)
    model = trained(gym_env)
    agent = PolicyAgent(gym_env.encoder, model, skip_forced=gym_env.skip_forced)
    for seed in (5, 6):
        assert_same_as_in_the_environment(gym_env, agent, by_hand(model), seed)
    assert agent.policy is model.policy
    of_policy = PolicyAgent(gym_env.encoder, model.policy, skip_forced=gym_env.skip_forced)
    assert_same_as_in_the_environment(gym_env, of_policy, by_hand(model), 7)


@pytest.mark.parametrize(
    ("wrapper", "kind"),
    [(FlattenArrays, "MultiInputPolicy"), (gymnasium.wrappers.FlattenObservation, "MlpPolicy")],
    ids=["FlattenArrays", "FlattenObservation"],
)
@pytest.mark.parametrize("case", ["desim/Batch-v0", "desim/Deferrable-v0"])
def test_models_that_were_trained_on_vectors_are_shown_vectors(case: str, wrapper: Any, kind: str) -> None:
    gym_env = wrapper(make(case))
    model = trained(gym_env, kind)
    assert_same_as_in_the_environment(gym_env, PolicyAgent(gym_env.unwrapped.encoder, model), by_hand(model), 3)


def test_q_values_are_asked_for_without_masks_as_in_the_environment() -> None:
    DQN = pytest.importorskip("stable_baselines3").DQN
    gym_env = make("desim/Batch-v0")
    model = DQN("MultiInputPolicy", gym_env, learning_starts=8, buffer_size=100, seed=0, device="cpu").learn(40)
    assert_same_as_in_the_environment(gym_env, PolicyAgent(gym_env.encoder, model), by_hand(model), 3)


# -- torch modules and functions --------------------------------------------------------------------


def module_for(gym_env: Any, *, as_tuple: bool = False) -> Any:
    """Return a torch module that scores all actions, or answers with an action of a Box, with dropout in it."""
    torch = pytest.importorskip("torch")
    size = gymnasium.spaces.flatdim(gym_env.observation_space)
    outputs = gymnasium.spaces.flatdim(gym_env.action_space)

    class Network(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.layers = torch.nn.Sequential(torch.nn.Linear(size, outputs), torch.nn.Tanh(), torch.nn.Dropout(0.5))

        def forward(self, seen: dict[str, Any]) -> Any:
            out = self.layers(torch.cat([part.flatten(1).float() for part in seen.values()], dim=1))
            return (out, None) if as_tuple else out

    torch.manual_seed(1)
    return Network()


@pytest.mark.parametrize("as_tuple", [False, True])
@pytest.mark.parametrize("case", ["desim/Batch-v0", "desim/Dag-v0", "desim/Deferrable-v0", "desim/MultiServer-v0"])
def test_a_torch_module_gives_scores_or_actions(case: str, as_tuple: bool) -> None:
    torch = pytest.importorskip("torch")
    gym_env = make(case)
    network = module_for(gym_env, as_tuple=as_tuple)
    evaluated = copy.deepcopy(network).eval()

    def choose(seen: Any, gym_env: Any) -> Any:
        out = evaluated({name: torch.as_tensor(part)[None] for name, part in seen.items()})
        values = (out[0] if as_tuple else out).detach().numpy()[0]
        if not isinstance(gym_env.action_space, gymnasium.spaces.Discrete):
            return values.reshape(gym_env.action_space.shape)
        return int(np.where(gym_env.action_masks(), values, -np.inf).argmax())

    assert_same_as_in_the_environment(gym_env, PolicyAgent(gym_env.encoder, network), choose, 4)
    assert network.training  # as it was; while it was asked it was not


def test_a_policy_of_our_own_decides_as_its_agent_does() -> None:
    pytest.importorskip("torch")
    from desim.agents.batch.split_window import SplitWindowAgent, SplitWindowConfig

    config = SplitWindowConfig(head=4, tail=2)
    network = config.policy(np.random.default_rng(3))
    problem = BatchCluster(lublin.generate(150, 32, seed=1, load=1.0), 32)
    agent = PolicyAgent(config.encoder(), network, skip_forced=True)
    assert simulate(problem, agent).jobs.equals(simulate(problem, SplitWindowAgent(network, config)).jobs)
    drawn = [simulate(problem, PolicyAgent(config.encoder(), network, deterministic=False), seed=s) for s in (1, 1, 2)]
    assert drawn[0].jobs.equals(drawn[1].jobs)
    assert not drawn[0].jobs.equals(drawn[2].jobs)


def shortest(seen: dict[str, Any]) -> Any:
    """Score jobs by minus their requested time; to wait comes last."""
    return [*-seen["jobs"][:, REQUESTED_TIME], -100.0]


@pytest.mark.parametrize("as_one", [False, True], ids=["scores", "an action"])
def test_a_function_gives_scores_or_an_action(as_one: bool) -> None:
    gym_env = make("desim/Batch-v0")

    def choose(seen: Any, gym_env: Any = None) -> Any:
        return int(np.where(seen["action_mask"] > 0, shortest(seen), -np.inf).argmax())

    agent = PolicyAgent(gym_env.encoder, choose if as_one else shortest)
    assert_same_as_in_the_environment(gym_env, agent, choose, 4)


def test_an_action_that_is_not_possible_means_waiting_as_in_the_environment() -> None:
    gym_env = make("desim/Batch-v0")
    for action in (np.int64(0), 2, np.array([1])):
        agent = PolicyAgent(gym_env.encoder, lambda seen, action=action: action)
        assert_same_as_in_the_environment(
            gym_env, agent, lambda seen, gym_env, action=action: np.asarray(action).item(), 4
        )


def test_impossible_actions_are_never_drawn() -> None:
    """Scores that are best where nothing is possible, and a cluster that raises for what it cannot start."""
    problem = BatchCluster(lublin.generate(200, 16, seed=1, load=1.2), 16)

    def tempting(seen: Any) -> Any:
        asked.append(seen["action_mask"])
        return [*np.where(seen["action_mask"][:-1] > 0, 0.0, 50.0), -30.0]  # to wait comes last

    asked: list[Any] = []
    encoder = FeatureEncoder(WINDOW)
    agent = PolicyAgent(encoder, tempting, deterministic=False)
    for seed in range(3):
        assert simulate(problem, agent, seed=seed).metrics()["jobs_finished"] == 200
    assert sum(1 < mask.sum() < mask.size for mask in asked) > 100


def test_draws_follow_the_scores() -> None:
    """Frequencies of 20,000 draws lie within four standard errors of the softmax of the scores."""
    agent = PolicyAgent(FeatureEncoder(SplitWindow(3)), lambda seen: np.log([4.0, 3.0, 9.0, 1.0]), deterministic=False)
    rng, mask = np.random.default_rng(0), np.array([1, 1, 0, 1], np.int8)
    draws = [agent._ask({"action_mask": mask}, rng) for _ in range(20_000)]
    for action, share in enumerate([0.5, 0.375, 0.0, 0.125]):
        assert abs(np.mean(np.equal(draws, action)) - share) <= 4 * (share * (1 - share) / 20_000) ** 0.5


@pytest.mark.parametrize("case", ["desim/Batch-v0", "desim/Deferrable-v0"])
def test_draws_of_a_model_depend_on_the_seed_of_the_run_alone(case: str) -> None:
    gym_env = make(case)
    model = trained(gym_env)
    torch = pytest.importorskip("torch")
    problem = gym_env.episodes(np.random.default_rng(1))
    agent = PolicyAgent(gym_env.encoder, model, deterministic=False)
    torch.manual_seed(7)
    state = torch.random.get_rng_state()
    first = simulate(problem, agent, seed=1)
    assert torch.equal(torch.random.get_rng_state(), state)  # others' draws are as without it
    torch.manual_seed(8)
    again, other = simulate(problem, agent, seed=1), simulate(problem, agent, seed=2)
    assert first.jobs.equals(again.jobs)
    assert not first.jobs.equals(other.jobs)


class Counting:
    """What has a memory: it says how many decisions there were, and starts what that says."""

    def predict(self, observation: Any, state: Any = None, episode_start: Any = None, action_masks: Any = None) -> Any:
        count = 0 if episode_start[0] else state + 1
        possible = np.flatnonzero(action_masks)
        return np.array(possible[count % len(possible)]), count


def test_a_memory_goes_on_in_a_run_and_begins_anew_in_the_next() -> None:
    gym_env = make("desim/Batch-v0")
    agent = PolicyAgent(gym_env.encoder, Counting())
    for seed in (1, 2):
        counts = iter(range(10_000))

        def choose(seen: Any, gym_env: Any, counts: Any = counts) -> int:
            possible = np.flatnonzero(seen["action_mask"])
            return int(possible[next(counts) % len(possible)])

        assert_same_as_in_the_environment(gym_env, agent, choose, seed)


# -- where agents go --------------------------------------------------------------------------------


def test_it_can_be_copied_sent_and_looked_ahead_with() -> None:
    gym_env = make("desim/Batch-v0")
    agent = PolicyAgent(gym_env.encoder, trained(gym_env), name="mine")
    problem = BatchCluster(lublin.generate(60, 16, seed=2, load=0.9), 16)
    fresh = copy.deepcopy(agent)  # of a model that has just learned, and holds gradients
    expected = simulate(problem, agent)
    assert expected.info["agent"] == "mine"
    assert repr(agent) == "<PolicyAgent 'mine'>"
    for other in (fresh, copy.deepcopy(agent), pickle.loads(pickle.dumps(agent))):
        assert simulate(problem, other).jobs.equals(expected.jobs)
    ahead = simulate(problem, RolloutAgent(agent, width=2))
    assert ahead.metrics()["jobs_finished"] == 60
    bounded = "bounded_slowdown_mean"
    assert ahead.metrics()[bounded] <= expected.metrics()[bounded]


def test_it_is_compared_like_any_agent(tmp_path: Any, capsys: Any) -> None:
    """Also with stored runs: those of a policy in Python are found again, until its weights change."""
    gym_env = make("desim/Batch-v0")
    model = trained(gym_env)
    agents = {"mine": PolicyAgent(gym_env.encoder, model), "fcfs": "fcfs"}
    options: dict[str, Any] = {"seeds": 2, "cores": 16, "jobs": 40, "load": 0.8, "workers": 2}
    found = desim.compare("batch", agents, **options, out=tmp_path)
    assert set(found.means) == {"mine", "fcfs"}
    assert "4 runs to do, 0 already stored" in capsys.readouterr().err
    simulate(BatchCluster(lublin.generate(9, 16, seed=2), 16), agents["mine"])  # type: ignore[arg-type]
    again = desim.compare("batch", agents, **options, out=tmp_path)
    assert "0 runs to do, 4 already stored" in capsys.readouterr().err
    assert again.runs.drop("reused").equals(found.runs.drop("reused"))
    model.learn(64)
    desim.compare("batch", agents, **options, out=tmp_path)
    assert "2 runs to do, 2 already stored" in capsys.readouterr().err


def test_neither_torch_nor_stable_baselines_is_loaded_for_a_function() -> None:
    code = (
        "import sys\n"
        "from desim import simulate\n"
        "from desim.agents.learning import PolicyAgent\n"
        "from desim.problems.batch import BatchCluster, Job\n"
        "from desim.problems.batch.encoders import FeatureEncoder, SplitWindow\n"
        "jobs = [Job(1, 0.0, 2, 10.0, 10.0)]\n"
        "simulate(BatchCluster(jobs, 2), PolicyAgent(FeatureEncoder(SplitWindow(2)), lambda seen: 0))\n"
        "print(sorted({'torch', 'stable_baselines3', 'sb3_contrib'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


# -- what is mistaken -------------------------------------------------------------------------------


class Trained:
    """What has been trained on something else."""

    def __init__(self, observations: Any, actions: Any = None) -> None:
        self.observation_space, self.action_space = observations, actions

    def predict(self, observation: Any) -> Any:
        raise NotImplementedError


SPACE = FeatureEncoder(WINDOW).observation_space
OTHER = FeatureEncoder(SplitWindow(9)).observation_space


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ("mine.zip", r"policy: got 'mine.zip', expected a Stable-Baselines3 model, a torch module, or a callable"),
        (dict, "policy: got <class 'dict'>, expected a Stable-Baselines3 model"),
        (Trained(OTHER), r"observation space .*jobs \(9, 12\).*, expected the encoder's, .*jobs \(6, 12\)"),
        (
            Trained(gymnasium.spaces.Box(0, 1, (5,))),
            r"observation space of the policy: got shape \(5,\), expected the encoder's",
        ),
        (
            Trained(SPACE, gymnasium.spaces.Discrete(9)),
            r"action space of the policy: got Discrete\(9\), expected the encoder's, Discrete\(7\)",
        ),
    ],
    ids=["a name", "a class", "other observations", "a vector", "other actions"],
)
def test_policies_that_cannot_be_asked_are_named(policy: Any, message: str) -> None:
    with pytest.raises(InvalidConfiguration, match=message):
        PolicyAgent(FeatureEncoder(WINDOW), policy)


def test_what_is_no_encoder_is_named() -> None:
    with pytest.raises(
        InvalidConfiguration, match=r"expected the encoder of an environment, such as gym_env\.unwrapped"
    ):
        PolicyAgent(make("desim/Batch-v0"), shortest)
    for wrong in (FeatureEncoder, "features", None):
        with pytest.raises(InvalidConfiguration, match=r"expected the encoder of an environment$"):
            PolicyAgent(wrong, shortest)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (np.zeros(5), r"answer: got an array of shape \(5,\), expected one of the 7 actions, or a score per action"),
        (1.5, r"answer: got 1\.5, expected one of"),
        (np.nan, "answer: got nan, expected one of"),
        ("left", "answer: got 'left', expected one of"),
        (None, "answer: got None, expected one of"),
        (np.full(7, np.nan), "score of action 0: not a number"),
    ],
    ids=str,
)
def test_answers_that_make_no_sense_are_named(answer: Any, message: str) -> None:
    problem = BatchCluster(lublin.generate(5, 16, seed=0), 16)
    with pytest.raises(InfeasibleAction, match=message):
        simulate(problem, PolicyAgent(FeatureEncoder(WINDOW), lambda seen: answer))


def test_actions_that_do_not_exist_are_named() -> None:
    problem = BatchCluster(lublin.generate(5, 16, seed=0), 16)
    with pytest.raises(InvalidConfiguration, match="action: got 7, expected an integer from 0 to 6"):
        simulate(problem, PolicyAgent(FeatureEncoder(WINDOW), lambda seen: 7))


def test_an_action_of_a_box_has_its_shape_and_is_not_drawn() -> None:
    gym_env = make("desim/MultiServer-v0")
    problem = gym_env.episodes(np.random.default_rng(0))
    with pytest.raises(InfeasibleAction, match=r"answer: got shape \(3,\), expected an action of shape"):
        simulate(problem, PolicyAgent(gym_env.encoder, lambda seen: np.zeros(3)))
    for policy in (shortest, module_for(gym_env)):
        with pytest.raises(InvalidConfiguration, match="deterministic: got False"):
            PolicyAgent(gym_env.encoder, policy, deterministic=False)


def test_draws_need_a_generator() -> None:
    agent = PolicyAgent(FeatureEncoder(WINDOW), shortest, deterministic=False)
    with pytest.raises(InvalidConfiguration, match="call reset"):
        agent.act(None)


def test_an_encoder_of_cores_shows_no_nodes() -> None:
    settings = node_settings()
    problem = BatchCluster(settings["jobs"], nodes=settings["nodes"])
    with pytest.raises(InvalidConfiguration, match="the cluster has nodes"):
        simulate(problem, PolicyAgent(FeatureEncoder(WINDOW), shortest))
