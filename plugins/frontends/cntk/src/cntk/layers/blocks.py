"""Basic blocks: cells of recurrent networks, the stabilizer, placeholders that are resolved later."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from cntk_builder_python.formulas import gru_step, lstm_step, rnn_step

from cntk._inherited import inherit
from cntk.default_options import default_override_or
from cntk.initializer import glorot_uniform
from cntk.layers._options import as_tuple, first_values, optional
from cntk.ops import alias, combine, placeholder, sigmoid, softplus, tanh, times
from cntk.ops.functions import BlockFunction, Function
from cntk.variables import INFERRED, Constant, Parameter, Variable

_INFERRED = (INFERRED,)
_NAMES = {"B": "b", "Wmr": "P"}
_STABILIZERS = {"Sdh": "dh_stabilizer", "Sdc": "dc_stabilizer", "Sct": "c_stabilizer", "Sht": "P_stabilizer"}


def UntestedBranchError(name: str) -> None:
    """Raise NotImplementedError."""
    raise NotImplementedError(f"Untested code branch: {name}")


def get_initial_state_or_default(initial_state: Any) -> Any:
    """Return an initial state as a variable: numbers become constants."""
    if isinstance(initial_state, tuple):
        return tuple(get_initial_state_or_default(each) for each in initial_state)
    if initial_state is None:
        return Constant(0)
    if np.isscalar(initial_state):
        return Constant(initial_state, shape=(1,))
    return initial_state


def inject_name(f: Any, name: str) -> Any:
    """Return a function with a name, if there is one."""
    if not name:
        return f
    function = f if isinstance(f, Function) else Function(f)
    if len(function.outputs) == 1:
        return alias(function, name=name)
    return combine(list(function.outputs), name=name)


class _Forward(Variable):
    """A placeholder that is resolved later."""

    def resolve_to(self, var: Any) -> None:
        """Say what it stands for."""
        from cntk.internal import variable_of

        found = variable_of(var)
        assert found.owner is not None
        found.owner.replace_placeholders({self: found})


def ForwardDeclaration(name: str = "forward_declaration") -> Variable:
    """Return a placeholder with a method ``resolve_to`` that says what it stands for."""
    from cntk.variables import PLACEHOLDER

    return _Forward._made(PLACEHOLDER, None, None, None, name=name)


def _identity(keep: Any) -> Function:
    return combine([keep])


identity = Function(_identity)
"""The function that gives what it is given."""


@optional
def Stabilizer(
    steepness: float = 4,
    enable_self_stabilization: Any = default_override_or(True),  # noqa: B008
    name: str = "",
) -> Function:
    """A learned factor above 0, which begins at 1 (Ghahremani and Droppo, ICASSP 2016).

    Args:
        steepness: of the softplus of the factor.
        enable_self_stabilization: otherwise nothing is done.
        name: of the user.
    """
    if not enable_self_stabilization:
        return identity  # type: ignore[no-any-return]
    first = np.log(np.exp(steepness) - 1) / steepness
    param = Parameter((), init=first, name="alpha")
    beta = softplus(param, steepness=steepness)
    return BlockFunction("Stabilizer", name)(lambda x: beta * x)


class _Cell:
    """The parameters of a cell, for the formulas that all layers share.

    Args:
        gates: how many times as wide as the cell its products are.
        shape: width of the output.
        cell_shape: width inside; None is that of the output.
        how: ``activation``, ``init``, ``init_bias``, ``enable_self_stabilization``, ``use_peepholes``.

    Raises:
        ValueError: a shape is no vector.
    """

    def __init__(self, kind: str, gates: int, shape: Any, cell_shape: Any, how: dict[str, Any]) -> None:
        outer = as_tuple(shape)
        inner = outer if cell_shape is None else as_tuple(cell_shape)
        if len(outer) != 1 or len(inner) != 1:
            raise ValueError(f"{kind}: shape and cell_shape must be vectors (rank-1 tensors)")
        self.cell_units = width = int(inner[0])
        self.activation = how["activation"]
        self.projects = cell_shape is not None
        by_state = 2 if kind == "GRU" else gates
        init, bias = first_values(how["init"]), first_values(how["init_bias"])
        shapes: dict[str, tuple[int, ...]] = {
            "B": (gates * width,), "W": (*_INFERRED, gates * width), "H": (*outer, by_state * width),
        }  # fmt: skip
        if kind == "GRU":
            shapes["H1"] = (*outer, width)
        if how["use_peepholes"]:
            shapes.update({"Ci": inner, "Cf": inner, "Co": inner})
        if self.projects:
            shapes["Wmr"] = (*inner, *outer)
        self.parameters = {
            key: Parameter(dims, init=bias if key == "B" else init, name=_NAMES.get(key, key))
            for key, dims in shapes.items()
        }
        stable = how["enable_self_stabilization"]
        self.stabilizers = {
            key: Stabilizer(enable_self_stabilization=stable, name=name) for key, name in _STABILIZERS.items()
        }

    def weight(self, x: Any, key: str) -> Any:
        """Return a parameter."""
        return self.parameters[key]

    def peephole(self, x: Any, key: str) -> Any:
        """Return the weights with which a gate sees the cell, None if it does not."""
        return self.parameters.get(key)

    def part(self, x: Any, number: int) -> Any:
        """Return the elements of a gate: they are on the last axis, also where steps are no vectors."""
        return x[..., number * self.cell_units : (number + 1) * self.cell_units]

    def stabilized(self, x: Any, key: str) -> Any:
        """Return x, perhaps times a learned factor."""
        made = self.stabilizers[key]
        return x if made is identity else made(x)

    def sigmoid(self, x: Any) -> Any:
        """Return the activation of gates."""
        return sigmoid(x)

    def named(self, x: Any, key: str) -> Any:
        """Return x, which has no name."""
        return x

    def projected(self, h: Any) -> Any:
        """Return h, perhaps made narrower."""
        return times(self.stabilized(h, "Sht"), self.parameters["Wmr"]) if self.projects else h


@optional
def LSTM(
    shape: Any,
    cell_shape: Any = None,
    activation: Any = default_override_or(tanh),  # noqa: B008
    use_peepholes: Any = default_override_or(False),  # noqa: B008
    init: Any = default_override_or(glorot_uniform()),  # noqa: B008
    init_bias: Any = default_override_or(0),  # noqa: B008
    enable_self_stabilization: Any = default_override_or(False),  # noqa: B008
    name: str = "",
) -> Function:
    """Long short-term memory: a function of the last h and c and the input, to be given to ``Recurrence``.

    Args:
        shape: width of h.
        cell_shape: width of c, if h is made of something wider.
        activation: of the candidate and of c.
        use_peepholes: gates see the cell.
        init: how weights start.
        init_bias: how biases start.
        enable_self_stabilization: a :func:`Stabilizer` before each product.
        name: of the user.
    """
    cell = _Cell("LSTM", 4, shape, cell_shape, locals())

    def lstm(dh: Any, dc: Any, x: Any) -> tuple[Any, Any]:
        h, c = lstm_step(cell, dh, dc, x)
        return cell.projected(h), c

    return BlockFunction("LSTM", name)(lstm)


def _rnn(shape: Any, cell_shape: Any, how: dict[str, Any], name: str) -> Function:
    cell = _Cell("RNNStep", 1, shape, cell_shape, how)

    def rnn_unit(dh: Any, x: Any) -> Any:
        return cell.projected(rnn_step(cell, dh, x))

    return BlockFunction("RNNStep", name)(rnn_unit)


@optional
def RNNStep(
    shape: Any,
    cell_shape: Any = None,
    activation: Any = default_override_or(sigmoid),  # noqa: B008
    init: Any = default_override_or(glorot_uniform()),  # noqa: B008
    init_bias: Any = default_override_or(0),  # noqa: B008
    enable_self_stabilization: Any = default_override_or(False),  # noqa: B008
    name: str = "",
) -> Function:
    """A plain recurrence: a function of the last h and the input; arguments as of :func:`LSTM`."""
    return _rnn(shape, cell_shape, {**locals(), "use_peepholes": False}, name)


@optional
def RNNUnit(
    shape: Any,
    cell_shape: Any = None,
    activation: Any = default_override_or(sigmoid),  # noqa: B008
    init: Any = default_override_or(glorot_uniform()),  # noqa: B008
    init_bias: Any = default_override_or(0),  # noqa: B008
    enable_self_stabilization: Any = default_override_or(False),  # noqa: B008
    name: str = "",
) -> Function:
    """The earlier name of :func:`RNNStep`."""
    warnings.warn("This name will be removed in future versions. Please use RNNStep(...) instead", DeprecationWarning,
                  stacklevel=3)  # fmt: skip
    return _rnn(shape, cell_shape, {**locals(), "use_peepholes": False}, name)


@optional
def GRU(
    shape: Any,
    cell_shape: Any = None,
    activation: Any = default_override_or(tanh),  # noqa: B008
    init: Any = default_override_or(glorot_uniform()),  # noqa: B008
    init_bias: Any = default_override_or(0),  # noqa: B008
    enable_self_stabilization: Any = default_override_or(False),  # noqa: B008
    name: str = "",
) -> Function:
    """A gated recurrent unit: a function of the last h and the input; arguments as of :func:`LSTM`."""
    cell = _Cell("GRU", 3, shape, cell_shape, {**locals(), "use_peepholes": False})

    def gru(dh: Any, x: Any) -> Any:
        return cell.projected(gru_step(cell, dh, x))

    return BlockFunction("GRU", name)(gru)


Step = Callable[..., Any]

__all__ = [
    "GRU",
    "LSTM",
    "BlockFunction",
    "ForwardDeclaration",
    "RNNStep",
    "RNNUnit",
    "Stabilizer",
    "UntestedBranchError",
    "identity",
    "placeholder",
]

inherit(__name__)
