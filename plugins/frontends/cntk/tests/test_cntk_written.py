"""Functions of users in model files and checkpoints; data/written.model is one that the original 2.7 wrote."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import cntk as C
import numpy as np
import pytest
from cntk.ops.functions import Function, UserFunction
from cntk_model_cntk2.encode import encode
from cntk_model_cntk2.records import read_dictionary

THEIRS = Path(__file__).with_name("data") / "written.model"
STATE = {"t": True, "f": 2.5, "s": "txt", "l": [1, [2, 3]], "n": None, "d": {"deep": 2**40}}
ARRAY = np.arange(6, dtype=np.float32).reshape(2, 3)
X = np.array([[1.0, 2.0, 3.0, 4.0]], np.float32)


class Kept(UserFunction):
    """Gives its input back; what it is told is kept."""

    def __init__(self, arg, state=None, name="kept"):
        super().__init__([arg], name=name)
        self.state = state

    def infer_outputs(self):
        x = self.inputs[0]
        return [C.output_variable(x.shape, x.dtype, x.dynamic_axes)]

    def forward(self, argument, device, outputs_to_retain):  # as the original calls it, and as the class does
        assert device == C.cpu()
        return None, argument

    def backward(self, state, root_gradients):
        return root_gradients

    def serialize(self):
        return self.state

    @staticmethod
    def deserialize(inputs, name, state):
        return Kept(inputs[0], state, name)


class Forgotten(Kept):
    """Cannot be made of a file."""

    deserialize = UserFunction.deserialize

    def serialize(self):
        return {}

    def clone(self, cloned_inputs):
        return Forgotten(cloned_inputs[0], self.state, self.name)


@pytest.fixture
def callbacks() -> Iterator[None]:
    from cntk._graph.written import CALLBACKS

    yield
    CALLBACKS.clear()


def test_a_file_of_the_original_is_read_and_written_again(tmp_path, monkeypatch):
    module = ModuleType("shared_udf")
    module.WithState = Kept
    monkeypatch.setitem(sys.modules, "shared_udf", module)
    again = Function.load(THEIRS)
    found = again.find_by_name("ws")
    assert {key: found.state[key] for key in STATE} == STATE
    np.testing.assert_array_equal(found.state["arr"], ARRAY)
    assert again.root_function.custom_attributes == {"told": [1, "x"]}
    assert str(found) == "ws: UserFunction(i: Tensor[4]) -> Tensor[4]"
    np.testing.assert_array_equal(again.eval(X), X + 3)
    again.save(tmp_path / "ours.model")
    ours, theirs = read_dictionary(tmp_path / "ours.model"), read_dictionary(THEIRS)
    one, other = ours["primitive_functions"][0], theirs["primitive_functions"][0]
    kept, told = one.pop("user_defined_state"), other.pop("user_defined_state")
    assert (kept.pop("class"), kept.pop("op_name")) == ("Kept", f"{__name__}.Kept")
    assert {type(value) for value in kept["state"].values()} == {type(value) for value in told["state"].values()}
    assert kept.keys() | {"class", "op_name"} == told.keys()
    assert (one.keys(), one["type"], one["native"]) == (other.keys(), "UserDefinedFunction", False)
    assert ours["primitive_functions"][1]["attributes"] == theirs["primitive_functions"][1]["attributes"]


def test_a_file_does_not_choose_what_is_imported():
    with pytest.raises(
        ValueError,
        match=r"written\.model': the function 'ws' was written by its user \(shared_udf\.WithState\), import "
        r"'shared_udf' before the model is loaded; or say what makes it: Function\.register_udf_deserialize_callback"
        r"\('shared_udf\.WithState', lambda inputs, name, state: \.\.\.\)$",
    ):
        Function.load(THEIRS)


def test_a_callback_makes_something_else(callbacks):
    Function.register_udf_deserialize_callback("shared_udf.WithState", lambda inputs, name, state: C.negate(*inputs))
    np.testing.assert_array_equal(Function.load(THEIRS).eval(X), 3 - X)
    with pytest.raises(ValueError, match=r"a callback for the user function 'shared_udf\.WithState' already"):
        Function.register_udf_deserialize_callback("shared_udf.WithState", None)


def test_a_callback_that_makes_nothing(callbacks):
    Function.register_udf_deserialize_callback("shared_udf.WithState", lambda inputs, name, state: None)
    with pytest.raises(ValueError, match=r"^the function 'ws' .*, and what is to make it of the file gives NoneType$"):
        Function.load(THEIRS)


def test_functions_in_cpp_are_named_and_may_be_made_in_python(callbacks, tmp_path):
    values = read_dictionary(THEIRS)
    state = {"user_defined_state": {"gain": 4}, "module": "Library", "deserialize_method": "Make", "op": "Gain"}
    values["primitive_functions"][0].update(native=True, user_defined_state=state)
    path = tmp_path / "native.model"
    path.write_bytes(b"".join(map(bytes, encode(values))))
    with pytest.raises(ValueError, match=r"written by its user \(Gain\) in C\+\+, which needs the original's library;"):
        Function.load(path)
    Function.register_udf_deserialize_callback("Gain", lambda inputs, name, state: inputs[0] * state["gain"])
    np.testing.assert_array_equal(Function.load(path).eval(X), 4 * X + 3)


@pytest.mark.parametrize(
    ("kept", "message"),
    [
        ({"module": "sys"}, "there is no UserFunction 'WithState' in 'sys'"),
        ({"module": "os", "class": "PathLike"}, "there is no UserFunction 'PathLike' in 'os'"),
        ({"module": __name__, "class": "Forgotten"}, "its class has no 'deserialize'"),
    ],
)
def test_classes_that_make_no_functions(kept, message, tmp_path):
    values = read_dictionary(THEIRS)
    values["primitive_functions"][0]["user_defined_state"].update(kept)
    path = tmp_path / "x.model"
    path.write_bytes(b"".join(map(bytes, encode(values))))
    with pytest.raises(ValueError, match=message):
        Function.load(path)


def test_what_a_file_cannot_hold(tmp_path):
    path = tmp_path / "never.model"
    x = C.input_variable(4)
    with pytest.raises(ValueError, match=r"^serialize of .*\.Kept gives what a file cannot hold: 1j is no number, "):
        C.user_function(Kept(x, {"a": [1j]})).save(path)
    z = C.negate(x)
    z.root_function.custom_attributes = {"a": {1: 2}}
    with pytest.raises(ValueError, match=r"^custom_attributes hold what a file cannot: \{1: 2\} is no number, text,"):
        z.save(path)
    assert not path.exists()


def test_inside_of_a_block_and_behind_a_loop(tmp_path):
    s, state = C.sequence.input_variable(1), C.placeholder()
    total = C.plus(s, C.sequence.past_value(state), name="total")
    total.replace_placeholders({state: total.output})
    behind, argument = C.user_function(Kept(total, {}, "behind")), C.placeholder()
    block = C.as_block(C.user_function(Kept(argument, {}, "inner")) + 1, [(argument, behind)], "Shift", "block")
    block.save(tmp_path / "loop.model")
    again = Function.load(tmp_path / "loop.model")
    assert [one.tolist() for one in again.eval([np.ones((3, 1))])] == [[[2.0], [3.0], [4.0]]]
    assert again.find_by_name("inner", depth=-1).state == {}


def test_a_checkpoint_goes_on_even_where_a_class_makes_nothing_of_a_file(tmp_path):
    x, y = C.input_variable(2), C.input_variable(1)
    z = C.times(C.user_function(Forgotten(x, {"open": object()}, "f")), C.parameter((2, 1), init=1.0))
    loss = C.squared_error(z, y)
    trainer = C.Trainer(z, loss, C.sgd(z.parameters, 0.1))
    data = {x: np.ones((3, 2), np.float32), y: np.zeros((3, 1), np.float32)}
    trainer.train_minibatch(data)
    trainer.save_checkpoint(str(tmp_path / "c"))
    before = z.parameters[0].value
    trainer.train_minibatch(data)
    trainer.restore_from_checkpoint(str(tmp_path / "c"))
    np.testing.assert_array_equal(z.parameters[0].value, before)
    assert abs(before - 1).max() > 0.1
