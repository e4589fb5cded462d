"""What CNTK 2's tutorials and example scripts count on beside the functions that they call."""

from __future__ import annotations

from importlib.util import find_spec

import cntk as C
import numpy as np
import pytest
from cntk._inherited import INHERITED
from cntk.layers import Dense, Embedding, Label, Recurrence, Sequential

LSTM = C.layers.LSTM


def names_after(module: str) -> dict[str, object]:
    names: dict[str, object] = {}
    exec(f"from {module} import *", names)
    return names


@pytest.mark.parametrize("module", sorted(INHERITED))
def test_a_star_brings_the_names_that_modules_pass_on(module: str) -> None:
    names = names_after(module)
    assert not [each for each in INHERITED[module] if names.get(each) is None]


def test_names_that_scripts_take_from_layers() -> None:
    names = names_after("cntk.layers")
    assert names["np"] is np
    assert names["sequence"] is C.sequence
    assert names["default_options"] is C.default_options is C.layers.default_options


def test_a_name_that_no_module_has() -> None:
    with pytest.raises(AttributeError, match=r"module 'cntk\.layers' has no attribute 'Densest'"):
        _ = C.layers.Densest  # type: ignore[attr-defined]


def test_the_original_library_under_its_own_name() -> None:
    names: dict[str, object] = {}
    exec("import _cntk_py; from _cntk_py import set_fixed_random_seed; from _cntk_py import *", names)
    assert names["set_fixed_random_seed"] is C.cntk_py.set_fixed_random_seed
    assert names["DataType_Float"] is np.float32
    assert find_spec("_cntk_py").submodule_search_locations  # type: ignore[union-attr]
    with pytest.raises(AttributeError, match=r"module 'cntk\.cntk_py' has no attribute 'Densest'"):
        _ = names["_cntk_py"].Densest  # type: ignore[attr-defined]
    assert names_after("cntk.debugging.debug")["set_checked_mode"] is C.debugging.set_checked_mode
    assert names_after("cntk.internal.swig_helper")["typemap"] is C.typemap


class Told:
    """Keeps what a learner tells."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def write(self, key: str, value: float) -> None:
        self.lines.append(f"{key}: {value}")


@pytest.mark.parametrize(("make", "tells"), [(C.momentum_sgd, True), (C.nesterov, False), (C.fsadagrad, False)])
def test_plain_momentum_alone_is_told(make: object, tells: bool) -> None:
    learner = make([C.parameter(2, init=1.0)], 0.5, 0.9)  # type: ignore[operator]
    told = Told()
    learner.add_progress_writers([told])
    learner.update({learner.parameters[0]: np.ones(2, np.float32)}, 1)
    assert [line for line in told.lines if line.startswith("Momentum")] == ["Momentum per minibatch: 0.9"] * tells


def test_a_tuple_of_layers_after_several_values() -> None:
    x = C.input_variable(2)
    side_by_side = Sequential([lambda a: C.combine([a + 1, a + 2]), (Label("p"), lambda a: a + 20)])(x)
    assert [each.shape for each in side_by_side.outputs] == [(2,), (2,)]
    assert side_by_side.outputs[0].name == "p"
    found = [each.tolist() for each in side_by_side.eval({x: [[1, 2]]}).values()]
    assert found == [[[2, 3]], [[23, 24]]]
    named = Dense(3)(x) >> (Label("r"), Label("s"))
    assert [each.name for each in named.outputs] == ["r", "s"]
    with pytest.raises(ValueError, match="Sequential: 3 functions side by side, and 2 values for them"):
        Sequential([lambda a: C.combine([a, a + 1]), (abs, abs, abs)])(x)


def test_a_criterion_one_of_whose_placeholders_is_replaced() -> None:
    labels = C.placeholder(name="labels")
    model = Sequential([Embedding(4), Recurrence(LSTM(3)), Dense(2)])
    criterion = C.combine([C.cross_entropy_with_softmax(model, labels), C.classification_error(model, labels)])
    words = C.sequence.input_variable(5)
    criterion.replace_placeholders({model.placeholders[0]: words})
    assert criterion.placeholders == (labels,)
    tags = C.sequence.input_variable(2)
    criterion.replace_placeholders({labels: tags})
    values = {words: [np.eye(5, dtype=np.float32)[[1, 2]]], tags: [np.eye(2, dtype=np.float32)[[0, 1]]]}
    assert [len(each[0]) for each in criterion.eval(values).values()] == [2, 2]


def test_a_hierarchical_softmax_beside_the_original() -> None:
    C.cntk_py.set_fixed_random_seed(3)
    x, number = C.input_variable(4), C.input_variable(1)
    chance, groups, every = C.hierarchical_softmax_layer(x, number, 10)
    C.cntk_py.reset_random_seed(0)
    data = np.random.RandomState(0).randn(5, 4).astype(np.float32)
    labels = np.array([[0], [3], [9], [5], [2]], np.float32)
    found = chance.eval({x: data, number: labels})
    np.testing.assert_allclose(found.ravel(), [0.08475, 0.12323, 0.21349, 0.04747, 0.1522], atol=1e-5)
    np.testing.assert_allclose(groups.eval({x: data})[0], [0.10931, 0.1553, 0.4982, 0.23718], atol=1e-5)
    whole = np.concatenate([each.eval({x: data}) for each in every], axis=1)
    np.testing.assert_allclose(whole.sum(axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(whole[np.arange(5), labels.ravel().astype(int)], found.ravel(), rtol=1e-5)


def test_the_device_of_a_tutorial_that_is_tested(monkeypatch: pytest.MonkeyPatch) -> None:
    from cntk.tests.test_utils import set_device_from_pytest_env

    monkeypatch.setenv("TEST_DEVICE", "cpu")
    set_device_from_pytest_env()
    assert C.use_default_device() == C.cpu()


def test_an_output_of_a_criterion_is_evaluated() -> None:
    x, y = C.input_variable(2), C.input_variable(2)
    criterion = C.combine([C.cross_entropy_with_softmax(x, y), C.classification_error(x, y)])
    evaluator = C.Evaluator(criterion.outputs[1])
    assert evaluator.test_minibatch({x: [[1, 0], [1, 0]], y: [[1, 0], [0, 1]]}) == 0.5
