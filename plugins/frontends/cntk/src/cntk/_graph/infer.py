"""Shapes and axes of what functions make, found when they are made, or as soon as their inputs are known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cntk._graph.errors import GraphError, told
from cntk._graph.leaves import is_known
from cntk._graph.lower import Maker, precision_of
from cntk._graph.primitive import BLOCK, COMBINE, NUMBERS, TIMES, USER, Primitive, postorder
from cntk._graph.records import axis_record, composite_record, output_uid, variable_record
from cntk.axis import Axis
from cntk_core.api import Node
from cntk_core.api.builders import BATCH, infer_node

if TYPE_CHECKING:
    from cntk.variables import Variable

_OUTPUTS = {72: 2, 87: 2}
_SPARSE = {NUMBERS["OneHot"], NUMBERS["EyeLikeOp"]}
_CAST, _CONVOLUTION, _CROP, _SPLICE, _SLICE, _REDUCE = (
    NUMBERS[name] for name in ("Cast", "Convolution", "Crop", "Splice", "Slice", "ReduceElements")
)
_UNPACK = NUMBERS["UnpackSequence"]
_TYPES = {1: np.float32, 2: np.float64, 4: np.float16}
_ELEMENTWISE = {NUMBERS[name] for name in ("Plus", "Minus", "ElementTimes", "LogPlus", "Pow", "Equal", "NotEqual",
                                           "Less", "LessEqual", "Greater", "GreaterEqual")}  # fmt: skip
_MEETING = _ELEMENTWISE | {NUMBERS[name] for name in ("Select", "Splice", "Clip", "Times", "TransposeTimes")}
_ALIKE = {NUMBERS[name] for name in ("Sigmoid", "StableSigmoid", "Tanh", "ReLU", "NoOp", "Pass")}


def make_outputs(primitive: Primitive) -> None:
    """Make the outputs of a function, and find out what is known of them.

    Raises:
        GraphError: its inputs do not fit.
    """
    from cntk.variables import OUTPUT, Variable

    if primitive.number == COMBINE:
        primitive.outputs = list(primitive.inputs)
        return
    if primitive.inside is not None:
        count = len(primitive.inside.roots)
    elif primitive.user is not None:
        count = len(primitive.user._declared)
    else:
        count = _OUTPUTS.get(primitive.number, 1)
        if primitive.number == 72 and primitive.attributes.get("sequenceUnpackSuppressMaskOutput"):
            count = 1
    for index in range(count):
        uid = f"{primitive.uid}_Output_{index}"
        name = primitive.name if count == 1 or index == 0 else f"{primitive.name}_{index}" if primitive.name else ""
        primitive.outputs.append(
            Variable._made(OUTPUT, None, None, None, name=name, uid=uid, owner=primitive, index=index)
        )
    infer_all([primitive])


def infer_all(roots: Iterable[Primitive]) -> None:
    """Find out what is known now of all that some functions depend on, and of these.

    Raises:
        GraphError: something does not fit.
    """
    unknown = [one for one in postorder_unknown(roots) if one.number != COMBINE]
    outer = {each: found for one in unknown if one.inside is not None for each, found in one.inside.arguments.items()}
    with told():
        while unknown:
            left = [one for one in unknown if not _infer(one, outer)]
            if len(left) == len(unknown):
                _infer_loops(unknown)
                left = [one for one in unknown if _open(one)]
                if len(left) == len(unknown) or not any(one.user is not None for one in left):
                    break
            unknown = left


def postorder_unknown(roots: Iterable[Primitive]) -> list[Primitive]:
    """Return the functions of whose outputs something is not known."""
    several = list(roots)
    if len(several) == 1 and not _open(several[0]) and several[0].inside is None and several[0].number != COMBINE:
        return []
    if len(several) == 1 and several[0].inside is None and all(_settled(each) for each in several[0].inputs):
        return several
    return [one for one in postorder(several) if _open(one)]


def _settled(variable: Variable) -> bool:
    return variable._shape is not None and variable._axes is not None


def _open(one: Primitive) -> bool:
    return any(not _settled(each) for each in one.outputs)


def _pull(each: Variable, outer: Mapping[Variable, Variable]) -> None:
    """Let an argument inside of a block be known as far as what it stands for is."""
    if each not in outer or _settled(each):
        return
    source = outer[each]
    _pull(source, outer)
    if each._shape is None or _settled(source):  # until then it may have been a guess
        each._shape = source._shape
    each._axes = source._axes if each._axes is None else each._axes
    each._dtype = each._dtype or source._dtype
    each._sparse, each._gradient = source._sparse, source._gradient


def _infer(one: Primitive, outer: Mapping[Variable, Variable]) -> bool:
    """Find out what a function's outputs are; return whether all is known."""
    for each in one.inputs:
        _pull(each, outer)
    if one.inside is not None:
        return _infer_block(one)
    _infer_types(one)
    if not any(each.is_constant for each in one.inputs):  # the original takes those until something is computed
        check_types(one)
    if not all(_settled(each) for each in one.inputs):
        _guess(one)
        return False
    if one.user is not None:
        one.user._place_outputs(one)
        return True
    if one.number == _REDUCE:
        _check_reduced(one)
    if one.number == _CONVOLUTION:
        _complete_kernel(one)
    if one.number == TIMES:
        _complete_factor(one)
    if one.number == _SPLICE:
        _place_splice(one)
    if one.number == _CROP and "offset" not in one.attributes:
        _infer_crop(one)
        return True
    _check_axes(one)
    maker = _maker([one], one.inputs)
    _adopt(maker, one)
    return True


def _check_axes(one: Primitive) -> None:
    """Look whether inputs have the dynamic axes that are needed.

    Raises:
        GraphError: they have not.
    """
    if (one.delays or one.number == _UNPACK) and len(one.inputs[0]._axes or ()) < 2:
        raise GraphError(f"{one.called} needs a sequence, and {one.inputs[0]} is none")
    if one.number in _MEETING and len({axis for each in one.inputs for axis in (each._axes or ())[1:]}) > 1:
        told_ = ", ".join(f"{each} has {', '.join(axis.name for axis in each._axes or ())}" for each in one.inputs)
        raise GraphError(f"{one.called}: its inputs have different dynamic axes: {told_}")


def _check_reduced(one: Primitive) -> None:
    """Look whether there are the axes over which something is reduced. Raises GraphError: one is not there."""
    count = len(one.inputs[0]._shape or ())
    for axis in one.attributes.get("axisVec") or [one.attributes["axis"]]:
        if axis.is_static and not -count <= axis.index < max(count, 1):
            place = -1 - axis.index
            raise GraphError(f"{one.called}: {one.inputs[0]} has {count} axes, so there is no axis {place}")


def _infer_block(one: Primitive) -> bool:
    assert one.inside is not None
    for inner in one.inside.arguments:
        _pull(inner, one.inside.arguments)
    for made, root in zip(one.outputs, one.inside.roots, strict=True):
        made._shape, made._axes, made._dtype = root._shape, root._axes, root._dtype
        made._gradient, made._sparse = root._gradient, root._sparse
    return not _open(one)


def _place_splice(one: Primitive) -> None:
    """Let an axis in front of all others be the one that it is, now that it is known how many there are.

    Of single numbers, the first axis is one that they do not have yet.
    """
    axes = max(len(each._shape or ()) for each in one.inputs)
    if one.attributes["axis"] == axis_record(Axis.new_leading_axis()) or (
        not axes and one.attributes["axis"] == axis_record(Axis(-1))
    ):
        front = Axis(axes)
        one.attributes = {**one.attributes, "axis": axis_record(front)}


def _infer_crop(one: Primitive) -> None:
    """Say what a part is like whose place follows from the whole network, which is looked at when it is computed."""
    image, like = one.inputs[:2]
    (made,) = one.outputs
    made._shape = (*(image._shape or ())[:-2], *(like._shape or ())[-2:])
    made._axes = image._axes


def _infer_types(one: Primitive) -> None:
    dtype = next((each._dtype for each in one.inputs if each._dtype is not None), None)
    if one.number == _CAST:
        dtype = _TYPES[one.attributes["newDataType"]]
    for made in one.outputs:
        made._dtype = dtype
        made._gradient = any(each._gradient for each in one.inputs)
        made._sparse = one.number in _SPARSE and bool(one.attributes.get("oneHotOutputSparse", True))


def _complete_kernel(one: Primitive) -> None:
    """Let a kernel have the channels of the image that it is for."""
    kernel, image = one.inputs
    shape, data = kernel._shape or (), image._shape or ()
    if -1 not in shape or len(shape) < len(data):
        return
    transposed, groups = bool(one.attributes.get("transpose")), int(one.attributes.get("groups", 1))
    place = 0 if transposed else len(shape) - len(data)
    kernel._shape = tuple(data[0] // groups if dim == -1 and index == place else dim for index, dim in enumerate(shape))


def _complete_factor(one: Primitive) -> None:
    """Let what a product sums over have the sizes that the other factor has, where they are to be inferred."""
    right, left = one.inputs
    rank = len(right._shape or ()) - int(one.attributes["outputRank"])
    before, sizes = left._shape or (), (right._shape or ())[:rank]
    if not 0 < rank <= len(before) or left._owner is not None or -1 not in before[-rank:] or min(sizes) < 1:
        return
    own = before[-rank:]
    if any(dim not in (-1, size) for dim, size in zip(own, sizes, strict=True)):
        return
    left._shape = (*before[:-rank], *sizes)


def check_types(one: Primitive) -> None:
    """Look whether all inputs have numbers of one type.

    Raises:
        GraphError: they have not.
    """
    if one.number not in _ELEMENTWISE:
        return
    kinds = {np.dtype(each._dtype).name for each in one.inputs if each._dtype is not None}
    if len(kinds - {"float16"}) > 1:
        told_ = ", ".join(f"{each} of {np.dtype(each._dtype).name}" for each in one.inputs)
        raise GraphError(f"{one.called}: its inputs have numbers of several types: {told_}")


def _guess(one: Primitive) -> None:
    """Of some functions the shape is known from one side: of what meets element by element, and of products.

    A product's parameter is inferred of such a guess, as in the original, even if the loop turns out to have more axes.
    """
    if len(one.outputs) != 1:
        return
    if one.number in _ELEMENTWISE:
        known = [each._shape for each in one.inputs if each._shape]
        if known:
            one.outputs[0]._shape = max(known, key=len)
    elif one.number in _ALIKE:
        one.outputs[0]._shape = one.inputs[0]._shape
    elif one.number == _SLICE and one.inputs[0]._shape is not None:
        _guess_slice(one)
    elif one.number == TIMES and len(one.inputs) == 2:
        _guess_product(one)


def _guess_slice(one: Primitive) -> None:
    shape = list(one.inputs[0]._shape or ())
    axis, begin, end = (one.attributes.get(key) for key in ("axis", "beginIndex", "endIndex"))
    if axis is None or not axis.is_static or one.attributes.get("sliceStrides", 1) != 1:
        return
    place = len(shape) - 1 - axis.index if axis.index >= 0 else -axis.index - 1
    if not 0 <= place < len(shape) or shape[place] < 1:
        return
    shape[place] = len(range(shape[place])[begin : end or None])
    one.outputs[0]._shape = tuple(shape)


def _guess_product(one: Primitive) -> None:
    right, left = one.inputs
    outputs = int(one.attributes["outputRank"])
    if right._shape is None or len(right._shape) != outputs + 1:
        return
    if left._shape is None:
        one.outputs[0]._shape = right._shape[1:]
    elif right.is_parameter and right._shape[0] == -1 and len(left._shape) == 1 and left._shape[0] > 0:
        right._shape = (left._shape[0], *right._shape[1:])
        one.outputs[0]._shape = right._shape[1:]


def _maker(primitives: Sequence[Primitive], leaves: Iterable[Variable]) -> Maker:
    """Make the nodes of functions, with what they read as leaves."""
    from cntk.variables import INPUT, Variable

    stand_ins: dict[Variable, Any] = {}
    splices = any(one.number == _SPLICE for one in primitives)
    for each in leaves:
        record = variable_record(each)
        if not (each.is_parameter or each.is_constant) or (each.is_constant and record.value is None):
            free = tuple(-3 if dim == -1 else dim for dim in each._shape or ())
            plain = Variable._made(INPUT, free, each._dtype, each._axes, uid=output_uid(each))
            open_ = splices and each.is_constant and -1 in (each._shape or ())  # nothing there says what it is
            if (each.is_constant or each.is_parameter) and not open_:
                plain._kind = each._kind
                plain._shape = each._shape
            plain._sparse = each._sparse
            record = variable_record(plain) if not plain.is_constant else record
        stand_ins[each] = record
    roots = [output for one in primitives for output in one.outputs[:1]]
    composite = composite_record(primitives, stand_ins, roots)
    # Outputs of functions that are known already are leaves here.
    known = {output_uid(each): record for each, record in stand_ins.items()}
    shifted = {uid: f"leaf.{uid}" for uid in known}
    composite = _renamed(composite, shifted)
    users = {one.uid: one for one in primitives if one.number == USER}
    maker = Maker(composite, precision_of([*stand_ins]), users, {})
    maker.make()
    return maker


def _renamed(composite: Any, names: dict[str, str]) -> Any:
    """Return records in which leaves have other names, so that none looks like the output of a function."""
    import attrs

    functions = {
        uid: attrs.evolve(
            one,
            inputs=tuple(names.get(each, each) for each in one.inputs),
            block=None
            if one.block is None
            else attrs.evolve(
                one.block, arguments={inner: names.get(each, each) for inner, each in one.block.arguments.items()}
            ),
        )
        for uid, one in composite.functions.items()
    }
    variables = {
        names.get(uid, uid): attrs.evolve(one, uid=names.get(uid, uid)) for uid, one in composite.variables.items()
    }
    return attrs.evolve(composite, functions=functions, variables=variables)


def _adopt(maker: Maker, one: Primitive) -> None:
    """Take over what was found out of a function's outputs and of parameters that it reads."""
    nodes = maker.made[one.uid]
    for node in nodes:
        if node.shape is None:
            _complain(maker, node)
    inferred = any(-1 in (each._shape or ()) for each in one.inputs if not (each.is_parameter or each.is_constant))
    for made, node in zip(one.outputs, nodes, strict=False):
        made._shape = maker.shape_of(node)
        if inferred:  # sizes that data bring are told as they were said of the input
            made._shape = tuple(-1 if dim == -3 else dim for dim in made._shape)
        made._axes = axes_of(maker, node)
        if one.delays:
            made._shape = one.inputs[0]._shape if one.inputs[0]._shape is not None else made._shape
    for each in one.inputs:
        if (each.is_parameter or each.is_constant) and not is_known(each._shape):
            leaf = maker.leaves.get(f"leaf.{each.uid}")
            if leaf is not None and leaf.shape is not None and 0 not in leaf.shape:
                each._shape = tuple(leaf.shape)


def _complain(maker: Maker, node: Node) -> None:
    for each in maker.network:
        if each.shape is None and all(child.shape is not None for child in each.inputs):
            infer_node(each)
    raise GraphError(f"the shape of {node.op.name} cannot be found out")


def axes_of(maker: Maker, node: Node) -> tuple[Axis, ...]:
    """Return the dynamic axes of a node."""
    if not node.framed:
        return ()
    batch = Axis.default_batch_axis()
    if node.axis == BATCH or node.axis in maker.single_axes:
        return (batch,)
    return batch, Axis(node.axis) if node.axis else Axis.default_dynamic_axis()


def _infer_loops(unknown: Sequence[Primitive]) -> None:
    """Find out all at once what depends on itself.

    What depends on an open placeholder stays unknown; so does what depends on a user's function, which is asked when
    its inputs are known.
    """
    inner = {each for one in unknown if one.inside is not None for each in one.inside.arguments}
    outer = {each: found for one in unknown if one.inside is not None for each, found in one.inside.arguments.items()}

    def final(each: Variable) -> Variable:
        passed: set[Variable] = set()
        while each in outer and each not in passed:
            passed.add(each)
            each = outer[each]
        return each

    blocked: set[Variable] = set()
    waiting = True
    while waiting:
        waiting = False
        for one in unknown:
            read = [final(each) for each in one.inputs]
            if one.inside is not None:
                read = [final(each) for each in one.inside.roots]
            stuck = any(each in blocked or (each._owner is None and not _settled(each)) for each in read)
            stuck = stuck or one.user is not None or any(each in blocked for each in one.inputs)
            if stuck and any(each not in blocked for each in one.outputs):
                blocked.update(one.outputs)
                blocked.update(one.inside.arguments if one.inside is not None else ())  # what is inside waits with it
                waiting = True
    ready = [one for one in unknown if not any(each in blocked for each in one.outputs)]
    if not ready:
        return
    made = {each for one in ready for each in one.outputs}
    leaves: dict[Variable, None] = {}
    for one in ready:
        reads = [*one.inputs, *(one.inside.roots if one.inside is not None else ())]
        reads += list(one.inside.arguments.values()) if one.inside is not None else []
        leaves.update({each: None for each in reads if each not in made and each not in inner})
    if not any(each._axes or each._shape for each in leaves):
        return  # a loop that nothing goes into but numbers has no shape
    shapes = [each._shape or () for each in leaves]
    if all(set(shape) <= {1} for shape in shapes):
        for one in ready:
            if one.delays and one.inputs[0]._shape is None:
                one.inputs[0]._shape = max(shapes, key=len)  # of numbers come numbers
    maker = _maker(ready, leaves)
    maker.network.infer()
    for node in maker.network:
        maker._note_scalar(node)
    for one in ready:
        if one.inside is None:
            _infer_types(one)
    for one in ready:
        if one.inside is None and one.number not in (COMBINE, BLOCK):
            _adopt(maker, one)
    for one in ready:
        if one.inside is not None:
            _infer_block(one)
    for _ in ready:  # blocks in blocks
        for one in ready:
            if one.inside is not None:
                _infer_block(one)
        break
    for one in ready:
        if one.delays:  # when it was looked at, what it delays may have been a guess
            one.outputs[0]._shape = one.inputs[0]._shape


__all__ = ["check_types", "infer_all", "make_outputs"]
