"""The contract of a network builder: what it builds can be trained, and mistakes have a place.

A plugin's test file gives a text of each kind::

    class TestMyBuilder(BuilderContract):
        builder_class = MyBuilder
        good = "x = 4 ; y = 2"
        bad = ("x = 4 ; z = 2",)

The texts are the lines of the builder's block; ``good`` must have a criterion.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from cntk_core.config import parse_text
from cntk_core.contract.builder import BuildContext, NetworkBuilder
from cntk_core.contract.learner import UpdateRule
from cntk_core.contract.store import ParameterStore
from cntk_core.errors import CntkError, Location, Problems
from cntk_core.network.initializers import initialize_parameters
from cntk_core.network.network import Network
from cntk_core.ops.language.layouts import frame_layout
from cntk_core.ops.table import core_ops
from cntk_core.plan.make import make_plan
from cntk_core.records.minibatch import Minibatch, StreamData
from cntk_testing.contract import check_component
from cntk_testing.recipes import RecipeContract
from cntk_testing.reference import ReferenceEngine

FILE = "recipe.cntk"
FRAMES = 5

DESCENT = UpdateRule(
    (), ("rate",), lambda m, value, gradient, slots, scalars: (value - scalars["rate"] * gradient, {}), key="descent"
)


class BuilderContract(RecipeContract):
    """Tests of a builder for pytest: subclass it with ``builder_class``, ``good`` and ``bad``.

    Attributes:
        builder_class: the builder.
        good: the lines of a block that describes a network with a criterion.
        bad: the lines of blocks with a mistake.
        more: further lines of a recipe, after the block.
        streams: what the reader offers: stream name to sample shape (memory order).
    """

    recipe_key: ClassVar[str] = "NetworkBuilder"
    builder_class: ClassVar[type[NetworkBuilder]]
    good: ClassVar[str]
    bad: ClassVar[tuple[str, ...]]
    more: ClassVar[str] = ""
    streams: ClassVar[dict[str, tuple[int, ...]]] = {}

    @pytest.fixture
    def builder(self) -> NetworkBuilder:
        """The builder under test."""
        return self.builder_class()

    @pytest.fixture
    def directory(self, tmp_path: Path) -> Path:
        """Where relative paths of the block start."""
        return tmp_path

    def build(
        self, builder: NetworkBuilder, text: str, directory: Path, dtype: Any = np.float32, seed: int = 1
    ) -> Network:
        """Build the network of a block, with shapes and values."""
        table = core_ops()
        block = parse_text(f"Builder=[\n{text}\n]\n{self.more}", file=FILE).own("Builder")
        context = BuildContext(
            find_op=table.find,
            op_names=lambda language: tuple(table.names(language)),
            dtype=np.dtype(dtype),
            directory=directory,
            random_seed=seed,
            streams=self.streams,
            trace=lambda line: None,
        )
        network = builder.build(block, context)
        network.infer()
        initialize_parameters(network, seed)
        return network

    def test_component(self, builder: NetworkBuilder) -> None:
        """Options are an attrs class; the interface version fits; it is made without arguments."""
        check_component(type(builder))
        type(builder)()

    def test_every_node_has_shape_and_value(self, builder: NetworkBuilder, directory: Path) -> None:
        """Shapes are inferred, and parameters get values of the precision asked for."""
        for dtype in (np.float32, np.float64):
            network = self.build(builder, self.good, directory, dtype)
            assert network.dtype == dtype, f"the network is of {network.dtype} instead of {np.dtype(dtype)}"
            for node in network:
                complete = node.shape is not None and 0 not in node.shape
                assert complete, f"'{node.name}' has the shape {node.shape}"
            for parameter in network.parameters:
                assert parameter.value is not None, f"'{parameter.name}' has no value"
                assert parameter.value.dtype == dtype, f"'{parameter.name}' is of {parameter.value.dtype}"

    def test_every_node_has_a_place(self, builder: NetworkBuilder, directory: Path) -> None:
        """Messages can name the place in the recipe or file that made a node."""
        lost = [node.name for node in self.build(builder, self.good, directory) if not _is_place(node.where)]
        assert not lost, f"nodes without a place: {', '.join(lost)}"

    def test_the_same_text_gives_the_same(self, builder: NetworkBuilder, directory: Path) -> None:
        """Names, order, groups and values depend on the text and the seed alone."""
        first = self.build(builder, self.good, directory)
        for other in (
            self.build(builder, self.good, directory),
            self.build(type(builder)(), self.good, directory),
        ):
            assert [node.describe() for node in other] == [node.describe() for node in first]
            names = {role: [node.name for node in nodes] for role, nodes in first.roots.items()}
            assert {role: [node.name for node in nodes] for role, nodes in other.roots.items()} == names
            for one, two in zip(first.parameters, other.parameters, strict=True):
                assert one.value is not None
                assert two.value is not None
                np.testing.assert_array_equal(one.value, two.value, err_msg=f"value of '{one.name}'")

    def test_one_step_of_training(self, builder: NetworkBuilder, directory: Path) -> None:
        """The network has a criterion, which is a number; a step changes parameters."""
        network = self.build(builder, self.good, directory, np.float64)
        assert network.roots["criterion"], "the network has no criterion"
        criterion = network.roots["criterion"][0]
        for node in network:
            if node.op.role == "precompute":
                node.value = np.ones(node.known_shape, dtype=network.dtype)
        plan = make_plan(network, [*network.roots["evaluation"], *network.roots["output"]], criterion)
        assert plan.trained, "the network has nothing to learn"
        store = ParameterStore(network.parameters, network.dtype)
        before = store.values.copy()
        program = ReferenceEngine().compile(plan, store, DESCENT)
        program.train_step(_minibatch(network), [{"rate": 0.01}] * len(plan.trained))
        value = float(program.value(criterion.name).reshape(-1)[0])
        assert np.isfinite(value), f"the criterion '{criterion.name}' is {value}"
        assert not np.array_equal(store.values, before), "training changes nothing"

    def test_mistakes_have_a_place(self, builder: NetworkBuilder, directory: Path) -> None:
        """A wrong block raises a CntkError with the place of the mistake, and no other exception."""
        for text in self.bad:
            with pytest.raises(CntkError) as caught:
                self.build(builder, text, directory)
            errors = caught.value.errors if isinstance(caught.value, Problems) else (caught.value,)
            for error in errors:
                assert _is_place(error.where), f"an error of [{text}] has no place: {error}"
                assert error.message.strip(), f"an error of [{text}] says nothing"


def _is_place(where: Location | None) -> bool:
    return where is not None and bool(where.file) and where.line > 0


def _minibatch(network: Network) -> Minibatch:
    """Return data for all inputs: a 1 among zeros for labels, random numbers for others."""
    layout, rng = frame_layout(FRAMES), np.random.default_rng(3)
    streams: dict[str, StreamData] = {}
    for node in network.inputs:
        size = int(np.prod(node.known_shape))
        label = node in network.roots["label"] and size > 1
        rows = np.eye(size)[rng.integers(size, size=FRAMES)] if label else rng.uniform(0.1, 0.9, (FRAMES, size))
        streams[node.name] = StreamData(rows.reshape(FRAMES, *node.known_shape), layout)
    return Minibatch(streams, FRAMES)
