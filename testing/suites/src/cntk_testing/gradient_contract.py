"""What every engine does of gradients of any roots by any nodes: it computes what the reference computes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

import attrs
import numpy as np
import pytest
from numpy.typing import NDArray

from cntk_core.contract.engine import ExecutionEngine, Program
from cntk_core.contract.learner import UpdateRule
from cntk_core.contract.store import ParameterStore
from cntk_core.errors import DataError, NetworkError
from cntk_core.network.node import Input, Node
from cntk_core.ops.table import core_ops
from cntk_core.plan.make import make_plan
from cntk_core.records.minibatch import Minibatch
from cntk_testing.networks import SAMPLES, Sample, classifier, dropout
from cntk_testing.op_examples import EXAMPLES
from cntk_testing.op_networks import cases_together, network_of
from cntk_testing.reference import ReferenceEngine
from cntk_testing.sequence_networks import SEQUENCE_SAMPLES, sequences_for
from cntk_testing.sparse_networks import SPARSE_SAMPLES, with_sparse_streams

PRECISIONS = ("float32", "float64")

ALL_SAMPLES = {**SAMPLES, **SEQUENCE_SAMPLES, **{f"sparse {name}": made for name, made in SPARSE_SAMPLES.items()}}
"""The networks by name."""

CASES = [f"{name} {dtype}" for name in ALL_SAMPLES for dtype in PRECISIONS]
OPS = [f"{op} {dtype}" for op in EXAMPLES for dtype in PRECISIONS]

Array = NDArray[Any]


@attrs.frozen
class GradientRun:
    """A network with a program that computes gradients of all its roots by nodes."""

    sample: Sample
    store: ParameterStore
    program: Program

    @property
    def values(self) -> dict[str, Array]:
        """Of all roots."""
        return {node.name: self.program.value(node.name) for node in self.program.plan.roots}

    @property
    def gradients(self) -> dict[str, Array]:
        """By all nodes."""
        return {node.name: self.program.gradient(node.name) for node in self.program.plan.by}

    def seeds(self, seed: int) -> dict[str, Array]:
        """Random seeds for most of the roots."""
        rng = np.random.default_rng(seed)
        drawn = {name: rng.normal(size=value.shape) for name, value in self.values.items()}
        return {name: each for index, (name, each) in enumerate(drawn.items()) if not index or rng.random() < 0.7}


def roots_of(sample: Sample) -> list[Node]:
    """What is computed of a sample, its criterion at the end."""
    return [*sample.roots, *([sample.criterion] if sample.criterion is not None else [])]


def nodes_to_take_by(sample: Sample) -> list[Node]:
    """All that the roots of a sample depend on but sparse inputs."""
    order = sample.network.order(roots_of(sample))
    return [node for node in order if not (isinstance(node, Input) and node.sparse)]


def begin(engine: ExecutionEngine, sample: Sample, by: Iterable[Node], rule: UpdateRule | None = None) -> GradientRun:
    """Compile a network with a store of its own."""
    plan = make_plan(sample.network, roots_of(sample), by=list(by))
    store = ParameterStore(sample.network.parameters, sample.network.dtype)
    program = engine.compile(plan, store, rule, seed=5)
    program.begin_epoch(0, sample.settings)
    return GradientRun(sample, store, program)


class GradientContract:
    """Tests of gradients by any nodes, a part of :class:`~cntk_testing.engine_contract.EngineContract`."""

    supports_double: ClassVar[bool]
    supports_sparse: ClassVar[bool]
    supports_sequences: ClassVar[bool]
    supports_gradients_by_nodes: ClassVar[bool] = True
    unsupported_ops: ClassVar[frozenset[str]]
    sizes: ClassVar[Sequence[int]]
    lengths: ClassVar[Sequence[list[int]]]

    def assert_close(self, found: Any, expected: Any, dtype: str, what: str) -> None:
        """Fail if arrays differ by more than the precision's tolerance."""
        raise NotImplementedError

    def _assert_same(self, found: Mapping[str, Array], expected: Mapping[str, Array], dtype: str, what: str) -> None:
        for name, array in expected.items():
            self.assert_close(found[name], array, dtype, f"{what} '{name}'")

    def _needs(self, name: str, dtype: str) -> None:
        """Skip what the engine says that it cannot do."""
        lacking = {
            "gradients by any nodes": not self.supports_gradients_by_nodes,
            "double precision": dtype == "float64" and not self.supports_double,
            "sparse streams": name.startswith("sparse ") and not self.supports_sparse,
            "sequences": name in SEQUENCE_SAMPLES and not self.supports_sequences,
        }
        for what, lacks in lacking.items():
            if lacks:
                pytest.skip(f"the engine has no {what}")

    def _minibatches(self, name: str, sample: Sample) -> Iterable[Minibatch]:
        if name in SEQUENCE_SAMPLES:
            yield from (sequences_for(sample, lengths, step) for step, lengths in enumerate(self.lengths))
            return
        for step, frames in enumerate(self.sizes):
            data = sample.minibatch(frames, step)
            yield with_sparse_streams(data, sample, step) if name.startswith("sparse ") else data

    @pytest.mark.parametrize("case", CASES)
    def test_gradients_by_any_nodes(self, engine: ExecutionEngine, case: str) -> None:
        """Gradients of all roots by inputs, inner nodes and parameters, of several seeds for one forward part."""
        name, dtype = case.rsplit(" ", 1)
        self._needs(name, dtype)
        samples = [ALL_SAMPLES[name](dtype) for _ in range(2)]
        ours, reference = (
            begin(made, sample, nodes_to_take_by(sample))
            for made, sample in zip((engine, ReferenceEngine()), samples, strict=True)
        )
        for step, data in enumerate(self._minibatches(name, ours.sample)):
            for run in (ours, reference):
                run.program.forward(data, training=step != 1)
            self._assert_same(ours.values, reference.values, dtype, "value of")
            for seeds in (reference.seeds(step), None, reference.seeds(step + 10)):
                for run in (ours, reference):
                    run.program.backward(seeds)
                self._assert_same(ours.gradients, reference.gradients, dtype, "gradient by")
            self._assert_same(ours.values, reference.values, dtype, "value after gradients of")
        assert ours.program.step == reference.program.step, "step does not count the forward parts of training"

    @pytest.mark.parametrize("case", OPS)
    def test_op_gradients_by_inputs(self, engine: ExecutionEngine, case: str) -> None:
        """Each op of the core, on the examples of its contract: gradients by its inputs, as they come."""
        op, dtype = case.rsplit(" ", 1)
        self._needs(op, dtype)
        if op in self.unsupported_ops:
            pytest.skip(f"the engine has no {op}")
        found = core_ops().find("", op)
        assert found is not None
        for cases in cases_together(found, EXAMPLES[op]):
            made = [network_of(cases, dtype, learned=False) for _ in range(2)]
            runs = []
            for each, (sample, data) in zip((engine, ReferenceEngine()), made, strict=True):
                sample.criterion = None
                leaves = [node for node in sample.network.order(sample.roots) if not node.inputs]
                run = begin(each, sample, leaves or sample.roots)
                run.program.forward(data)
                runs.append(run)
            ours, reference = runs
            for seed in range(2):
                for run in runs:
                    run.program.backward(reference.seeds(seed))
                self._assert_same(ours.gradients, reference.gradients, dtype, f"gradient of {op} by")

    def test_gradients_by_parameters_are_those_of_training(self, engine: ExecutionEngine) -> None:
        """With ones at the criterion: with the same elements dropped, and there for an update."""
        self._needs("", "float32")
        by_nodes, training = dropout("float32"), dropout("float32")
        run = begin(engine, by_nodes, by_nodes.network.parameters, _DESCENT)
        store = ParameterStore(training.network.parameters, training.network.dtype)
        plan = make_plan(training.network, training.roots, training.criterion)
        program = engine.compile(plan, store, _DESCENT, seed=5)
        program.begin_epoch(0, training.settings)
        criterion = training.criterion
        assert criterion is not None
        for step in range(3):
            data = training.minibatch(8, step)
            program.compute_gradients(data)
            run.program.forward(data)
            run.program.backward({criterion.name: np.ones(1)})
            for mine, other in zip(run.program.plan.trained, plan.trained, strict=True):
                self.assert_close(run.store.gradient(mine), store.gradient(other), "float32", f"'{mine.name}'")
            for each in (program, run.program):
                each.update([{"rate": 0.1}] * len(plan.trained))
        for mine, other in zip(run.store.parameters, store.parameters, strict=True):
            self.assert_close(run.store.value(mine), store.value(other), "float32", f"new '{mine.name}'")

    def test_several_programs_keep_values(self, engine: ExecutionEngine) -> None:
        """What one program keeps stays while others of the same parameters compute, wherever the numbers lie."""
        self._needs("", "float32")
        found: list[dict[str, Array]] = []
        for each in (engine, ReferenceEngine()):
            sample = classifier("float32")
            network, by = sample.network, nodes_to_take_by(sample)
            runs = []
            for step in range(3):
                store = ParameterStore.of(network.parameters, network.dtype)
                program = each.compile(make_plan(network, roots_of(sample), by=by), store)
                program.begin_epoch(0, sample.settings)
                program.forward(sample.minibatch(4 + step, step))
                runs.append(GradientRun(sample, store, program))
            for step, run in reversed(list(enumerate(runs))):
                run.program.backward()
                assert run.store.values.shape == runs[0].store.values.shape  # somebody looks at the numbers between
                found.append({f"{name} of {step}": array for name, array in run.gradients.items()})
        for ours, reference in zip(found[:3], found[3:], strict=True):
            self._assert_same(ours, reference, "float32", "gradient by")

    def test_mistakes_with_gradients_by_nodes(self, engine: ExecutionEngine) -> None:
        """What is asked for too early, and names and shapes that are wrong, are named."""
        self._needs("", "float32")
        sample = classifier("float32")
        run = begin(engine, sample, [sample.network["x"]])
        program, data = run.program, sample.minibatch(3)
        with pytest.raises(NetworkError, match="there is nothing to go back through"):
            program.backward()
        program.forward(data)
        with pytest.raises(NetworkError, match="the gradient by 'x' has not been computed yet"):
            program.gradient("x")
        with pytest.raises(NetworkError, match=r"the plan has no root 'cee'; did you mean 'ce'\?"):
            program.backward({"cee": np.ones(1)})
        with pytest.raises(DataError, match=r"the seed of 'ce' has the shape \(2,\); its value is \(1,\)"):
            program.backward({"ce": np.ones(2)})
        program.backward({"CE": np.ones(1)})
        assert program.gradient("X").shape == (3, 6)
        with pytest.raises(NetworkError, match="the plan has no gradient by 'W0'"):
            program.gradient("W0")
        program.evaluate(sample.minibatch(5))
        with pytest.raises(NetworkError, match="there is nothing to go back through"):
            program.backward()
        with pytest.raises(NetworkError, match="was made without a criterion"):
            program.compute_gradients(data)
        without = engine.compile(make_plan(sample.network, sample.roots), run.store)
        with pytest.raises(NetworkError, match="it was made without nodes to take them by"):
            without.forward(data)


def _descend(
    m: Any, value: Any, gradient: Any, slots: Mapping[str, Any], scalars: Mapping[str, Any]
) -> tuple[Any, Mapping[str, Any]]:
    return value - scalars["rate"] * gradient, {}


_DESCENT = UpdateRule((), ("rate",), _descend, key="contract.descent")
