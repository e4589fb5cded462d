"""Running scripts on models in memory."""

from __future__ import annotations

from pathlib import Path

import attrs
import numpy as np
from cntk_builder_ndl import MELBuilder, Statements
from cntk_builder_ndl.mel import Script, parse

from cntk_core.api import BuildContext, BuildError, CntkError, Location, Network, Problems, core_ops
from cntk_core.api.builders import SourceText, complete_network, copy_nodes, parse_text

NET = """\
BFF(a, rows, cols) {
 W=Parameter(rows, cols, init=fixedValue, value=0.5) ; B=Parameter(rows, 1, init=fixedValue, value=0)
 T=Times(W, a) ; P=Plus(T, B) }
Layer(a, rows, cols) { FF=BFF(a, rows, cols) ; S=Sigmoid(FF) }
features=Input(4, tag=feature)
labels=Input(3, tag=label)
L1=Layer(features, 5, 4)
OL=BFF(L1, 3, 5)
ce=CrossEntropyWithSoftmax(labels, OL.P, tag=criterion)
err=ClassificationError(labels, OL.P, tag=eval)
OutputNodes=(OL.P)
"""
TABLE = core_ops()


def make_network(dtype: type = np.float32) -> Network:
    """The model that scripts load as ``net.dnn``."""
    context = BuildContext(find_op=TABLE.find, op_names=lambda language: tuple(TABLE.names(language)))
    network = Network(dtype)
    Statements(network, context).add(SourceText.of(NET, "net.ndl"))
    complete_network(network)
    for parameter in network.parameters:
        parameter.initializer = None
    for node in network:
        node.where = None  # as in a model that was loaded
    return network


def clone(network: Network) -> Network:
    """Return a copy, so that a saved model does not change with the one that is edited on."""
    copy = Network(network.dtype)
    copy_nodes([(node, node.name) for node in network], copy)
    for role, group in network.roots.items():
        for node in group:
            copy.mark(copy[node.name], role)
    complete_network(copy)
    return copy


@attrs.define
class Disk:
    """Models by file name, the lines that a script printed, and a folder for its other files."""

    folder: Path
    files: dict[str, Network] = attrs.field(factory=lambda: {"net.dnn": make_network()})
    lines: list[str] = attrs.field(factory=list)

    def load(self, path: str, where: Location | None = None) -> Network:
        name = Path(path).name
        if name not in self.files:
            raise BuildError(f"the model '{name}' does not exist", where=where)
        return clone(self.files[name])

    def save(self, network: Network, path: str, where: Location | None = None) -> None:
        self.files[Path(path).name] = clone(network)

    def context(self, base: Network | None = None) -> BuildContext:
        return BuildContext(
            find_op=TABLE.find,
            op_names=lambda language: tuple(TABLE.names(language)),
            directory=self.folder,
            base=base,
            load_model=self.load,
            save_model=self.save,
            trace=self.lines.append,
        )

    def run(self, script: str, keys: str = "", base: Network | None = None) -> Network:
        """Run a script, written to the file ``e.mel``; ``keys`` are further keys of its section."""
        (self.folder / "e.mel").write_text(script, encoding="utf-8")
        return self.build(f'editPath="e.mel"\n{keys}', base)

    def build(self, keys: str, base: Network | None = None) -> Network:
        block = parse_text(f"MEL=[\n{keys}\n]", file="r.cntk").own("MEL")
        assert block is not None
        return MELBuilder().build(block, self.context(base))

    def edit(self, commands: str) -> Network:
        """Run commands on ``net.dnn`` as the model ``m``, and return the default model."""
        return self.run(f"m=LoadModel(net.dnn)\n{commands}")


def run_text(text: str, disk: Disk) -> None:
    """Parse any text and run it if it is a script; check that what is wrong is said with its place."""
    steps, problems = parse(SourceText.of(text, "e.mel"))
    assert all(isinstance(problem, CntkError) and problem.where is not None for problem in problems)
    if problems:
        return
    try:
        Script(disk.context(), dump=lambda nodes, path, *, values: None).run(steps)
    except CntkError as error:
        for problem in error.errors if isinstance(error, Problems) else [error]:
            assert problem.where is not None
