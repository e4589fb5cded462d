"""What every engine does with inputs of all kinds: without sequences, without a dynamic axis, of any size."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import attrs
import numpy as np
import pytest
from numpy.typing import NDArray

from cntk_core.contract.engine import ExecutionEngine, Program
from cntk_core.contract.learner import UpdateRule
from cntk_core.contract.store import ParameterStore
from cntk_core.errors import DataError, UnsupportedError
from cntk_core.network.node import BATCH, Input, Node
from cntk_core.ops.families.convolution import ConvolutionAttributes
from cntk_core.ops.families.pooling import PoolingAttributes
from cntk_core.ops.families.reductions import ReduceAttributes
from cntk_core.ops.families.reshaping import ReshapeAttributes
from cntk_core.ops.language.layouts import frame_layout, sequence_layout
from cntk_core.ops.language.shapes import FREE, Free
from cntk_core.plan.make import make_plan
from cntk_core.records.minibatch import Minibatch, StreamData
from cntk_testing.networks import Sample, Sketch
from cntk_testing.reference import ReferenceEngine
from cntk_testing.sequence_networks import FEATURES, HIDDEN, SequenceSketch

IMAGES = ((6, 8), (7, 7), (6, 8))
"""Height and width of the images in minibatches that follow each other."""

SAMPLES_EACH = (3, 2, 4)
"""How many there are in each."""

RATE = 0.1

Array = NDArray[Any]


def _descent(
    m: Any, value: Any, gradient: Any, slots: Mapping[str, Any], scalars: Mapping[str, Any]
) -> tuple[Any, Mapping[str, Any]]:
    return value - scalars["rate"] * gradient, {}


DESCENT = UpdateRule((), ("rate",), _descent, key="contract.descent")


def conditioned(dtype: Any) -> Sample:
    """A loop over sequences with a value for each sequence as its initial state and in each step, and a constant."""
    made = SequenceSketch(dtype)
    topic = made.network.add(Input.make("topic", (HIDDEN,), axis=BATCH))
    scale = made.network.add(Input.make("scale", (HIDDEN,), framed=False))
    first = made.op("Tanh", made.op("ElementTimes", topic, scale), name="first")
    each = made.op("ReconcileDynamicAxis", first, made.x, name="each")
    past, close = made.delay()
    h = close(made.op("Tanh", made.weighted((made.x, FEATURES), (past, HIDDEN), (each, HIDDEN)), name="h"), first)
    power = made.op("SumElements", made.op("ElementTimes", made.parameter("w", HIDDEN), scale), name="power")
    total = made.op("SumElements", made.op("ElementTimes", h, scale))
    return made.finish(made.op("Plus", total, power, name="total"), h, each, first, power)


def conditioned_data(sample: Sample, lengths: Sequence[int], seed: int) -> Minibatch:
    """Return random data for such a network."""
    rng, dtype = np.random.default_rng(seed), sample.network.dtype
    layout = sequence_layout(lengths)
    streams = {
        "x": StreamData(rng.normal(size=(layout.frames, FEATURES)).astype(dtype), layout),
        "topic": StreamData(rng.normal(size=(len(lengths), HIDDEN)).astype(dtype), frame_layout(len(lengths))),
        "scale": StreamData(rng.normal(size=(1, HIDDEN)).astype(dtype), frame_layout(1)),
    }
    return Minibatch(streams, layout.frames)


def images(dtype: Any, height: int = FREE, width: int = FREE) -> Sample:
    """A convolutional network with a shortcut, pooling over all of what is left, and a square error."""
    made = Sketch(dtype)
    x = made.network.add(Input.make("x", (2, height, width)))
    mask = made.network.add(Input.make("mask", (height, width)))
    target = made.input("target", 3)
    maps, kept = ConvolutionAttributes((3, 3), (2,)), ConvolutionAttributes((3, 3), (4,), (2, 2))
    masked = made.op("ElementTimes", made.op("Plus", x, made.parameter("b", 2, 1, 1)), mask)
    first = made.op("Tanh", made.op("Convolution", made.parameter("F0", 2, 2, 3, 3), masked, attributes=maps))
    both = made.op("RowStack", made.op("Reshape", made.op("Plus", first, x), attributes=ReshapeAttributes((0,), 1, 3)))
    large = made.op("ReduceElements", both, attributes=ReduceAttributes("Max", 1), name="large")
    pooled = made.op("Pooling", first, attributes=PoolingAttributes((2, 2), "max", (2,), (False,)))
    second = made.op("Convolution", made.parameter("F1", 4, 2, 3, 3), pooled, attributes=kept, name="second")
    whole = made.op("Pooling", second, attributes=PoolingAttributes((), "average", auto_padding=(False,)))
    z = made.op("Plus", made.op("Times", made.parameter("W", 4, 1, 1, 3), whole), made.parameter("c", 3), name="z")
    error = made.op("SquareError", target, z, name="se")
    return made.finish(error, z, second, large)


def images_data(sample: Sample, number: int) -> Minibatch:
    """Return the random data of one of the minibatches."""
    rng, dtype = np.random.default_rng(number), sample.network.dtype
    size, count = IMAGES[number], SAMPLES_EACH[number]
    shapes = {"x": (2, *size), "mask": size, "target": (3,)}
    streams = {
        name: StreamData(rng.normal(size=(count, *shape)).astype(dtype), frame_layout(count))
        for name, shape in shapes.items()
    }
    return Minibatch(streams, count)


@attrs.define
class _Run:
    """A program with its store."""

    sample: Sample
    store: ParameterStore
    program: Program

    @classmethod
    def of(
        cls, engine: ExecutionEngine, sample: Sample, rule: UpdateRule | None = None, *, training: bool = True
    ) -> Any:
        """Compile a network."""
        store = ParameterStore(sample.network.parameters, sample.network.dtype)
        plan = make_plan(sample.network, sample.roots, sample.criterion if training else None)
        program = engine.compile(plan, store, rule, seed=3)
        program.begin_epoch(0)
        return cls(sample, store, program)

    def step(self, data: Minibatch) -> None:
        """Train on a minibatch."""
        self.program.train_step(data, [{"rate": RATE}] * len(self.program.plan.trained))


@pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")
class InputsContract:
    """Tests of an engine for pytest; :class:`~cntk_testing.engine_contract.EngineContract` has them.

    Attributes:
        supports_free_dimensions: it takes inputs whose sizes each minibatch brings.
        supports_empty_minibatches: it takes minibatches without frames.
    """

    supports_sequences: ClassVar[bool]
    supports_free_dimensions: ClassVar[bool] = True
    supports_empty_minibatches: ClassVar[bool] = True
    assert_close: Callable[..., None]

    def test_inputs_without_sequences(self, engine: ExecutionEngine, dtype: str) -> None:
        """An input of the batch axis, and one without a dynamic axis, beside sequences."""
        if not self.supports_sequences:
            pytest.skip("the engine takes no sequences")
        ours, reference = (_Run.of(each, conditioned(dtype), DESCENT) for each in (engine, ReferenceEngine()))
        for seed, lengths in enumerate(([3, 1, 2], [1, 1], [2, 4])):
            data = conditioned_data(ours.sample, lengths, seed)
            for run in (ours, reference):
                run.program.compute_gradients(data)
            self._same(ours, reference, dtype)
            for run in (ours, reference):
                run.step(data)
        assert ours.program.layout("each").steps == 4
        assert ours.program.layout("first").is_frames

    def test_sequences_for_an_input_without_are_refused(self, engine: ExecutionEngine) -> None:
        """The error names the axes of the input."""
        if not self.supports_sequences:
            pytest.skip("the engine takes no sequences")
        run = _Run.of(engine, conditioned("float32"))
        data = conditioned_data(run.sample, [2, 1], 0)
        for name, message in (
            ("topic", r"the input 'topic' has the axes \[batch\], but its stream has sequences"),
            ("scale", "the input 'scale' has no dynamic axis, but its stream has 3 frames"),
        ):
            wrong = StreamData(np.zeros((3, HIDDEN), "float32"), sequence_layout([2, 1]))
            with pytest.raises(DataError, match=message):
                run.program.evaluate(Minibatch({**data.streams, name: wrong}, 3))

    def test_no_dynamic_axis_at_all(self, engine: ExecutionEngine, dtype: str) -> None:
        """Constants, parameters and inputs without frames are roots, alone and in expressions."""
        made = Sketch(dtype)
        given = made.network.add(Input.make("given", (2, 3), framed=False))
        weights = made.parameter("W", 3, 2)
        sample = made.finish(
            None,
            made.op("Times", weights, given, name="product"),
            made.op("Exp", weights, name="alone"),
            weights,
            given,
        )
        run = _Run.of(engine, sample, training=False)
        fixed = np.array(weights.value, np.float64)
        for seed in range(2):
            value = np.random.default_rng(seed).normal(size=(2, 3)).astype(dtype)
            run.program.evaluate(Minibatch({"given": StreamData(value[None], frame_layout(1))}, 1))
            expected = {"product": value @ fixed, "alone": np.exp(fixed), "W": fixed, "given": value}
            for name, array in expected.items():
                self.assert_close(run.program.value(name), array, dtype, name)
        sample.roots = sample.roots[1:3]
        run = _Run.of(engine, sample, training=False)
        run.program.evaluate(Minibatch({}, 1))
        for name in ("alone", "W"):
            self.assert_close(run.program.value(name), expected[name], dtype, name)

    def test_free_dimensions(self, engine: ExecutionEngine, dtype: str) -> None:
        """Images of several sizes give what networks of these sizes give, one after the other: values and gradients."""
        self._need_free()
        ours = _Run.of(engine, images(dtype))
        total = 0.0
        for number, size in enumerate(IMAGES):
            fixed = _Run.of(ReferenceEngine(), images(dtype, *size))
            for run in (ours, fixed):
                run.program.compute_gradients(images_data(ours.sample, number))
            self._same(ours, fixed, dtype)
            total += fixed.program.read_totals()["se"]
        self.assert_close(ours.program.read_totals()["se"], total, dtype, "total")
        assert ours.program.step == len(IMAGES)
        if self.supports_empty_minibatches:
            # A rank without a share of a minibatch does not know the sizes in it.
            none = {name: np.zeros((0, *shape), dtype) for name, shape in (("x", (2, 0, 0)), ("mask", (0, 0)))}
            none["target"] = np.zeros((0, 3), dtype)
            streams = {name: StreamData(array, frame_layout(0)) for name, array in none.items()}
            ours.program.compute_gradients(Minibatch(streams, 0))
            assert not any(ours.store.gradient(parameter).any() for parameter in ours.program.plan.trained)

    def test_training_on_free_dimensions(self, engine: ExecutionEngine, dtype: str) -> None:
        """So does training: parameters change as if networks of fixed size took turns."""
        self._need_free()
        ours = _Run.of(engine, images(dtype), DESCENT)
        values = {parameter.name: ours.store.value(parameter).copy() for parameter in ours.store.parameters}
        for number, size in enumerate(IMAGES):
            data = images_data(ours.sample, number)
            fixed = _Run.of(ReferenceEngine(), images(dtype, *size), DESCENT)
            for parameter in fixed.store.parameters:
                fixed.store.value(parameter)[...] = values[parameter.name]
            fixed.step(data)
            if number % 2:
                ours.program.compute_gradients(data)
                ours.program.update([{"rate": RATE}] * len(ours.program.plan.trained))
            else:
                ours.step(data)
            for parameter in fixed.store.parameters:
                values[parameter.name] = fixed.store.value(parameter).copy()
                found = ours.store.value(ours.sample.network[parameter.name])
                self.assert_close(found, values[parameter.name], dtype, parameter.name)

    def test_sizes_that_do_not_fit_are_refused(self, engine: ExecutionEngine) -> None:
        """The error names the input, or the node that has no shape with such sizes."""
        self._need_free()
        run = _Run.of(engine, images("float32"), training=False)
        good = images_data(run.sample, 1).streams
        for name, size, message in (
            ("x", (3, 7, 7), r"the input 'x' is \[\? x \? x 2\], but its stream gives samples of \[7 x 7 x 3\]"),
            ("mask", (7, 8), r"in a minibatch where 'x' is \[7 x 7 x 2\] and 'mask' is \[8 x 7\]: ElementTimes"),
        ):
            wrong = StreamData(np.zeros((2, *size), "float32"), frame_layout(2))
            with pytest.raises(DataError, match=message):
                run.program.evaluate(Minibatch({**good, name: wrong}, 2))

    def test_a_named_dimension_is_one(self, engine: ExecutionEngine) -> None:
        """A free dimension with a name has one size in all inputs."""
        self._need_free()
        made = Sketch("float32")
        x, y = (made.network.add(Input.make(name, (Free("height"), 2))) for name in "xy")
        run = _Run.of(engine, made.finish(None, made.op("Plus", x, y, name="z")), training=False)

        def data(*heights: int) -> Minibatch:
            arrays = [np.full((2, height, 2), height, "float32") for height in heights]
            named = zip("xy", arrays, strict=True)
            return Minibatch({name: StreamData(array, frame_layout(2)) for name, array in named}, 2)

        run.program.evaluate(data(3, 3))
        np.testing.assert_array_equal(run.program.value("z"), np.full((2, 3, 2), 6))
        with pytest.raises(DataError, match="the dimension 'height' is 1 in 'x' and 3 in 'y'"):
            run.program.evaluate(data(1, 3))

    def test_programs_can_be_pickled(self, engine: ExecutionEngine, dtype: str) -> None:
        """What is read again goes on as the program would have, on parameters of its own."""
        samples: list[tuple[Sample, Callable[[Sample, int], Minibatch]]] = [(_classes(dtype), Sample.minibatch)]
        samples += [(images(dtype), images_data)] if self.supports_free_dimensions else []
        for sample, data in samples:
            run = _Run.of(engine, sample, DESCENT)
            run.step(data(sample, 2))
            try:
                other = pickle.loads(pickle.dumps(run.program))
            except UnsupportedError:
                pytest.skip("the engine does not say how its programs were made")
            for program in (run.program, other):
                program.train_step(data(sample, 1), [{"rate": RATE}] * len(program.plan.trained))
            assert other.step == run.program.step
            for node in run.program.plan.roots:
                np.testing.assert_array_equal(other.value(node.name), run.program.value(node.name))
            assert other.read_totals() == run.program.read_totals()

    def _need_free(self) -> None:
        if not self.supports_free_dimensions:
            pytest.skip("the engine takes no free dimensions")

    def _same(self, ours: _Run, reference: _Run, dtype: str) -> None:
        for node in ours.program.plan.roots:
            found, expected = ours.program.value(node.name), reference.program.value(node.name)
            self.assert_close(found, expected, dtype, f"value of '{node.name}'")
        for parameter in reference.program.plan.trained:
            own: Node = ours.sample.network[parameter.name]
            assert own in ours.program.plan.trained
            found, expected = ours.store.gradient(own), reference.store.gradient(parameter)
            self.assert_close(found, expected, dtype, f"gradient of '{parameter.name}'")


def _classes(dtype: Any) -> Sample:
    made = Sketch(dtype)
    x, target = made.input("x", 4), made.input("target", 3)
    z = made.op("Tanh", made.dense(x, (4, 3), 0), name="z")
    return made.finish(made.op("SquareError", target, z, name="se"), z)
