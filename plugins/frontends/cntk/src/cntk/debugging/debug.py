"""A debugger that goes through a model step by step while it computes, and what tells more of what is computed.

``debug_model`` puts a stop behind each function, parameter and input of a model. Whenever a value, or a gradient, comes
by there, the stop says where that is and asks what to do next.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any

import attrs

from cntk._graph.edit import Copier
from cntk._graph.primitive import COMBINE, Primitive, postorder, preorder
from cntk.debugging._watch import set_checked_mode, set_computation_network_trace_level, set_node_timing
from cntk.ops._leaves import output_variable
from cntk.ops._user import UserFunction
from cntk.ops.functions import Function, primitive_function
from cntk.variables import Variable

DEBUG_USAGE = """\
    n          go on to the next stop
    n NUMBER   go on by so many stops
    u f        go on until values are computed (forward)
    u b        go on until gradients are computed (backward)
    u NAME     go on until what has this name
    u LAMBDA   go on until a condition of value (or gradient) and node holds, such as
                   lambda value, node: node.op_name == 'Times'
                   lambda value, node: np.var(value) > 1
    c          go on to the end, without stops
    p          print the value, or the gradient
    d          begin Python's debugger
    q          quit
"""

_RULE = 35
_PASSES = {"forward": " forward  ", "backward": " backward "}

Condition = Callable[[str, Any, Any], bool]
"""Of the pass, the value and the node: whether to stop there."""


def save_as_legacy_model(root_op: Any, filename: str) -> None:
    """Write a Function in the model format of CNTK 1, which :meth:`Function.load` reads as well.

    Raises:
        ValueError: it cannot be written in that format.
    """
    from cntk._graph.files import save_legacy

    save_legacy(root_op, filename)


def debug_model(
    model: Any, in_stream: Any = None, out_stream: Any = None, exit_func: Callable[[int], Any] = sys.exit
) -> Function:
    """Return a model that stops wherever something is computed, and asks; it shares parameters and inputs.

    What goes round in a loop passes without a stop until it leaves the loop.

    Args:
        model: a Function.
        in_stream: where commands are read, one in a line; by default what the program is given (``sys.stdin``). Where
            it ends, the model goes on to the end.
        out_stream: where it is told what was found; by default ``sys.stdout``.
        exit_func: is called with 0 for the command ``q``.

    Raises:
        ValueError: the model stands for something that is not known.
    """
    copied = Copier("share", {}).copy(model._primitive)
    outer = preorder([copied])
    nested = [one for one in postorder([copied]) if one not in set(outer)]
    looped = _looped(outer)
    session = _Session(in_stream or sys.stdin, out_stream or sys.stdout, exit_func)
    read = dict.fromkeys(each for one in [*outer, *nested] for each in one.inputs)
    read.update(dict.fromkeys(copied.outputs))
    inner = {each for one in [*outer, *nested] if one.inside is not None for each in one.inside.arguments}
    made = {
        each: _DebugNode(each, session)
        for each in read
        if not (each.is_placeholder or each in inner) and each._owner not in nested
    }
    session.names = {name for each in made for name in (each.name, _told(each).name) if name}
    behind = {each: stop.output for each, stop in made.items()}
    leaves = {each: stop for each, stop in behind.items() if each._owner is None}
    outside = {each: stop for each, stop in behind.items() if each._owner not in looped}
    for one in outer:
        one.relink(outside if one in looped else behind)
    for one in nested:
        one.relink(leaves)
    return Function._of(copied if copied.number == COMBINE else made[copied.outputs[0]]._primitive)


def _looped(functions: Iterable[Primitive]) -> set[Primitive]:
    """Return the functions that depend on themselves: what goes round there comes by step after step, not at once."""
    below = {one: set(_read_by(one)) for one in functions}
    return {one for one, found in below.items() if one in found}


def _read_by(one: Primitive) -> list[Primitive]:
    return preorder([each._owner for each in one.inputs if each._owner is not None])


def _told(each: Variable) -> Any:
    """Return what a user sees of where a stop is: the function, or a parameter, a constant, an input."""
    return each if each._owner is None else primitive_function(each._owner)


@attrs.define(eq=False)
class _Session:
    """What the stops of a model have in common.

    Attributes:
        names: of what has one.
        until: where to ask next; None is nowhere.
        left: stops to be passed first.
        last: the pass that it was in.
    """

    source: Any
    target: Any
    leave: Callable[[int], Any]
    names: set[str] = attrs.field(factory=set)
    until: Condition | None = attrs.field(default=lambda name, value, node: True)
    left: int = 0
    last: str = ""

    def write(self, text: str) -> None:
        """Tell something."""
        self.target.write(text)
        self.target.flush()

    def stop(self, name: str, value: Any, node: Any, state: Any = None) -> None:
        """Say what comes by, and ask what to do if that is wanted here."""
        if name != self.last:
            self.write(("\n" if name == "forward" else "") + "=" * _RULE + _PASSES[name] + "=" * _RULE + "\n")
        self.last = name
        self.write(f"\n{node} with uid '{node.uid}'\n")
        if self.left:
            self.left -= 1
            return
        while self.until is not None and self.until(name, value, node):
            if self._ask(name, value, state):
                return

    def _ask(self, name: str, value: Any, state: Any) -> bool:
        """Do one command. Returns whether to go on from here, whatever was waited for."""
        self.write(f"[CNTK {name}] >>> ")
        line = self.source.readline()
        command = line.strip()
        if line and not command:
            return False
        if not line or command == "c":
            self.until = None
        elif command == "p":
            self._print(name, value, state)
            return False
        elif command == "d":
            import pdb

            pdb.set_trace()  # this is what was asked for
        elif command == "q":
            self.leave(0)
            return False
        else:
            return self._move(command)
        return True

    def _move(self, line: str) -> bool:
        """Do a command that says where to ask next; others are explained. Returns whether it was one."""
        command, argument = line[0], line[1:].strip()
        if command == "n" and (not argument or (argument.isdigit() and int(argument))):
            self.until, self.left = _anywhere, int(argument or 1) - 1
        elif command == "u" and argument in self.names:
            self.until = _named(argument)
        elif command == "u" and argument and (found := [each for each in _PASSES if each.startswith(argument)]):
            self.until = _in_pass(found[0])
        elif command == "u" and argument.startswith("lambda"):
            return self._condition(argument)
        else:
            missing = command == "u" and bool(argument)
            self.write(f'The model has nothing with the name "{argument}".\n' if missing else "")
            self.write(DEBUG_USAGE)
            return False
        return True

    def _condition(self, text: str) -> bool:
        import numpy as np

        try:
            condition = eval(text, {"np": np, "numpy": np})  # of the person at the keyboard, as pdb does it
        except SyntaxError as error:
            self.write(f"{error.msg}\n{DEBUG_USAGE}")
            return False
        self.until = lambda name, value, node: bool(condition(value, node))
        return True

    def _print(self, name: str, value: Any, state: Any) -> None:
        if state is not None:
            self.write(f"State: {state}\n")
        what = "Input" if name == "forward" else "Root gradients"
        shape = [each.shape for each in value] if isinstance(value, list) else value.shape
        self.write(f"{what} with shape {shape}: \n{value}\n")


def _anywhere(name: str, value: Any, node: Any) -> bool:
    return True


def _named(wanted: str) -> Condition:
    return lambda name, value, node: bool(node.name == wanted)


def _in_pass(wanted: str) -> Condition:
    return lambda name, value, node: name == wanted


class _DebugNode(UserFunction):
    """A stop: gives its input back, and gradients, and lets the session ask.

    Args:
        arg: the variable behind which it stands.
        session: of the model.
        name: what it is called.
    """

    PROMPT_FORWARD = "[CNTK forward] >>> "
    PROMPT_BACKWARD = "[CNTK backward] >>> "

    def __init__(self, arg: Variable, session: _Session, name: str = "D") -> None:
        self._session, self._after = session, _told(arg)
        super().__init__([arg], name=f"{name}_{self._after.uid}")

    def infer_outputs(self) -> list[Any]:
        """Return a variable like the input."""
        one = self.inputs[0]
        return [output_variable(one.shape, one.dtype, one.dynamic_axes, needs_gradient=one.needs_gradient)]

    def forward(self, arguments: Any, outputs: Any = None, *more: Any, **kwargs: Any) -> Any:
        """Stop at a value."""
        self._session.stop("forward", arguments, self._after)
        return None, arguments

    def backward(self, state: Any, root_gradients: Any, variables: Any = None, *more: Any) -> Any:
        """Stop at a gradient."""
        self._session.stop("backward", root_gradients, self._after, state)
        return root_gradients

    def clone(self, cloned_inputs: Any) -> Any:  # type: ignore[override]  # as the original has it
        """Return a stop behind something else."""
        return _DebugNode(cloned_inputs[0], self._session)


__all__ = [
    "DEBUG_USAGE",
    "debug_model",
    "save_as_legacy_model",
    "set_checked_mode",
    "set_computation_network_trace_level",
    "set_node_timing",
]
