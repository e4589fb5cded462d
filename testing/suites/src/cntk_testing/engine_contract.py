"""The contract of an execution engine: it computes what the reference engine computes.

A plugin's test file gives the engine, or one with options as a fixture ``engine``::

    class TestMyEngine(EngineContract):
        engine_class = MyEngine
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import attrs
import numpy as np
import pytest
from numpy.typing import NDArray

from cntk_core.contract.engine import ExecutionEngine, Program
from cntk_core.contract.learner import Slot, UpdateRule
from cntk_core.contract.store import ParameterStore
from cntk_core.errors import DataError, NetworkError
from cntk_core.ops.language.layouts import frame_layout
from cntk_core.ops.table import core_ops
from cntk_core.plan.make import make_plan
from cntk_core.plan.plan import Plan
from cntk_core.records.minibatch import Minibatch, StreamData
from cntk_kit_engines.timing import measured
from cntk_testing.contract import check_component
from cntk_testing.foreign_ops import ForeignOpsContract
from cntk_testing.gradient_contract import GradientContract
from cntk_testing.input_contract import InputsContract
from cntk_testing.lattice_networks import LATTICE_SAMPLES, utterances_for
from cntk_testing.networks import SAMPLES, Sample, classifier, dropout
from cntk_testing.op_cases import ExampleCase
from cntk_testing.op_examples import EXAMPLES
from cntk_testing.op_networks import cases_together, network_of
from cntk_testing.reference import ReferenceEngine
from cntk_testing.sequence_networks import SEQUENCE_SAMPLES, sequences_for
from cntk_testing.sparse_networks import SPARSE_SAMPLES, product, sparse_stream, with_sparse_streams
from cntk_testing.trainer_contract import TrainerContract

SIZES = (32, 7, 1, 50, 7)
"""Frames of the minibatches that follow each other."""

LENGTHS = ([3, 1, 0, 2], [1, 4], [2, 2, 5, 1, 1])
"""Lengths of the sequences of minibatches that follow each other."""

UTTERANCES = {**SEQUENCE_SAMPLES, **LATTICE_SAMPLES}

Array = NDArray[Any]


def _momentum(
    m: Any, value: Any, gradient: Any, slots: Mapping[str, Any], scalars: Mapping[str, Any]
) -> tuple[Any, Mapping[str, Any]]:
    smoothed = scalars["momentum"] * slots["smoothed"] + scalars["rate"] * gradient
    return value - smoothed, {"smoothed": smoothed}


def _adaptive(
    m: Any, value: Any, gradient: Any, slots: Mapping[str, Any], scalars: Mapping[str, Any]
) -> tuple[Any, Mapping[str, Any]]:
    limited = m.minimum(m.maximum(gradient, -scalars["limit"]), scalars["limit"])
    squares = slots["squares"] + limited * limited
    return value - scalars["rate"] * limited / m.sqrt(squares), {"squares": squares}


def _normalized(
    m: Any, value: Any, gradient: Any, slots: Mapping[str, Any], scalars: Mapping[str, Any]
) -> tuple[Any, Mapping[str, Any]]:
    squares = slots["squares"] + gradient * gradient
    step = scalars["rate"] / scalars["size"] * gradient
    return value - step / (1.0 + scalars["momentum"] * scalars["spread"]), {"squares": squares}


def _sizes(
    m: Any, value: Any, gradient: Any, slots: Mapping[str, Any], scalars: Mapping[str, Any]
) -> Mapping[str, Any]:
    limited = m.minimum(m.abs(value), scalars["limit"])
    return {"size": 1.0 + limited, "spread": m.sqrt(slots["squares"] + gradient * gradient)}


MOMENTUM = UpdateRule((Slot("smoothed"),), ("rate", "momentum"), _momentum, key="contract.momentum")
ADAPTIVE = UpdateRule((Slot("squares", 0.1),), ("rate", "limit"), _adaptive, False, key="contract.adaptive")
NORMALIZED = UpdateRule(
    (Slot("squares", 0.1),),
    ("rate", "momentum", "limit"),
    _normalized,
    key="contract.normalized",
    means=("size", "spread"),
    mean_expression=_sizes,
)
RULES = {"momentum": MOMENTUM, "adaptive": ADAPTIVE, "normalized": NORMALIZED}


@attrs.define
class Run:
    """A network with a program that computes it."""

    sample: Sample
    plan: Plan
    store: ParameterStore
    program: Program

    def numbers(self, step: int = 0) -> list[dict[str, float]]:
        """The scalars of all rules for each trained parameter; they change from step to step."""
        return [
            {
                "rate": 0.01 / (1 + step) * parameter.learning_rate_multiplier,
                "momentum": 0.5 + 0.1 * (step % 3),
                "limit": 0.3,
            }
            for parameter in self.plan.trained
        ]

    def scalars(self, rule: UpdateRule, step: int = 0) -> list[dict[str, float]]:
        """The scalars of one rule."""
        return [{name: numbers[name] for name in rule.scalars} for numbers in self.numbers(step)]

    def values(self) -> list[Array]:
        """Copies of all parameters."""
        return [self.store.value(parameter).copy() for parameter in self.store.parameters]


def start(
    engine: ExecutionEngine,
    sample: Sample,
    *,
    rule: UpdateRule | None = None,
    training: bool = True,
    fuse: bool = True,
    seed: int = 5,
) -> Run:
    """Compile a network with a store of its own."""
    plan = make_plan(sample.network, sample.roots, sample.criterion if training else None, fuse=fuse)
    store = ParameterStore(sample.network.parameters, sample.network.dtype)
    program = engine.compile(plan, store, rule, seed=seed)
    program.begin_epoch(0, sample.settings)
    return Run(sample, plan, store, program)


@pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")
class EngineContract(TrainerContract, GradientContract, ForeignOpsContract, InputsContract):
    """Tests of an engine for pytest: subclass it with ``engine_class`` or a fixture ``engine``.

    Attributes:
        engine_class: the engine, made with its default options.
        supports_double: it computes in float64 too.
        supports_sparse: it takes sparse streams.
        supports_sequences: it computes recurrent networks and operations on sequences.
        unsupported_ops: names of ops of the core that it does not compute.
        sizes: frames of the minibatches that follow each other; one that compiles for each size takes fewer.
        lengths: of the sequences of minibatches that follow each other.
        array_module: the name of the module whose arrays ops that are pure over ``xp`` are given.
        tolerance: largest error, by precision, relative to the largest element (at least 1).
    """

    recipe_key: ClassVar[str] = "engine"
    engine_class: ClassVar[type[ExecutionEngine]]
    supports_double: ClassVar[bool] = True
    supports_sparse: ClassVar[bool] = True
    supports_sequences: ClassVar[bool] = True
    unsupported_ops: ClassVar[frozenset[str]] = frozenset()
    sizes: ClassVar[Sequence[int]] = SIZES
    lengths: ClassVar[Sequence[list[int]]] = LENGTHS
    tolerance: ClassVar[Mapping[str, float]] = {"float32": 1e-4, "float64": 1e-10}

    @pytest.fixture
    def engine(self) -> ExecutionEngine:
        """The engine under test."""
        return self.engine_class()

    @pytest.fixture(params=["float32", "float64"])
    def dtype(self, request: pytest.FixtureRequest) -> str:
        """Each precision that the engine has."""
        if request.param == "float64" and not self.supports_double:
            pytest.skip("the engine has no double precision")
        return str(request.param)

    def assert_close(self, found: Any, expected: Any, dtype: str, what: str) -> None:
        """Fail if arrays differ by more than the precision's tolerance, or in NaN and infinities."""
        one, other = np.asarray(found, dtype=np.float64), np.asarray(expected, dtype=np.float64)
        assert one.shape == other.shape, f"{what} has shape {one.shape} instead of {other.shape}"
        finite = np.isfinite(other)
        np.testing.assert_array_equal(np.where(finite, 0.0, other), np.where(np.isfinite(one), 0.0, one), err_msg=what)
        scale = max(1.0, float(np.max(np.abs(other[finite]), initial=0.0)))
        worst = float(np.max(np.abs(one[finite] - other[finite]), initial=0.0)) / scale
        assert worst <= self.tolerance[dtype], f"{what}: relative error {worst:.2e}\nfound\n{one}\nexpected\n{other}"

    def assert_same_roots(self, ours: Run, reference: Run, dtype: str) -> None:
        """Compare the values of all roots after a run."""
        for node, expected in zip(ours.plan.roots, reference.plan.roots, strict=True):
            found = ours.program.value(node.name)
            self.assert_close(found, reference.program.value(expected.name), dtype, f"value of '{node.name}'")

    def assert_same_totals(self, ours: Run, reference: Run, dtype: str) -> None:
        """Compare and reset the totals."""
        found, expected = ours.program.read_totals(), reference.program.read_totals()
        assert set(found) == set(expected), f"totals of {sorted(found)} instead of {sorted(expected)}"
        for name, total in expected.items():
            self.assert_close([found[name]], [total], dtype, f"total of '{name}'")

    def assert_same_gradients(self, ours: Run, reference: Run, dtype: str) -> None:
        """Compare the gradients of all trained parameters."""
        for one, other in zip(ours.plan.trained, reference.plan.trained, strict=True):
            found, expected = ours.store.gradient(one), reference.store.gradient(other)
            self.assert_close(found, expected, dtype, f"gradient of '{one.name}'")

    def assert_same_changes(self, ours: Run, reference: Run, before: Sequence[Array], dtype: str) -> None:
        """Compare by how much every parameter has changed; sums of many steps round in the parameter's precision."""
        for index, (one, other) in enumerate(zip(ours.store.parameters, reference.store.parameters, strict=True)):
            found = ours.store.value(one).astype(np.float64) - before[index]
            expected = reference.store.value(other).astype(np.float64) - before[index]
            rounding = 8 * np.finfo(dtype).eps * float(np.max(np.abs(before[index]), initial=1.0))
            allowed = 10 * self.tolerance[dtype] * float(np.max(np.abs(expected), initial=0.0)) + rounding
            worst = float(np.max(np.abs(found - expected), initial=0.0))
            assert worst <= allowed, f"the change of '{one.name}' differs by {worst:.2e}; allowed is {allowed:.2e}"

    def test_component(self, engine: ExecutionEngine) -> None:
        """Options are an attrs class; the interface version fits; availability does not raise."""
        check_component(type(engine))
        type(engine).availability()

    @pytest.mark.parametrize("name", SAMPLES)
    def test_values(self, engine: ExecutionEngine, name: str, dtype: str) -> None:
        """Values of roots and totals are the reference's, for minibatches of changing size."""
        made = [SAMPLES[name](dtype), SAMPLES[name](dtype)]
        ours, reference = start(engine, made[0], training=False), start(ReferenceEngine(), made[1], training=False)
        for seed, frames in enumerate(self.sizes):
            for run in (ours, reference):
                run.program.evaluate(run.sample.minibatch(frames, seed))
            self.assert_same_roots(ours, reference, dtype)
        self.assert_same_totals(ours, reference, dtype)
        assert not any(ours.program.read_totals().values()), "read_totals does not set the totals to zero"

    @pytest.mark.parametrize("fuse", [True, False], ids=["fused", "plain"])
    @pytest.mark.parametrize("name", SAMPLES)
    def test_gradients(self, engine: ExecutionEngine, name: str, dtype: str, fuse: bool) -> None:
        """Gradients are the reference's, for minibatches of changing size."""
        ours = start(engine, SAMPLES[name](dtype), fuse=fuse)
        reference = start(ReferenceEngine(), SAMPLES[name](dtype), fuse=fuse)
        for seed, frames in enumerate(self.sizes):
            for run in (ours, reference):
                run.program.compute_gradients(run.sample.minibatch(frames, seed))
            self.assert_same_roots(ours, reference, dtype)
            self.assert_same_gradients(ours, reference, dtype)
        self.assert_same_totals(ours, reference, dtype)

    @pytest.mark.parametrize("whole", [True, False], ids=["train_step", "two_calls"])
    @pytest.mark.parametrize("rule", RULES)
    @pytest.mark.parametrize("name", SAMPLES)
    def test_updates(self, engine: ExecutionEngine, name: str, rule: str, dtype: str, whole: bool) -> None:
        """Every parameter changes as the reference's does; a whole step does what its two halves do."""
        ours = start(engine, SAMPLES[name](dtype), rule=RULES[rule])
        reference = start(ReferenceEngine(), SAMPLES[name](dtype), rule=RULES[rule])
        before = ours.values()
        for step, frames in enumerate(self.sizes):
            data = ours.sample.minibatch(frames, step)
            if whole:
                ours.program.train_step(data, ours.scalars(RULES[rule], step))
            else:
                ours.program.compute_gradients(data)
                ours.program.update(ours.scalars(RULES[rule], step))
            reference.program.train_step(data, reference.scalars(RULES[rule], step))
            self.assert_same_changes(ours, reference, before, dtype)
        self.assert_same_totals(ours, reference, dtype)
        assert ours.program.step == reference.program.step, "step does not count the minibatches"

    @pytest.mark.parametrize("op", EXAMPLES)
    def test_op(self, engine: ExecutionEngine, op: str, dtype: str) -> None:
        """Each op of the core, on the examples of its contract: the value, and the gradients to all inputs."""
        if op in self.unsupported_ops:
            pytest.skip(f"the engine has no {op}")
        found = core_ops().find("", op)
        assert found is not None
        for cases in cases_together(found, EXAMPLES[op]):
            ours, reference = _run_cases(engine, cases, dtype), _run_cases(ReferenceEngine(), cases, dtype)
            self.assert_same_roots(ours, reference, dtype)
            self.assert_same_gradients(ours, reference, dtype)

    @pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf], ids=str)
    @pytest.mark.parametrize("name", ["classifier", "rectified", "chain", "reductions", "softmaxes"])
    def test_nan_and_infinities_show(self, engine: ExecutionEngine, name: str, bad: float, dtype: str) -> None:
        """What is not a number comes out where the reference has it."""
        ours, reference = start(engine, SAMPLES[name](dtype)), start(ReferenceEngine(), SAMPLES[name](dtype))
        for run in (ours, reference):
            data = run.sample.minibatch(5)
            x = data.streams["x"].data
            assert isinstance(x, np.ndarray)
            x[2, 0] = bad
            run.program.evaluate(data)
        self.assert_same_roots(ours, reference, dtype)

    def test_random_numbers_are_those_of_every_engine(self, engine: ExecutionEngine, dtype: str) -> None:
        """Dropout depends on seed, epoch and minibatch, not on what ran before; it is off in evaluation."""
        ours, reference = start(engine, dropout(dtype), seed=9), start(ReferenceEngine(), dropout(dtype), seed=9)
        ours.program.compute_gradients(ours.sample.minibatch(7))
        for run in (ours, reference):
            run.program.begin_epoch(3, {"dropoutRate": 0.25}, minibatches_done=2)
            run.program.compute_gradients(run.sample.minibatch(7))
        self.assert_same_roots(ours, reference, dtype)
        for run in (ours, reference):
            run.program.evaluate(run.sample.minibatch(7))
        self.assert_same_roots(ours, reference, dtype)

    def test_a_program_goes_on_from_the_state_of_another(self, engine: ExecutionEngine, dtype: str) -> None:
        """Asking for the state changes nothing, and a new program goes on from it to the last bit."""
        whole = start(engine, dropout(dtype), seed=9)
        first, second = start(engine, dropout(dtype), seed=9), start(engine, dropout(dtype), seed=9)
        if first.program.state() is None:
            pytest.skip("the engine cannot be saved inside an epoch")
        runs = [(whole, range(6)), (first, range(3)), (second, range(3, 6))]
        for run, steps in runs:
            run.program.begin_epoch(1, {"dropoutRate": 0.25}, minibatches_done=steps.start)
            run.program.read_totals()
            if run is second:
                found = first.program.state()
                assert found is not None
                run.program.restore(found)
            for step in steps:
                run.program.compute_gradients(run.sample.minibatch(7 + step, step))
                run.program.state()
        assert second.program.read_totals() == whole.program.read_totals()
        for node in whole.plan.roots:
            np.testing.assert_array_equal(second.program.value(node.name), whole.program.value(node.name))

    def test_programs_share_a_store(self, engine: ExecutionEngine, dtype: str) -> None:
        """A program for evaluation sees what another has learned, and does not disturb it."""
        ours = start(engine, classifier(dtype), rule=MOMENTUM)
        reference = start(ReferenceEngine(), classifier(dtype), rule=MOMENTUM)
        data = ours.sample.minibatch(8)
        before = ours.values()
        for run in (ours, reference):
            maker = engine if run is ours else ReferenceEngine()
            watch = maker.compile(make_plan(run.sample.network, run.sample.roots), run.store)
            for step in range(3):
                run.program.train_step(data, run.scalars(MOMENTUM, step))
                watch.evaluate(run.sample.minibatch(11))
            run.program = watch
        self.assert_same_changes(ours, reference, before, dtype)
        name = ours.sample.roots[0].name
        self.assert_close(ours.program.value(name), reference.program.value(name), dtype, f"value of '{name}'")

    @pytest.mark.parametrize("whole", [True, False], ids=["train_step", "two_calls"])
    @pytest.mark.parametrize("name", ["classifier", "gru", "sparse"])
    def test_measuring_changes_nothing(self, engine: ExecutionEngine, name: str, dtype: str, whole: bool) -> None:
        """A program that is measured learns what it learns otherwise, and tells steps of its plan, each once a run."""
        if not (self.supports_sparse if name == "sparse" else self.supports_sequences or name == "classifier"):
            pytest.skip(f"the engine has no {name} networks")
        sample = {**SAMPLES, **SEQUENCE_SAMPLES, "sparse": SPARSE_SAMPLES["product"]}[name]
        with measured() as found:
            ours = start(engine, sample(dtype), rule=MOMENTUM)
        reference = start(ReferenceEngine(), sample(dtype), rule=MOMENTUM)
        before, minibatches = ours.values(), self._changing_minibatches(ours.sample, name)
        for step, data in enumerate(minibatches):
            if whole:
                ours.program.train_step(data, ours.scalars(MOMENTUM, step))
            else:
                ours.program.compute_gradients(data)
                ours.program.update(ours.scalars(MOMENTUM, step))
            reference.program.train_step(data, reference.scalars(MOMENTUM, step))
            self.assert_same_changes(ours, reference, before, dtype)
        self.assert_same_totals(ours, reference, dtype)
        calls = ["train_step"] if whole else ["compute_gradients", "update"]
        assert [run.call for run in found.runs] == calls * len(minibatches)
        steps = {*ours.plan.steps, *ours.plan.gradients}
        for run in found.runs:
            told = [each.step for each in run.steps if each.step is not None]
            assert len(told) == len(set(told)), "a step is told twice"
            assert set(told) <= steps
            ends = [run.begin, *(time for each in run.steps for time in (each.begin, each.end)), run.end]
            assert ends == sorted(ends), "times overlap"

    def _changing_minibatches(self, sample: Sample, name: str) -> list[Minibatch]:
        if name == "gru":
            return [sequences_for(sample, lengths, seed) for seed, lengths in enumerate(self.lengths)]
        made = [sample.minibatch(frames, seed) for seed, frames in enumerate(self.sizes)]
        if name == "sparse":
            return [with_sparse_streams(data, sample, seed) for seed, data in enumerate(made)]
        return made

    def test_a_value_is_a_copy(self, engine: ExecutionEngine) -> None:
        """A value that was read stays what it was, and changing it changes nothing; case of names does not count."""
        run = start(engine, classifier("float32"), training=False)
        run.program.evaluate(run.sample.minibatch(4))
        first = run.program.value("ERR")
        kept = first.copy()
        run.program.evaluate(run.sample.minibatch(40, seed=1))
        np.testing.assert_array_equal(first, kept)
        second = run.program.value("err")
        kept = second.copy()
        second[...] = -1.0
        np.testing.assert_array_equal(run.program.value("err"), kept)

    def test_sparse_streams(self, engine: ExecutionEngine, dtype: str) -> None:
        """A sparse stream gives what the same numbers give as a dense one."""
        if not self.supports_sparse:
            pytest.skip("the engine takes no sparse streams")
        ours, reference = start(engine, product(dtype)), start(ReferenceEngine(), product(dtype))
        for frames in (6, 2):
            rows = np.zeros((frames, 9), dtype=dtype)
            rows[np.arange(frames), np.arange(frames) % 4 + 3] = 1.5
            target = ours.sample.minibatch(frames).streams["target"]
            ours.program.compute_gradients(Minibatch({"x": sparse_stream(rows), "target": target}, frames))
            dense = StreamData(rows, frame_layout(frames))
            reference.program.compute_gradients(Minibatch({"x": dense, "target": target}, frames))
            self.assert_same_roots(ours, reference, dtype)
            self.assert_same_gradients(ours, reference, dtype)

    @pytest.mark.parametrize("whole", [True, False], ids=["train_step", "two_calls"])
    @pytest.mark.parametrize("rule", RULES)
    @pytest.mark.parametrize("name", SPARSE_SAMPLES)
    def test_sparse_updates(self, engine: ExecutionEngine, name: str, rule: str, dtype: str, whole: bool) -> None:
        """Rows of a sparse gradient that do not occur keep their values and slots, as those of the reference do."""
        if not self.supports_sparse:
            pytest.skip("the engine takes no sparse streams")
        ours = start(engine, SPARSE_SAMPLES[name](dtype), rule=RULES[rule])
        reference = start(ReferenceEngine(), SPARSE_SAMPLES[name](dtype), rule=RULES[rule])
        before = ours.values()
        for step, frames in enumerate(self.sizes):
            data = with_sparse_streams(ours.sample.minibatch(frames, step), ours.sample, step)
            if whole:
                ours.program.train_step(data, ours.scalars(RULES[rule], step))
            else:
                ours.program.compute_gradients(data)
                ours.program.update(ours.scalars(RULES[rule], step))
            reference.program.train_step(data, reference.scalars(RULES[rule], step))
            self.assert_same_changes(ours, reference, before, dtype)
        self.assert_same_roots(ours, reference, dtype)

    @pytest.mark.parametrize("name", UTTERANCES)
    def test_sequences(self, engine: ExecutionEngine, name: str, dtype: str) -> None:
        """Minibatches of sequences, each shaped otherwise, change every parameter as the reference does."""
        if not self.supports_sequences:
            pytest.skip("the engine takes no sequences")
        ours = start(engine, UTTERANCES[name](dtype), rule=MOMENTUM)
        reference = start(ReferenceEngine(), UTTERANCES[name](dtype), rule=MOMENTUM)
        before = ours.values()
        for step, lengths in enumerate(self.lengths):
            data = utterances_for(ours.sample, lengths, step)
            for run in (ours, reference):
                run.program.compute_gradients(data)
            self.assert_same_roots(ours, reference, dtype)
            self.assert_same_gradients(ours, reference, dtype)
            for run in (ours, reference):
                run.program.train_step(data, run.scalars(MOMENTUM, step))
            self.assert_same_changes(ours, reference, before, dtype)
        self.assert_same_totals(ours, reference, dtype)

    def test_a_minibatch_without_frames(self, engine: ExecutionEngine, dtype: str) -> None:
        """A rank may have no share of a minibatch: the gradients are zero then."""
        if not self.supports_empty_minibatches:
            pytest.skip("the engine takes no minibatch without frames")
        run = start(engine, classifier(dtype), rule=MOMENTUM)
        for frames in (5, 0):
            run.program.compute_gradients(run.sample.minibatch(frames))
        assert all(not run.store.gradient(parameter).any() for parameter in run.plan.trained)
        run.program.compute_gradients(run.sample.minibatch(5))
        assert all(run.store.gradient(parameter).any() for parameter in run.plan.trained)

    def test_mistakes(self, engine: ExecutionEngine) -> None:
        """Unknown roots, values that were not computed, missing streams, gradients and rules are named."""
        run = start(engine, classifier("float32"), training=False)
        data = run.sample.minibatch(3)
        with pytest.raises(NetworkError, match="err"):
            run.program.value("err")
        with pytest.raises(NetworkError, match="no_such_root"):
            run.program.value("no_such_root")
        with pytest.raises(DataError, match="labels"):
            run.program.evaluate(Minibatch({"x": data.streams["x"]}, 3))
        with pytest.raises(NetworkError):
            run.program.compute_gradients(data)
        with pytest.raises(NetworkError):
            start(engine, classifier("float32")).program.update([])


def _run_cases(engine: ExecutionEngine, cases: Sequence[ExampleCase], dtype: str) -> Run:
    sample, data = network_of(cases, dtype)
    run = start(engine, sample)
    if sample.criterion is None:
        run.program.evaluate(data)
    else:
        run.program.compute_gradients(data)
    return run
