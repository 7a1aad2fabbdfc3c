"""Copies of networks in NumPy give what torch gives."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from desim.agents.learning.numpy_mlp import NumpyMLP
from desim.agents.learning.policy import initialized, mlp
from desim.exceptions import InvalidConfiguration


@pytest.mark.parametrize("unit", [nn.Tanh, nn.ReLU, nn.LeakyReLU])
@pytest.mark.parametrize("sizes", [[3, 2], [5, 8, 1], [4, 16, 8, 3]])
def test_outputs_are_those_of_torch(unit: type[nn.Module], sizes: list[int]) -> None:
    rng = np.random.default_rng(1)
    network = initialized(mlp(sizes, unit), rng)
    with torch.no_grad():
        network[0].bias.normal_(generator=torch.Generator().manual_seed(2))
    copy = NumpyMLP(network)
    for shape in ((sizes[0],), (7, sizes[0]), (0, sizes[0])):
        inputs = rng.normal(size=shape).astype(np.float32)
        with torch.inference_mode():
            wanted = network(torch.from_numpy(inputs)).numpy()
        found = copy(inputs)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_a_copy_does_not_follow_the_network() -> None:
    network = mlp([2, 3, 1])
    copy = NumpyMLP(network)
    before = copy(np.ones(2, np.float32))
    with torch.no_grad():
        network[-1].weight.zero_()
    assert (copy(np.ones(2, np.float32)) == before).all()


def test_other_units_are_refused() -> None:
    with pytest.raises(InvalidConfiguration, match="no copy of GELU in NumPy"):
        NumpyMLP(mlp([2, 3, 1], nn.GELU))
