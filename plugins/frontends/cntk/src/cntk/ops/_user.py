"""Functions that users write."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from cntk._graph.primitive import USER, Primitive
from cntk.internal import variable_of
from cntk.ops.functions import Function
from cntk.variables import Variable


class UserFunction(Function):
    """A function that a user writes: a class with ``forward``, ``backward`` and ``infer_outputs``.

    Args:
        inputs: its inputs.
        as_numpy: ``forward`` and ``backward`` are given arrays; otherwise :class:`~cntk.core.Value`.
        attributes: a dictionary that is kept with it.
        name: of the user.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """Begin one."""
        return object.__new__(cls)

    def __init__(
        self, inputs: Any, as_numpy: bool = True, attributes: Mapping[str, Any] | None = None, name: str = ""
    ) -> None:
        variables = [variable_of(each) for each in inputs]
        self._composite, self.as_numpy = False, as_numpy
        self._primitive = Primitive(USER, variables, dict(attributes or {}), name or "", user=self)
        self._primitive.function = self
        self._uid = self._primitive.uid
        self._declared: list[Variable] = []
        self._early = False
        if self._is_known():
            self._declare()

    def _is_known(self) -> bool:
        return all(each._shape is not None for each in self._primitive.inputs)

    def _declare(self) -> None:
        from cntk._graph.infer import make_outputs

        if self._primitive.outputs:
            return
        self._declared = self._said()
        self._early = not self._is_known()
        make_outputs(self._primitive)

    def _said(self) -> list[Variable]:
        """Return what the user says of the outputs.

        Raises:
            RuntimeError: what he has written fails.
        """
        try:
            return list(self.infer_outputs())
        except AttributeError as error:
            raise RuntimeError(f"infer_outputs of {self._op_name()} fails: {error}") from error

    def _place_outputs(self, primitive: Primitive) -> None:
        """Take over what is declared of the outputs, which is said again when the inputs were not known before."""
        if self._early or any(each._shape is None or each._dtype is None for each in self._declared):
            self._declared, self._early = self._said(), False
        for made_, said in zip(primitive.outputs, self._declared, strict=True):
            made_._shape, made_._axes, made_._dtype = said._shape, said._axes, said._dtype
            made_._gradient, made_._name = said._gradient, said.name

    def _copy_for(self, primitive: Primitive) -> UserFunction:
        """Return the function of a copy, which the user's own ``clone`` makes."""
        found: UserFunction = self.clone(primitive.inputs)
        found._primitive = primitive
        primitive.function = found
        found._uid = primitive.uid
        found._declared = found._declared or found._said()
        return found

    @property
    def op_name(self) -> str:
        """Module and name of the class."""
        return type(self)._op_name()

    @classmethod
    def _op_name(cls) -> str:
        return f"{cls.__module__}.{cls.__name__}"

    def forward(self, arguments: Any, outputs: Any = None, *more: Any, **kwargs: Any) -> Any:
        """Return a state and the value of the output; of several, put them into ``outputs`` and return the state."""
        raise NotImplementedError

    def backward(self, state: Any, root_gradients: Any, variables: Any = None, *more: Any) -> Any:
        """Return the gradient by the input; of several, put them into ``variables``."""
        raise NotImplementedError

    def infer_outputs(self) -> list[Variable]:
        """Return what the outputs are: a list of :func:`cntk.output_variable`."""
        raise NotImplementedError("infer_outputs has to be overwritten")

    def clone(self, cloned_inputs: Any) -> Any:  # type: ignore[override]  # as the original has it
        """Return a function of other inputs; by default the class is called with them and the name."""
        kind: Any = type(self)
        return kind(*cloned_inputs, name=self.name)

    def serialize(self) -> dict[str, Any]:
        """Return what a model file keeps of it."""
        return {}

    @staticmethod
    def deserialize(inputs: Any, name: str, state: Mapping[str, Any]) -> Any:
        """Return the function that :meth:`serialize` described."""
        raise NotImplementedError("deserialize has to be overwritten")


def native_user_function(
    op_id: str, operands: Any, attributes: Any = None, user_function_instance_name: str = ""
) -> NoReturn:
    """Raise NotImplementedError: user functions in C++ need the original's library."""
    raise NotImplementedError("user functions in C++ need the original's library; write them in Python or as an op")


def register_native_user_function(op_id: str, module_name: str, factory_method_name: str) -> NoReturn:
    """Raise NotImplementedError: user functions in C++ need the original's library."""
    raise NotImplementedError("user functions in C++ need the original's library; write them in Python or as an op")
