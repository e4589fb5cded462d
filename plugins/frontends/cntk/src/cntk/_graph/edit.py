"""Making functions, copying them with other inputs, and putting something in the place of placeholders."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cntk._graph.errors import GraphError
from cntk._graph.infer import infer_all, make_outputs
from cntk._graph.primitive import BLOCK, COMBINE, NUMBERS, USER, Inside, Primitive, leaves_of, postorder, preorder

if TYPE_CHECKING:
    from cntk.variables import Variable


def make(
    kind: str, inputs: Sequence[Variable], attributes: Mapping[str, Any] | None = None, name: str = ""
) -> Primitive:
    """Make a function.

    Args:
        kind: the original's name of the operation.
        inputs: in the order of the original's files.
        attributes: as there.
        name: of the user.

    Raises:
        GraphError: the inputs do not fit.
    """
    primitive = Primitive(NUMBERS[kind], list(inputs), dict(attributes or {}), name or "")
    make_outputs(primitive)
    return primitive


def make_block(
    kind: str, roots: Sequence[Variable], root: Primitive, arguments: Mapping[Variable, Variable], name: str = ""
) -> Primitive:
    """Make a block of what lies between placeholders and some variables.

    Args:
        kind: what the block is called: ``Dense``.
        roots: variables inside that become its outputs.
        root: the function inside that has them.
        arguments: the placeholders, and what they stand for.
        name: of the user.
    """
    inside = Inside(kind, tuple(roots), root, dict(arguments))
    primitive = Primitive(BLOCK, [], {}, name or "", inside)
    primitive.inputs = block_inputs(inside)
    make_outputs(primitive)
    return primitive


def block_inputs(inside: Inside) -> list[Variable]:
    """Return what a block reads: parameters and whatever else is read inside, and then its arguments in their order."""
    found = dict.fromkeys(each for each in leaves_of([inside.root], in_files=True) if each not in inside.arguments)
    found.update(dict.fromkeys(each for each in inside.roots if each._owner is None and each not in inside.arguments))
    return [*found, *inside.arguments.values()]


def replace_placeholders(roots: Iterable[Primitive], substitutions: Mapping[Variable, Variable]) -> None:
    """Put variables in the place of placeholders in functions, and find out what is known then.

    Raises:
        GraphError: something is no placeholder, or what takes its place does not fit.
    """
    several = list(roots)
    for old in substitutions:
        if not old.is_placeholder:
            raise GraphError(f"{old} is no placeholder, and cannot be replaced")
    everything = dict.fromkeys(postorder([*several, *_owners(substitutions.values())]))
    for one in everything:
        one.relink(substitutions)
    infer_all(several)


def _owners(variables: Iterable[Variable]) -> list[Primitive]:
    return [each._owner for each in variables if each._owner is not None]


class Copier:
    """Copies functions.

    Args:
        method: ``share``, ``clone`` or ``freeze``: what becomes of parameters.
        substitutions: variables in whose place others are.
        fresh_inputs: inputs become others of the same kind; otherwise they are shared.
    """

    def __init__(self, method: str, substitutions: Mapping[Variable, Variable], *, fresh_inputs: bool = False) -> None:
        self.method, self.fresh_inputs = method, fresh_inputs
        self.found: dict[Variable, Variable] = dict(substitutions)
        self.given = frozenset(substitutions)
        self.made: dict[Primitive, Primitive] = {}

    def copy(self, root: Primitive) -> Primitive:
        """Return a copy of a function and of all that it depends on.

        Raises:
            GraphError: what takes the place of something does not fit.
        """
        originals = [one for one in _all_before(root, self.found) if one not in self.made]
        for one in originals:
            self._begin(one)
        for one in originals:
            self._link(one)
        infer_all([self.made[one] for one in originals if one.number != COMBINE])
        return self.made[root]

    def counterpart(self, replacement: Variable) -> Variable:
        """Return what takes the place of something in what was copied: where it depends on functions or inputs that
        were copied, a copy of it that depends on the copies; so a function is given what its own copy computes.

        Raises:
            GraphError: it does not fit.
        """
        owner = replacement._owner
        if owner is None or owner in self.made:
            return replacement if owner is None else self.made[owner].outputs[replacement._index]
        known = {
            each: self.found[each]
            for each in leaves_of([owner])
            if each not in self.given and self.found.get(each, each) is not each
        }
        for one in preorder([owner]):
            if one in self.made and one.number != COMBINE:
                known.update(zip(one.outputs, self.made[one].outputs, strict=True))
        if not known:
            return replacement
        other = Copier(self.method, known, fresh_inputs=self.fresh_inputs)
        other.copy(owner)
        return other.found[replacement]

    def _begin(self, one: Primitive) -> None:
        from cntk.variables import OUTPUT, Variable

        copied = Primitive(one.number, [], dict(one.attributes), one.name, custom=dict(one.custom))
        self.made[one] = copied
        if one.number == COMBINE:
            return
        for each in one.outputs:
            made = Variable._made(
                OUTPUT, None, None, None, name=each.name, owner=copied, index=each._index,
                uid=f"{copied.uid}_Output_{each._index}",
            )  # fmt: skip
            copied.outputs.append(made)
            self.found.setdefault(each, made)

    def _link(self, one: Primitive) -> None:
        copied = self.made[one]
        copied.inputs = [self._leaf(each) for each in one.inputs]
        if one.number == COMBINE:
            copied.outputs = list(copied.inputs)
        if one.inside is not None:
            inner = Copier(self.method, {}, fresh_inputs=self.fresh_inputs)
            inner.found.update({each: self.found[each] for each in self.found if each._owner is None})
            fresh = {each: _blank() for each in one.inside.arguments}  # without names, as the original has them
            inner.found.update(fresh)
            root = inner.copy(one.inside.root)
            for each, made in inner.found.items():
                if each._owner is None and each not in fresh:
                    self.found.setdefault(each, made)
            arguments = {fresh[each]: self._leaf(outer) for each, outer in one.inside.arguments.items()}
            roots = tuple(inner._leaf(each) for each in one.inside.roots)
            copied.inside = Inside(one.inside.kind, roots, root, arguments)
            copied.inputs = block_inputs(copied.inside)
        if one.user is not None:
            copied.user = one.user._copy_for(copied)

    def _leaf(self, each: Variable) -> Variable:
        if each in self.found:
            return self.found[each]
        if each.is_parameter or each.is_constant:
            self.found[each] = self._kept(each)
            return self.found[each]
        if each.is_input and self.fresh_inputs:
            self.found[each] = _like(each)
            return self.found[each]
        if each.is_placeholder and each not in _open():
            self.found[each] = _blank(each.name)
            return self.found[each]
        return each

    def _kept(self, each: Variable) -> Variable:
        """Return the parameter that takes the place of one."""
        from cntk.variables import Constant, Parameter

        if self.method == "share" or (each.is_constant and self.method == "freeze"):
            return each
        kind = Constant if self.method == "freeze" or each.is_constant else Parameter
        first = each._first if each._value is None and each._node is None else each.value  # type: ignore[attr-defined]
        return kind(first, each._shape, each._dtype, name=each.name) if kind is Constant else kind(
            each._shape, first, each._dtype, name=each.name
        )  # fmt: skip


def clone(root: Primitive, method: str, replacements: Mapping[Variable, Variable]) -> Primitive:
    """Return a copy of a function that has inputs of its own.

    Args:
        root: the function.
        method: ``share``, ``clone`` or ``freeze``: what becomes of parameters.
        replacements: variables, and what takes their place. It may depend on the function itself, which is a loop then.

    Raises:
        GraphError: something does not fit.
    """
    later = {old: _stand_in(new) for old, new in replacements.items() if new._owner is not None}
    copier = Copier(method, {**replacements, **later}, fresh_inputs=True)
    made = copier.copy(root)
    if later:
        replace_placeholders([made], {each: copier.counterpart(replacements[old]) for old, each in later.items()})
    return made


def _stand_in(each: Variable) -> Variable:
    from cntk.variables import PLACEHOLDER, Variable

    return Variable._made(PLACEHOLDER, each._shape, each._dtype, each._axes, name=each.name)


def _open() -> set[Variable]:
    """Arguments of functions that are being made: these mean the same in all that is called meanwhile."""
    from cntk.ops.functions import Function

    return Function._placeholders_under_construction


def _like(each: Variable) -> Variable:
    from cntk.variables import Variable

    return Variable._made(
        each._kind, each._shape, each._dtype, each._axes, name=each.name, sparse=each.is_sparse,
        gradient=each.needs_gradient,
    )  # fmt: skip


def _blank(name: str = "") -> Variable:
    from cntk.variables import PLACEHOLDER, Variable

    return Variable._made(PLACEHOLDER, None, None, None, name=name)


def _all_before(root: Primitive, found: Mapping[Variable, Variable]) -> list[Primitive]:
    """The functions that have to be copied: those on which the root depends, but for what something else replaces."""
    seen: dict[Primitive, None] = {root: None}
    waiting = [root]
    while waiting:
        one = waiting.pop()
        reads = list(one.inputs)
        if one.inside is not None:
            reads += list(one.inside.arguments.values())
        for each in reads:
            if each._owner is not None and each not in found and each._owner not in seen:
                seen[each._owner] = None
                waiting.append(each._owner)
    return list(seen)


__all__ = ["COMBINE", "USER", "Copier", "block_inputs", "clone", "make", "make_block", "replace_placeholders"]
