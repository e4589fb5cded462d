"""Low-rank approximation of parameters: W becomes U * V, of fewer numbers (Xue, Li and Gong, Interspeech 2013).

A matrix W [m x n] is replaced by U [m x r] and V [r x n], each with the square roots of the r largest singular values.
Where W is the left operand of a product, ``W * x`` becomes ``U * (V * x)``; anywhere else a product U * V takes its
place.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.errors import NetworkError
from cntk_core.network.network import Network
from cntk_core.network.node import Node, Parameter
from cntk_core.ops.families.products import TIMES
from cntk_core.ops.language.shapes import elements
from cntk_kit_builders.carry import take_in

MATRICES = ("_U", "_V")
"""What the names of the two factors end in."""

PRODUCT = "_SVD"
"""What the name of the new product ends in."""


@attrs.frozen
class Reduction:
    """What was done with a parameter.

    Attributes:
        name: of the parameter.
        rows, columns: m and n.
        rank: r.
        keep_ratio: the share of the sum of the singular values that was asked for.
        seconds: time of the decomposition.
    """

    name: str
    rows: int
    columns: int
    rank: int
    keep_ratio: float
    seconds: float

    @property
    def share(self) -> float:
        """Numbers in U and V for each number in W."""
        return (self.rows + self.columns) * self.rank / (self.rows * self.columns)


def matrices(network: Network, pattern: str) -> list[Parameter]:
    """Return the parameters whose whole name matches and that are matrices, by name (case does not count).

    An empty pattern matches all.

    Raises:
        re.error: it is no regular expression.
    """
    wanted = re.compile(pattern or ".*")
    found = [node for node in network.parameters if wanted.fullmatch(node.name) and min(_size(node)) > 1]
    return sorted(found, key=lambda node: node.name.lower())


def _size(parameter: Parameter) -> tuple[int, int]:
    """Rows and columns in CNTK's view: the first dimension, and all others together."""
    shape = parameter.known_shape
    return (shape[-1], elements(shape[:-1])) if shape else (1, 1)


def choose_rank(singular_values: Sequence[float] | NDArray[Any], keep_ratio: float, aligned: int = 1) -> int:
    """Return how many singular values to keep.

    The fewest whose sum is more than ``keep_ratio`` of the sum of all, rounded up to a multiple of ``aligned``, but
    not more than there are. If no number of them is enough (a ratio of 1), all are kept.
    """
    values = np.asarray(singular_values, np.float64)
    enough = np.flatnonzero(np.cumsum(values) > values.sum() * keep_ratio)
    rank = int(enough[0]) + 1 if keep_ratio < 1 and len(enough) else len(values)
    return min(-(-rank // aligned) * aligned, len(values))


def reduce_parameter(network: Network, parameter: Parameter, keep_ratio: float, aligned: int = 1) -> Reduction:
    """Replace a parameter by two factors, wherever it is used.

    Raises:
        NetworkError: it has no value, or the name of a new node is taken.
    """
    if parameter.value is None:
        raise NetworkError(f"the parameter '{parameter.name}' has no value", where=parameter.where)
    rows, columns = _size(parameter)
    begun = time.perf_counter()
    left, singular_values, right = np.linalg.svd(parameter.value.reshape(columns, rows).T, full_matrices=False)
    seconds = time.perf_counter() - begun
    rank = choose_rank(singular_values, keep_ratio, aligned)
    roots = np.sqrt(singular_values[:rank])
    shape, dtype = parameter.known_shape, parameter.value.dtype
    first = (left[:, :rank] * roots).T
    second = (right[:rank] * roots[:, None]).T.reshape(*shape[:-1], rank)
    _replace(
        network,
        parameter,
        _factor(network, parameter, MATRICES[0], np.ascontiguousarray(first, dtype)),
        _factor(network, parameter, MATRICES[1], np.ascontiguousarray(second, dtype)),
    )
    return Reduction(parameter.name, rows, columns, rank, keep_ratio, seconds)


def _factor(network: Network, parameter: Parameter, suffix: str, value: NDArray[Any]) -> Parameter:
    factor = Parameter.make(
        parameter.name + suffix,
        value.shape,
        value=value,
        learning_rate_multiplier=parameter.learning_rate_multiplier,
        where=parameter.where,
    )
    factor.needs_gradient = parameter.needs_gradient
    factor.regularization_multiplier = parameter.regularization_multiplier
    network.add(factor)
    return factor


def _replace(network: Network, parameter: Parameter, first: Parameter, second: Parameter) -> None:
    """Relink all that used the parameter, and take it out of the network."""
    made: dict[Node | None, Node] = {}
    for user in [node for node in network if parameter in node.inputs]:
        inner = user.inputs[1] if _multiplies(user, parameter) else None
        if inner not in made:
            made[inner] = _product(network, parameter, first, second, inner, len(made))
        if inner is None:
            user.inputs = [made[None] if child is parameter else child for child in user.inputs]
        else:
            user.inputs = [first, made[inner]]
            user.attributes = TIMES.attributes()
            take_in(network, made[inner], 1, user, 1)
    for role, group in network.roots.items():
        if parameter in group:
            made.setdefault(None, _product(network, parameter, first, second, None, len(made)))
            network.roots[role] = [made[None] if node is parameter else node for node in group]
    network.remove(parameter)


def _multiplies(user: Node, parameter: Parameter) -> bool:
    """Whether it is ``W * x`` that sums over all of W's dimensions but the first."""
    if user.op is not TIMES or user.inputs[0] is not parameter or user.inputs[1] is parameter:
        return False
    return bool(user.attributes.output_rank == 1)


def _product(
    network: Network, parameter: Parameter, first: Parameter, second: Parameter, inner: Node | None, index: int
) -> Node:
    """``V * x`` if there is an x, otherwise ``U * V``."""
    inputs: list[Node] = [first, second] if inner is None else [second, inner]
    name = parameter.name + PRODUCT + (str(index + 1) if index else "")
    return network.add(Node(name, TIMES, inputs, attributes=TIMES.attributes(), where=parameter.where))


def reduce_network(network: Network, keep_ratios: Mapping[str, float], aligned: int = 1) -> list[list[Reduction]]:
    """Reduce the parameters of several patterns, each with its ratio, and infer the shapes of the new nodes.

    Returns:
        What was done, for each pattern in their order as texts. A parameter belongs to the first pattern that it
        matches.
    """
    groups = [(matrices(network, pattern), ratio) for pattern, ratio in sorted(keep_ratios.items())]
    done: set[Parameter] = set()
    reductions = []
    for group, ratio in groups:
        fresh = [parameter for parameter in group if parameter not in done]
        done.update(fresh)
        reductions.append([reduce_parameter(network, parameter, ratio, aligned) for parameter in fresh])
    network.infer()
    return reductions
