"""Functions: what variables compute, to be called, combined, evaluated, differentiated, saved."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum, unique
from typing import TYPE_CHECKING, Any

from cntk._graph.edit import Copier, clone, make, replace_placeholders
from cntk._graph.errors import GraphError
from cntk._graph.plain import python_value
from cntk._graph.primitive import BLOCK, Primitive, leaves_of, next_uid
from cntk._inherited import inherit
from cntk._members.functions import LibraryFunction
from cntk.internal import variable_of
from cntk.ops._computing import Computed, ModelFormat
from cntk.tensor import TensorOpsMixin
from cntk.variables import Variable, type_text

if TYPE_CHECKING:
    pass


@unique
class CloneMethod(Enum):
    """What becomes of the parameters of a function that is cloned: shared, copied, or copied as constants."""

    share = "share"
    clone = "clone"
    freeze = "freeze"


class Function(LibraryFunction, Computed, TensorOpsMixin):
    """A function of variables; made by operators and layers, or of a Python function: ``@Function``.

    What its only output has (shape, dtype, ...) it has, too.

    Args:
        function: a Python function from variables to variables; annotations are the types of its arguments.
    """

    _primitive: Primitive
    _composite: bool
    _uid: str
    _placeholders_under_construction: set[Variable] = set()  # noqa: RUF012
    _may_rename = False

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """Return the function of a Python function, or begin one."""
        if args and callable(args[0]) and not isinstance(args[0], Function | Variable):
            from cntk._graph.calling import function_of

            return function_of(*args, **kwargs)
        return super().__new__(cls)

    @classmethod
    def _of(cls, primitive: Primitive, *, composite: bool = True) -> Function:
        made = object.__new__(Function)
        made._primitive, made._composite = primitive, composite
        made._uid = next_uid("CompositeFunction") if composite else primitive.uid
        return made

    # -- what it is -----------------------------------------------------------------------------------------

    @property
    def uid(self) -> str:
        """Unique name."""
        return self._uid

    @property
    def name(self) -> str:
        """The name that was given; "" for none."""
        return self._primitive.name

    @name.setter
    def name(self, value: str) -> None:
        if self._primitive.name and not Function._may_rename:
            raise ValueError(f"'{self._primitive.name}' has a name, which cannot be changed")
        self._primitive.name = value
        if len(self.outputs) == 1 and self.outputs[0]._owner is self._primitive:
            self.outputs[0]._name = value

    @property
    def op_name(self) -> str:
        """The name of its operation."""
        return "CompositeFunctionOpName" if self._composite else self._primitive.called

    @property
    def is_composite(self) -> bool:
        """Whether it stands for all that its root function depends on."""
        return self._composite

    @property
    def is_primitive(self) -> bool:
        """Whether it is one operation, or a block."""
        return not self._composite

    @property
    def is_block(self) -> bool:
        """Whether it is a block."""
        return not self._composite and self._primitive.number == BLOCK

    @property
    def root_function(self) -> Function:
        """The primitive function at its end."""
        return primitive_function(self._primitive)

    @property
    def block_root(self) -> Function:
        """What a block is made of.

        Raises:
            ValueError: it is no block.
        """
        return Function._of(self._block().root)

    @property
    def block_arguments_mapping(self) -> list[tuple[Variable, Variable]]:
        """The placeholders inside of a block with what they stand for.

        Raises:
            ValueError: it is no block.
        """
        return list(self._block().arguments.items())

    def _block(self) -> Any:
        if self._primitive.inside is None:
            raise GraphError(f"{self._primitive.called} is no block")
        return self._primitive.inside

    @property
    def attributes(self) -> dict[str, Any]:
        """The attributes of its operation, by the names that files have; a composite has none of its own."""
        if self._composite and self._primitive.number == BLOCK:
            return {}
        found = {key: python_value(value) for key, value in self._primitive.attributes.items()}
        return {**found, "rngOffset": 0} if "rngSeed" in found and "rngOffset" not in found else found

    def set_attribute(self, name: str, value: Any) -> None:
        """Change an attribute of its operation.

        Raises:
            ValueError: it has no such attribute, or its value cannot be changed.
        """
        from cntk._graph.attributes import change

        change(self._primitive, name, value)

    @property
    def custom_attributes(self) -> dict[str, Any]:
        """A dictionary for whatever a program wants to keep with the function; it is saved with it."""
        return self._primitive.custom

    @custom_attributes.setter
    def custom_attributes(self, values: Mapping[str, Any]) -> None:
        self._primitive.custom.clear()
        self._primitive.custom.update(values)

    # -- variables ------------------------------------------------------------------------------------------

    @property
    def outputs(self) -> tuple[Variable, ...]:
        """Its outputs."""
        return tuple(self._primitive.outputs)

    @property
    def output(self) -> Variable:
        """Its only output.

        Raises:
            ValueError: it has several.
        """
        if len(self._primitive.outputs) != 1:
            raise GraphError(f"the function has {len(self._primitive.outputs)} outputs, not one")
        return self._primitive.outputs[0]

    @property
    def inputs(self) -> tuple[Variable, ...]:
        """What it reads: inputs, parameters, constants and placeholders; of a primitive function, outputs of others."""
        if not self._composite:
            return tuple(self._primitive.operands)
        return tuple(self._leaves())

    def _leaves(self) -> list[Variable]:
        return leaves_of([self._primitive])

    @property
    def arguments(self) -> tuple[Variable, ...]:
        """What has to be given to it: inputs and placeholders; of a primitive function, outputs of others, too."""
        return tuple(each for each in self.inputs if not (each.is_parameter or each.is_constant))

    @property
    def parameters(self) -> tuple[Any, ...]:
        """What is learned."""
        found = leaves_of([self._primitive], in_files=True) if self._composite else self._primitive.inputs
        return tuple(each for each in found if each.is_parameter)

    @property
    def constants(self) -> tuple[Any, ...]:
        """The constants that it reads."""
        return tuple(each for each in self.inputs if each.is_constant)

    @property
    def placeholders(self) -> tuple[Variable, ...]:
        """What stands for something that is not known yet."""
        return tuple(each for each in self.inputs if each.is_placeholder)

    @property
    def signature(self) -> tuple[Variable, ...]:
        """Its arguments, but for those of a function that is being made around it."""
        open_ = Function._placeholders_under_construction
        return tuple(each for each in self.arguments if each not in open_)

    @property
    def type(self) -> Any:
        """The type of its only output."""
        return self.output._type

    def __getattr__(self, name: str) -> Any:
        """Return what its only output has.

        Raises:
            AttributeError: there is nothing of this name, or there are several outputs.
        """
        if name.startswith("__") or name in ("_primitive", "_composite"):
            raise AttributeError(name)
        outputs = self._primitive.outputs
        if len(outputs) == 1 and hasattr(type(outputs[0]), name):
            return getattr(outputs[0], name)
        if not name.startswith("_"):
            found = [each for each in self._leaves() if each.name == name] or self.find_all_with_name(name)
            if found:
                return found[0]
        if len(outputs) == 1:
            raise AttributeError(f"'Variable' object has no attribute '{name}'")
        raise AttributeError(f"'Function' object with {len(outputs)} outputs has no attribute '{name}'")

    def __str__(self) -> str:
        called = self._primitive.called if self._primitive.user is None else "UserFunction"
        if self._composite and [each.uid for each in self.inputs] != [
            each.uid for each in self._primitive.operands[: len(self.inputs)]
        ]:
            called = "Composite"

        def told(each: Variable, named: bool) -> str:
            axes = each._axes if each._axes is not None else each.dynamic_axes
            text = type_text(each._shape, axes, each.is_sparse, each._dtype)
            return f"{each.name}: {text}" if named and each.name else text

        given = ", ".join(told(each, True) for each in self.signature)
        made = [told(each, False) for each in self.outputs]
        result = made[0] if len(made) == 1 else f"Tuple[{', '.join(made)}]"
        return f"{self.name + ': ' if self.name else ''}{called}({given}) -> {result}"

    def __repr__(self) -> str:
        called = f"Composite({self._primitive.called})" if self._composite else self._primitive.called
        reads = ", ".join(repr(each) for each in self.arguments)
        return f"{called}: {reads} -> {', '.join(repr(each) for each in self.outputs)}"

    # -- calling --------------------------------------------------------------------------------------------

    def argument_map(self, *args: Any, **kwargs: Any) -> dict[Variable, Any]:
        """Return what is given for each argument, by position or by name.

        Raises:
            TypeError: something is missing, or there is too much.
        """
        from cntk.internal.utils import map_function_arguments

        params = self.signature
        if len(args) + len(kwargs) != len(params):
            raise TypeError(f"CNTK Function expected {len(params)} arguments, got {len(args) + len(kwargs)}")
        return map_function_arguments(params, {each.name: each for each in params}, *args, **kwargs)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Apply it: to variables and functions, which gives a function; or to numbers, which computes it.

        Raises:
            TypeError: the arguments do not fit.
            ValueError: their values do not fit.
        """
        from cntk._graph.calling import apply

        return apply(self, self.argument_map(*args, **kwargs))

    def __rshift__(self, other: Callable[..., Any] | tuple[Callable[..., Any], ...]) -> Function:
        """``f >> g``: first f, then g; of a tuple each of its own output of f, or of the only one."""
        if isinstance(other, tuple):
            from cntk.ops import combine

            values = self.outputs if len(self.outputs) > 1 else [self.output] * len(other)
            return combine([each(value) for each, value in zip(other, values, strict=False)])
        return other(self) if not isinstance(other, Function) else Function.compose(self, other)

    def __lshift__(self, other: Any) -> Any:
        """``g << f``: g of f."""
        return self(other)

    @staticmethod
    def compose(first: Function, then: Function) -> Function:
        """Return ``then`` of what ``first`` gives."""
        outputs = first.outputs
        return then(*outputs) if len(outputs) > 1 else then(first)  # type: ignore[no-any-return]

    def clone(self, method: Any, substitutions: Mapping[Any, Any] | None = None) -> Function:
        """Return a copy of it.

        Args:
            method: a :class:`CloneMethod` or its name: what becomes of parameters.
            substitutions: variables, and what is to take their place.

        Raises:
            ValueError: there is no such method, or something does not fit.
        """
        return self._cloned(method, substitutions or {}, fresh_inputs=True)

    def _cloned(self, method: Any, substitutions: Mapping[Any, Any], *, fresh_inputs: bool) -> Function:
        how = method.value if isinstance(method, CloneMethod) else str(method)
        if how not in ("share", "clone", "freeze"):
            raise GraphError(f'"{method}" is not a known clone method')
        given = {variable_of(old): variable_of(new) for old, new in substitutions.items()}
        replaced = given.get(self._primitive.outputs[0]) if len(self._primitive.outputs) == 1 else None
        if replaced is not None and replaced._owner is not None:  # something else is in the place of all of it
            return Function._of(replaced._owner)
        if fresh_inputs:
            return Function._of(clone(self._primitive, how, given))
        return Function._of(Copier(how, given).copy(self._primitive))

    def replace_placeholders(self, substitutions: Mapping[Any, Any]) -> Function:
        """Put variables in the place of placeholders, in this function, and return it.

        Raises:
            ValueError: something is no placeholder, or does not fit.
        """
        given = {variable_of(old): variable_of(new) for old, new in substitutions.items()}
        replace_placeholders([self._primitive], given)
        return self

    def replace_placeholder(self, substitution: Any) -> Function:
        """Put a variable in the place of the only placeholder, and return this function.

        Raises:
            ValueError: there is not exactly one.
        """
        several = self.placeholders
        if len(several) != 1:
            raise GraphError(f"the function has {len(several)} placeholders, not one")
        return self.replace_placeholders({several[0]: substitution})

    def update_signature(self, *arg_types: Any, **kwarg_types: Any) -> None:
        """Say what the arguments are: shapes or types; they become inputs, in this function.

        Raises:
            TypeError: something is no type.
        """
        from cntk._graph.calling import input_of_type

        found = {}
        for each, said in self.argument_map(*arg_types, **kwarg_types).items():
            if said is not None:
                found[each] = input_of_type(said, each.name)
        self.replace_placeholders(found)

    @staticmethod
    def register_udf_deserialize_callback(op_name: str, callback: Callable[..., Any]) -> None:
        """Say what makes a user's function of a model file, in the place of ``deserialize`` of its class.

        Args:
            op_name: the name of its operation: module and class, or that of one in C++.
            callback: is given the inputs, the name and the state that ``serialize`` gave, and returns a Function.

        Raises:
            ValueError: there is one for this operation.
        """
        from cntk._graph.written import CALLBACKS

        if op_name in CALLBACKS:
            raise ValueError(f"there is a callback for the user function '{op_name}' already")
        CALLBACKS[op_name] = callback

    def declare_args(self, *arg_types: Any) -> None:
        """Say what the placeholders are; see :meth:`update_signature`.

        Raises:
            TypeError: there are more or fewer types than placeholders.
        """
        from cntk._graph.calling import input_of_type

        several = self.placeholders
        if len(several) != len(arg_types):
            raise TypeError(f"expected {len(several)} inputs, got {len(arg_types)}")
        pairs = zip(several, arg_types, strict=True)
        self.replace_placeholders({each: input_of_type(said, each.name) for each, said in pairs})

    @staticmethod
    def with_signature(*args: Any, **kwargs: Any) -> Callable[[Callable[..., Any]], Function]:
        """Return a decorator like ``@Function`` that says the types of the arguments."""
        from cntk.layers.typing import Signature

        return lambda f: Function(Signature(*args, **kwargs)(f))

    def _core_network_(self, criterion: Any, evaluations: Any = ()) -> Any:
        """Return network, criterion and metrics as nodes of the core: what ``cntk_fit.Estimator`` trains."""
        from cntk._graph.offer import network_of

        return network_of(self, criterion, evaluations)

    def _repr_svg_(self) -> str | None:
        """Draw it, where it is the last line of a notebook's cell."""
        from cntk._graph.offer import drawn

        return drawn(self)

    def find_all_with_name(self, name: str, depth: int = 0) -> list[Any]:
        """Return the functions and variables of a name that it depends on.

        Args:
            name: of the user.
            depth: how deep to look into blocks; -1 for all.
        """
        from cntk._graph.search import search

        return search(self, lambda each: each.name == name, depth)

    def find_by_name(self, name: str, depth: int = 0) -> Any:
        """Return the only function or variable of a name, None if there is none; arguments as above.

        Raises:
            ValueError: there are several.
        """
        found = self.find_all_with_name(name, depth)
        if len(found) > 1:
            raise GraphError(f"found {len(found)} primitives with the name '{name}'; use find_all_with_name")
        return found[0] if found else None


def primitive_function(primitive: Primitive) -> Function:
    """Return what a user sees of a primitive."""
    if primitive.function is None:
        primitive.function = Function._of(primitive, composite=False)
    found: Function = primitive.function
    return found


def BlockFunction(op_name: str, name: str) -> Callable[[Callable[..., Any]], Function]:
    """Return a decorator like ``@Function`` that makes a block of the function."""
    return lambda f: Function(f, make_block=True, op_name=op_name, name=name)


def load_model(model: Any, device: Any = None, format: Any = ModelFormat.CNTKv2) -> Function:
    """Read a model file, or its bytes.

    Raises:
        ValueError: it is no model.
    """
    return Function.load(model, device, format)


def made(kind: str, *inputs: Variable, name: str = "", **attributes: Any) -> Function:
    """Make a function of an operation; inputs in the order of the original's files.

    Raises:
        ValueError: the inputs do not fit.
    """
    return Function._of(make(kind, inputs, attributes, name))


def __getattr__(name: str) -> Any:
    """Return what users' own functions are made of, which is imported when it is asked for.

    Raises:
        AttributeError: there is no such name.
    """
    if name in ("UserFunction", "native_user_function", "register_native_user_function"):
        from cntk.ops import _user

        return getattr(_user, name)
    raise AttributeError(f"module 'cntk.ops.functions' has no attribute '{name}'")


__all__ = [
    "BlockFunction",
    "CloneMethod",
    "Function",
    "ModelFormat",
    "load_model",
    "made",
    "primitive_function",
]

inherit(__name__)
