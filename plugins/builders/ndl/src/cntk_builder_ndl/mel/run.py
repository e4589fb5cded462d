"""Runs the steps of a script, each on the models as the steps before it left them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np

from cntk_builder_ndl.expand import GROUPS
from cntk_builder_ndl.files import snippet_sources
from cntk_builder_ndl.mel.commands import COPY_MODES, MODEL_FORMATS, choose
from cntk_builder_ndl.mel.models import DEFAULT, MAX_COPIES, Model, Models, Selection
from cntk_builder_ndl.mel.properties import set_property, set_property_below
from cntk_builder_ndl.mel.syntax import Argument, Call, Copy, InLine, Snippet, Step
from cntk_core.api import (
    BuildContext,
    BuildError,
    CntkError,
    Config,
    DataError,
    Location,
    Network,
    Node,
    Parameter,
    Problems,
    ask_to_write,
)
from cntk_core.api.builders import (
    SourceText,
    copy_inputs,
    copy_nodes,
    copy_sub_tree,
    paired_names,
    remove_nodes,
    rename_nodes,
    revise_parameter,
    set_input,
    set_inputs,
    sub_tree,
    write_dump,
)

_BOOLEANS = {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}


class Script:
    """Runs steps; ``models`` is what they have made so far.

    Args:
        context: loads and saves models; its ``base``, if any, is the first model, called ``default``.
        config: fills in the ``$variables$`` of files that the script reads.
        macros: texts with macros for in-line NDL.
        dump: writes nodes as text, ``(nodes, path, values=)``.
    """

    def __init__(
        self,
        context: BuildContext,
        config: Config | None = None,
        macros: Iterable[SourceText] = (),
        dump: Callable[..., None] = write_dump,
    ) -> None:
        self.models = Models(context, macros)
        self._context = context
        self._config = config
        self._write_dump = dump
        self._copies = 0
        if context.base is not None:
            self.models.add(DEFAULT, context.base)

    def run(self, steps: Sequence[Step]) -> None:
        """Run steps in order; the first one that fails ends it. Statements of NDL in a row may use each other's names.

        Raises:
            CntkError, Problems: what is wrong, at the place of the step if it says none itself.
        """
        pending: list[InLine] = []
        for step in steps:
            if isinstance(step, Copy):
                step = self._as_statement(step, pending)
            if isinstance(step, InLine):
                pending.append(step)
                continue
            self._add_in_line(pending)
            pending = []
            self._run(step)
        self._add_in_line(pending)

    def _run(self, step: Call | Copy | Snippet) -> None:
        try:
            if isinstance(step, Call):
                _COMMANDS[step.command.name](self, step)
            elif isinstance(step, Copy):
                self._copy_nodes(step.source, step.target, values_only=False, where=step.where)
            else:
                self.models.add_described(_model_name(step.name), [step.text])
        except CntkError as error:
            for problem in error.errors if isinstance(error, Problems) else [error]:
                problem.where = problem.where or step.where
            raise

    # -- in-line NDL ----------------------------------------------------------------------------------------

    def _as_statement(self, step: Copy, pending: list[InLine]) -> Step:
        """Return ``a = b`` as the NDL statement that it is if ``b`` is no node."""
        if step.ndl is None:
            return step
        self._add_in_line(pending)
        pending.clear()
        statement = InLine(step.ndl, step.where)
        if step.target.text.lower() in GROUPS:
            return statement
        meant = self.models.selection(step.source)
        return step if meant.pattern in meant.model.network else statement

    def _add_in_line(self, pending: Sequence[InLine]) -> None:
        if pending:
            model = self.models.required_default(pending[0].where)
            model.statements.add(*(step.text for step in pending))

    # -- models ---------------------------------------------------------------------------------------------

    def _path(self, argument: Argument) -> Path:
        if not argument.text:
            raise BuildError("the file name is empty", where=argument.where)
        return self._context.directory / argument.text

    def create_model(self, call: Call) -> None:
        """``CreateModel()``, ``CreateModelWithName(m)``."""
        name = _model_name(call.arguments[0]) if call.arguments else DEFAULT
        self.models.add(name, Network(self._context.dtype))

    def load_model(self, call: Call) -> None:
        """``LoadModel(file)``, ``LoadModelWithName(m, file)``."""
        *names, file = call.arguments
        network = self._context.load_model(str(self._path(file)), file.where)
        if _format(call) == MODEL_FORMATS[1]:
            _flatten_features(network)
        self.models.add(_model_name(names[0]) if names else DEFAULT, network)

    def load_snippet(self, call: Call) -> None:
        """``LoadNDLSnippet(m, file, section=s)``."""
        name, file = call.arguments
        section = call.options.get("section")
        if section is not None and not section.text:
            raise BuildError("the name of the section is empty", where=section.where)
        text = section.text if section else ""
        sources = snippet_sources(self._path(file), text, self._config, (section or file).where)
        self.models.add_described(_model_name(name), sources)

    def save_model(self, call: Call) -> None:
        """``SaveModel(m, file)``, ``SaveModel(file)``, ``SaveDefaultModel(file)``."""
        *names, file = call.arguments
        _format(call)
        model = self.models.find(names[0]) if names else self.models.required_default(call.where)
        path = str(self._path(file))
        model.complete()
        self._context.save_model(model.network, path, file.where)
        self._context.trace(f"Model {model.name} with {len(model.network)} nodes saved as '{path}'.")

    def set_default(self, call: Call) -> None:
        """``SetDefaultModel(m)``."""
        self.models.default = self.models.find(call.arguments[0])

    def unload(self, call: Call) -> None:
        """``UnloadModel(m, ...)``."""
        for name in call.arguments:
            if not self.models.drop(name.text):
                self._context.trace(f"WARNING: {name.where}: there is no model {name.text} to unload")

    # -- text -----------------------------------------------------------------------------------------------

    def dump_model(self, call: Call) -> None:
        """``DumpModel(m, file, includeData=false)``."""
        model = self.models.find(call.arguments[0])
        self._dump(model, sorted(model.network, key=lambda node: node.name.lower()), call)

    def dump_node(self, call: Call) -> None:
        """``DumpNode(node, file, includeData=false)``."""
        name = call.arguments[0]
        self._dump(self.models.selection(name).model, self.models.nodes(name), call)

    def _dump(self, model: Model, nodes: Sequence[Node], call: Call) -> None:
        file = call.arguments[1]
        values = _flag(call.options["includeData"], "includeData") if "includeData" in call.options else False
        model.complete()
        path = self._path(file)
        ask_to_write(path, where=file.where)
        try:
            self._write_dump(nodes, path, values=values)
        except OSError as error:
            raise DataError(f"the file '{path}' cannot be written: {error.strerror}", where=file.where) from None

    # -- nodes ----------------------------------------------------------------------------------------------

    def copy_node(self, call: Call) -> None:
        """``CopyNode(from, to, copy=all|value)``."""
        source, target = call.arguments
        self._copy_nodes(source, target, values_only=_copies_values(call), where=call.where)

    def _copy_nodes(self, source: Argument, target: Argument, *, values_only: bool, where: Location) -> None:
        old, new = self.models.selection(source), self.models.target(target)
        if new.is_pattern and not old.is_pattern:
            node = self.models.node(source, "what is copied")
            pairs = [(node, found.name) for found in self.models.nodes(target) if found is not node]
        else:
            pairs = _pairs(old, new, source, target)
        self._prepare_copy(old.model, [node for node, _ in pairs], where)
        copy_nodes(pairs, new.model.network, values_only=values_only, where=where, source=old.model.network)

    def copy_sub_tree(self, call: Call) -> None:
        """``CopySubTree(root, model, prefix, copy=all|value)``."""
        root, to, prefix = call.arguments
        source, target = self.models.selection(root).model, self.models.find(to)
        values_only = _copies_values(call)
        nodes = self.models.nodes(root)
        self._prepare_copy(source, sub_tree(nodes), call.where)
        copy_sub_tree(nodes, source.network, target.network, prefix.text, values_only=values_only, where=call.where)

    def _prepare_copy(self, source: Model, nodes: Sequence[Node], where: Location) -> None:
        """See to it that what is copied has its first values, and that copies of copies do not fill the memory."""
        if any(isinstance(node, Parameter) and node.value is None for node in nodes):
            source.complete()
        self._copies += len(nodes)
        if self._copies > MAX_COPIES:
            raise BuildError(f"the script copies more than {MAX_COPIES} nodes", where=where)

    def copy_inputs(self, call: Call) -> None:
        """``CopyNodeInputs(from, to)``."""
        source, target = call.arguments
        old, new = self.models.selection(source), self.models.target(target)
        _same_model(old, new, call, source, target)
        if new.is_pattern and not old.is_pattern:
            node = self.models.node(source, "what the inputs are copied from")
            copy_inputs([(node, found.name) for found in self.models.nodes(target)], new.model.network)
        else:
            copy_inputs(_pairs(old, new, source, target), new.model.network)

    def set_input(self, call: Call) -> None:
        """``SetNodeInput(node, index, input)``."""
        node, index, child = call.arguments
        new, old = self.models.selection(node), self.models.selection(child)
        _same_model(old, new, call, child, node)
        users, linked = self.models.nodes(node), self.models.node(child, "an input")
        number = _whole(index, "the index of an input (from 0)")
        for user in users:
            set_input(new.model.network, user, number, linked)

    def set_inputs(self, call: Call) -> None:
        """``SetNodeInputs(node, input, ...)``."""
        node, *children = call.arguments
        new = self.models.selection(node)
        user = self.models.node(node, "the node whose inputs are set")
        for child in children:
            _same_model(self.models.selection(child), new, call, child, node)
        set_inputs(new.model.network, user, [self.models.node(child, "an input") for child in children])

    def set_property(self, call: Call) -> None:
        """``SetProperty(node, property, value)``."""
        node, name, value = call.arguments
        nodes = self.models.nodes(node)
        set_property(self.models.selection(node).model.network, nodes, name, value, self._context.trace)

    def set_property_below(self, call: Call) -> None:
        """``SetPropertyForSubTree(root, property, value)``."""
        root, name, value = call.arguments
        set_property_below(sub_tree(self.models.nodes(root)), name, value, self._context.trace)

    def remove(self, call: Call) -> None:
        """``RemoveNode(node, ...)``."""
        for name in call.arguments:
            nodes = self.models.nodes(name)
            remove_nodes(self.models.selection(name).model.network, nodes)

    def rename(self, call: Call) -> None:
        """``Rename(old, new)``; a new name without a model belongs to the model of the old one."""
        source, target = call.arguments
        old, new = self.models.selection(source), self.models.target(target)
        if "." not in target.text or new.pattern == target.text:
            new = Selection(old.model, target.text)
        _same_model(old, new, call, source, target)
        rename_nodes(old.model.network, _pairs(old, new, source, target))

    def revise(self, call: Call) -> None:
        """``ReviseParameter(node, file)``."""
        name, file = call.arguments
        network = self.models.selection(name).model.network
        nodes = self.models.nodes(name)
        parameters = [node for node in nodes if isinstance(node, Parameter)]
        if not parameters:
            raise BuildError(
                f"only parameters have values, and '{nodes[0].name}' is a {nodes[0].op.name}", where=name.where
            )
        for node in nodes:
            if not isinstance(node, Parameter):
                self._context.trace(f"WARNING: {name.where}: {node.op.name} {node.name} is no parameter; left as it is")
        for parameter in parameters:
            revise_parameter(network, parameter, self._path(file), file.where)
            self._context.trace(f"Revise node {parameter.name} using parameter file {file.text}")


_COMMANDS: dict[str, Callable[[Script, Call], None]] = {
    "CreateModel": Script.create_model,
    "CreateModelWithName": Script.create_model,
    "LoadModel": Script.load_model,
    "LoadModelWithName": Script.load_model,
    "LoadNDLSnippet": Script.load_snippet,
    "SaveDefaultModel": Script.save_model,
    "SaveModel": Script.save_model,
    "SetDefaultModel": Script.set_default,
    "UnloadModel": Script.unload,
    "DumpModel": Script.dump_model,
    "DumpNode": Script.dump_node,
    "CopyNode": Script.copy_node,
    "CopySubTree": Script.copy_sub_tree,
    "CopyNodeInputs": Script.copy_inputs,
    "SetNodeInput": Script.set_input,
    "SetNodeInputs": Script.set_inputs,
    "SetProperty": Script.set_property,
    "SetPropertyForSubTree": Script.set_property_below,
    "RemoveNode": Script.remove,
    "Rename": Script.rename,
    "ReviseParameter": Script.revise,
}


# -- arguments --------------------------------------------------------------------------------------------


def _model_name(argument: Argument) -> str:
    if not argument.text or any(letter in argument.text for letter in '.*[]" \t'):
        raise BuildError(
            f"'{argument.text}' cannot be the name of a model",
            where=argument.where,
            hint="Write one word without dots.",
        )
    return argument.text


def _format(call: Call) -> str:
    given = call.options.get("format")
    if given is None:
        return MODEL_FORMATS[0]
    found = choose(given.text, MODEL_FORMATS)
    if found is None:
        raise BuildError(
            f"there is no model format '{given.text}'", where=given.where, hint=f"Formats: {', '.join(MODEL_FORMATS)}"
        )
    return found


def _copies_values(call: Call) -> bool:
    given = call.options.get("copy")
    if given is None:
        return False
    found = choose(given.text, COPY_MODES)
    if found is None:
        raise BuildError(f"copy must be all or value, not '{given.text}'", where=given.where)
    return found == "value"


def _flag(argument: Argument, what: str) -> bool:
    found = _BOOLEANS.get(argument.text.lower())
    if found is None:
        raise BuildError(f"{what} must be true or false, not '{argument.text}'", where=argument.where)
    return found


def _whole(argument: Argument, what: str) -> int:
    if not argument.text.isascii() or not argument.text.isdigit() or len(argument.text) > 9:
        raise BuildError(f"{what} must be a whole number, not '{argument.text}'", where=argument.where)
    return int(argument.text)


def _pairs(old: Selection, new: Selection, source: Argument, target: Argument) -> list[tuple[Node, str]]:
    """Return the nodes of a selection with the names that another one gives them."""
    try:
        if not old.is_pattern and not new.is_pattern:
            return [(node, new.pattern) for node in old.nodes()]
        return paired_names(old.model.network, old.pattern, new.pattern)
    except CntkError as error:
        error.where = error.where or (source if old.stars == new.stars else target).where
        raise


def _same_model(old: Selection, new: Selection, call: Call, first: Argument, second: Argument) -> None:
    if old.model is not new.model:
        raise BuildError(
            f"{call.command.name} works within one model: '{first.text}' is in {old.model.name}, "
            f"'{second.text}' in {new.model.name}",
            where=call.where,
            hint="Copy the node with CopyNode or CopySubTree first.",
        )


def _flatten_features(network: Network) -> None:
    """Make every feature a vector: models of late 2015 have wrong dimensions there."""
    for node in network.roots["feature"]:
        node.shape = (int(np.prod(node.known_shape)),)
    network.infer()
