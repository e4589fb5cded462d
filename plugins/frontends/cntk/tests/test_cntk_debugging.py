"""Stops in models, checks of values, levels of telling, profiles. What stops write is recorded of the original 2.7."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator

import cntk as C
import numpy as np
import pytest
from cntk.debugging import DEBUG_USAGE, debug_model
from cntk.layers import Dense, Recurrence, RNNStep

ONES = np.ones((2, 2), np.float32)
FORWARD = "\n=================================== forward  ===================================\n"
BACKWARD = "=================================== backward ===================================\n"
W, X, T, B, Z = (
    "\nParameter('w', [], [2 x 3]) with uid 'Parameter'\n",
    "\nInput('x', [#], [2]) with uid 'Input'\n",
    "\nTimes(Tensor[2], ParameterTensor[2,3]) -> Tensor[3] with uid 'Times'\n",
    "\nParameter('b', [], [3]) with uid 'Parameter'\n",
    "\nz: Plus(Tensor[3], ParameterTensor[3]) -> Tensor[3] with uid 'Plus'\n",
)
ASKED, BACK = "[CNTK forward] >>> ", "[CNTK backward] >>> "
TWOS = "Input with shape (2, 3): \n[[2. 2. 2.]\n [2. 2. 2.]]\n"


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    yield
    C.debugging.stop_profiler()
    C.debugging.set_checked_mode(False)
    C.debugging.set_computation_network_trace_level(0)


def model():
    x = C.input_variable(2, needs_gradient=True, name="x")
    w, b = C.parameter((2, 3), init=1.0, name="w"), C.parameter(3, name="b")
    return C.plus(C.times(x, w), b, name="z")


def session(commands, compute=lambda z: z.eval(ONES), function=None, **more):
    """Return what is written while a model computes and these commands are given."""
    out = io.StringIO()
    z = debug_model(function or model(), io.StringIO("".join(f"{each}\n" for each in commands)), out, **more)
    compute(z)
    return re.sub(r"'([A-Z][A-Za-z]+)\d+'$", r"'\1'", out.getvalue(), flags=re.MULTILINE)


@pytest.mark.parametrize(
    ("commands", "told"),
    [
        (["n"] * 5, [FORWARD, W, ASKED, X, ASKED, T, ASKED, B, ASKED, Z, ASKED]),
        (["n 2", "p", "p", "n", "c"], [FORWARD, W, ASKED, X, T, ASKED, TWOS, ASKED, TWOS, ASKED, B, ASKED, Z]),
        (["u z", "p", "c"], [FORWARD, W, ASKED, X, T, B, Z, ASKED, TWOS, ASKED]),
        (
            ["u lambda arg, node: node.name == 'z' and np.var(arg) < 1", "", "c"],
            [FORWARD, W, ASKED, X, T, B, Z, ASKED, ASKED],
        ),
        (["what", "c"], [FORWARD, W, ASKED, DEBUG_USAGE, ASKED, X, T, B, Z]),
        (
            ["u y", "u lambda:", "c"],
            [
                *(FORWARD, W, ASKED, 'The model has nothing with the name "y".\n', DEBUG_USAGE, ASKED),
                *("invalid syntax\n", DEBUG_USAGE, ASKED, X, T, B, Z),
            ],
        ),
        ([], [FORWARD, W, ASKED, X, T, B, Z]),  # the commands end
    ],
)
def test_stops_of_values(commands, told):
    assert session(commands) == "".join(told)


def test_stops_of_gradients():
    def gradients(z):
        found = z.grad(ONES, wrt=z.parameters)
        assert {each.name: value.tolist() for each, value in found.items()} == {"w": [[2.0] * 3] * 2, "b": [2.0] * 3}

    print_ = "Root gradients with shape (2, 3): \n[[1. 1. 1.]\n [1. 1. 1.]]\n"
    found = session(["u ba", "p", "n", "c"], gradients)
    assert found == "".join([FORWARD, W, ASKED, X, T, B, Z, BACKWARD, Z, BACK, print_, BACK, B, BACK, T, W])


def test_quitting_is_left_to_the_program():
    left = []
    session(["q", "c"], exit_func=left.append)
    assert left == [0]


def test_a_model_with_stops_is_trained_and_shares_its_parameters():
    x, y = C.input_variable(2, name="x"), C.input_variable(3)
    plain = Dense(3, init=1.0, name="d")(x)
    out = io.StringIO()
    z = debug_model(plain, io.StringIO("c\n"), out)
    C.Trainer(z, C.squared_error(z, y), C.sgd(z.parameters, 0.1)).train_minibatch({x: ONES, y: np.zeros((2, 3))})
    assert plain.W.value[0, 0] < 1
    assert [each[: each.index("(")] for each in re.findall("\n([^=\\n].*) with uid", out.getvalue())] == [
        *("Parameter", "Input", "Parameter", "d: Dense", "d: Dense", "Parameter", "Parameter")
    ]


def test_several_outputs_and_sequences():
    s = C.sequence.input_variable(2, name="s")
    both = C.combine([C.tanh(s), C.sigmoid(s)])
    assert "Input with shape [(2, 2), (1, 2)]: \n" in session(["p", "c"], lambda z: z.eval([ONES, ONES[:1]]), both)
    loop = Recurrence(RNNStep(2))(s)
    found = session(["c"], lambda z: z.eval([ONES]), loop)
    assert re.findall("\n([A-Z][A-Za-z]+)", found) == [
        "Parameter",
        "Input",
        "Parameter",
        "Constant",
        "Parameter",
        "RNNStep",
    ]


def test_numbers_that_are_none_are_an_error_where_they_come_up():
    x, y, p = C.input_variable(1), C.input_variable(1), C.parameter(1, init=1.0)
    log = C.log(x * p)
    nothing = np.array([[np.nan]], np.float32)
    assert np.isnan(log.eval({x: nothing})).all()
    C.debugging.set_checked_mode(True)
    np.testing.assert_array_equal(log.eval({x: [[1.0]]}), [[0.0]])
    for compute in (
        lambda: log.eval({x: nothing}),
        lambda: log.forward({x: nothing}),
        lambda: log.grad({x: nothing}, p),
    ):
        with pytest.raises(
            RuntimeError, match=r"^ElementTimes\d+ ElementTimes operation unexpectedly produced NaN values\.$"
        ):
            compute()
    trainer = C.Trainer(None, C.squared_error(log, y), C.sgd([p], 0.1))
    with pytest.raises(
        RuntimeError, match=r"^SquaredError operation unexpectedly produced NaN gradients on Parameter\("
    ):
        trainer.train_minibatch({x: [[0.0]], y: [[1.0]]})
    assert p.value == 1
    trainer.train_minibatch({x: [[1.0]], y: [[1.0]]})
    assert p.value > 1


def test_levels_of_telling(capsys):
    z = model()
    data = {z.arguments[0]: ONES}
    C.debugging.set_computation_network_trace_level(1)
    z.eval(data)
    z.eval(data)
    times = "Times = Times (Parameter, Input) : [3 x 2], [2 x *] -> [3 x *]"
    plus = "Plus = Plus (Times, Parameter) : [3 x *], [3] -> [3 x *]"

    def told():
        return re.sub(r"\b(Times|Plus|Parameter|Input)\d+", r"\1", capsys.readouterr().err).splitlines()

    assert told() == [f"Validating --> {times}", f"Validating --> {plus}"]
    C.cntk_py.set_computation_network_trace_level(1000)
    z.eval(data)
    assert told()[2:] == [f"Dump --> {times}", "  absSum: 12.000000", f"Dump --> {plus}", "  absSum: 12.000000"]
    C.debugging.set_computation_network_trace_level(1000000)
    z.eval(data)
    assert told()[2:] == [f"Dump --> {times}", *["   2.0000000000"] * 6, f"Dump --> {plus}", *["   2.0000000000"] * 6]


def test_a_profile_has_what_is_computed_while_it_is_wanted(tmp_path):
    x, y = C.input_variable(2), C.input_variable(3)
    z = model()(x)
    trainer = C.Trainer(z, C.cross_entropy_with_softmax(z, y), C.sgd(z.parameters, 0.1))
    data = {x: ONES, y: np.eye(3, dtype=np.float32)[:2]}
    C.debugging.enable_profiler()  # there is none
    trainer.train_minibatch(data)
    C.debugging.start_profiler(str(tmp_path / "p"))
    with pytest.raises(RuntimeError, match=r"^the profiler was started already: stop_profiler\(\) ends it$"):
        C.debugging.start_profiler(str(tmp_path / "p"))
    trainer.train_minibatch(data)
    C.debugging.enable_profiler()
    for _ in range(3):
        trainer.train_minibatch(data)
    z.eval({x: ONES})
    C.debugging.disable_profiler()
    trainer.train_minibatch(data)
    C.debugging.stop_profiler()
    trainer.train_minibatch(data)
    detail, summary = sorted((tmp_path / "p").iterdir())
    assert re.fullmatch(r"\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d_detail_\.json", detail.name)
    events = json.loads(detail.read_text())["traceEvents"]
    assert [each["name"] for each in events if each.get("cat") == "step"] == ["train_step"] * 3 + ["evaluate"]
    rows = {line.split("  ")[0]: line.split()[-3] for line in summary.read_text().splitlines() if line.startswith("_")}
    assert {name: rows[name] for name in ("_Minibatch Iteration", "__Weight Update", "_evaluate")} == {
        "_Minibatch Iteration": "3", "__Weight Update": "3", "_evaluate": "1",
    }  # fmt: skip
    assert any(name.startswith("___gradient of ") for name in rows)


def test_a_profile_that_has_no_room(tmp_path):
    x = C.input_variable(2)
    C.debugging.start_profiler(str(tmp_path), reserve_mem=1)
    C.debugging.enable_profiler()
    C.negate(x).eval({x: ONES})
    C.debugging.stop_profiler()
    assert next(tmp_path.glob("*_summary_.txt")).read_text().splitlines()[-1] == (
        "1 later runs had no room: reserve_mem is too small"
    )
