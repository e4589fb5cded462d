"""What the evaluator asks of the side that makes nodes and networks.

The evaluator knows numbers, texts, truth values, records, arrays and functions. Everything else belongs to a
:class:`Runtime`: it says which values are nodes, makes the object of ``new Kind [...]``, combines nodes by operators
and gives their members. Paths arrive written out: the path of an object is its name.

How to read arguments: ``arguments`` is the record after ``new Kind``. ``arguments.get('x')``, ``.number``, ``.text``,
``.boolean``, ``.integers``, ``.flat`` look for ``x`` in it and then outwards, so the parameters of the library
function around it count as arguments, as in the original. Reading evaluates. An object that may be part of a loop
(PastValue, FutureValue) keeps ``arguments`` and reads ``inputs`` from it later, for instance when the network is
put together; that is all there is to late inputs. Errors that are raised here get the chain of calls as their hint,
and a place in library text is replaced by the place of the user's call.

Outside of ``make`` and the like (late inputs, calling functions that the user gave) enter the evaluator again with
``Evaluator.run(callable)`` or ``Evaluator.call(function, arguments, path)``.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from cntk_builder_brainscript.syntax import RecordLiteral
from cntk_builder_brainscript.values import Record
from cntk_core.api import Location


class Runtime(Protocol):
    """Objects that are not of the language itself."""

    @property
    def kinds(self) -> Collection[str]:
        """The kinds that ``new`` accepts beside the language's own, such as ``ComputationNode``.

        One of the language's own may be among them: the recipe's text then means this one, the library its own.
        """

    def names_from_root(self, kind: str) -> bool:
        """Whether the paths in ``new kind [...]`` begin anew: true for what has members itself, nodes and networks."""

    def make(self, kind: str, arguments: Record, path: str, where: Location) -> object:
        """Return the object of ``new kind arguments``, named by ``path``."""

    def is_node(self, value: object) -> bool:
        """Whether operators and ``if`` on this value make nodes."""

    def operate(self, operator: str, operands: Sequence[object], path: str, where: Location) -> object:
        """Return the node of an operator.

        ``operator`` is what is written (``+``, ``.*``, ``<=``, ``&&``; with one operand ``-`` and ``!``) or ``if``
        with three operands. At least one operand is a node, others may be numbers, truth values or anything else;
        what does not fit is a BuildError at ``where``. ``path`` is the name of the result; a number that becomes a
        constant needs another one.
        """

    def definition(self, name: str) -> RecordLiteral | None:
        """Return a record that defines a name which nothing in the text or in the library does, ``None`` if unknown."""

    def further_names(self) -> Collection[str]:
        """The names that :meth:`definition` knows, for hints."""

    def member(self, value: object, name: str) -> object:
        """Return ``value.name`` of a node or a network, ``None`` if there is no such member."""

    def members(self, value: object) -> Collection[str]:
        """The names of a value's members, for hints; empty if the value cannot have any."""

    def describe(self, value: object) -> str:
        """Return a few words for a message, such as ``the node 'z'``."""

    def say(self, text: str) -> None:
        """Print what ``Print`` and ``Debug`` print."""
