"""What is taken from a request, and what is told, without a server."""

from __future__ import annotations

import asyncio
import json
import sys
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
from cntk_tool_serve.app import Limits, Service
from cntk_tool_serve.batching import Batcher, _split, as_lists
from cntk_tool_serve.requests import arrow_of, inputs_of, json_of, parse_arrow, parse_json

from cntk_core.api import CntkError, DataError, Input, Network, NetworkError, Node, Parameter, core_ops
from cntk_core.api.training import Model

X = Input.make("x", (2,))
IMAGE = Input.make("Image", (2, 3))
WORDS = Input.make("words", (5,), sparse=True)
VALUE = Input.make("v", (2,), framed=False)


def lists(value: Any) -> Any:
    return value if isinstance(value, list) and not isinstance(value[0], np.ndarray) else as_lists(value)


@pytest.mark.parametrize(
    ("node", "given", "count"),
    [
        (X, [[1, 2], [3, 4], [5, 6]], 3),
        (X, [[[1, 2]], [[3, 4], [5, 6]]], 2),
        (IMAGE, [[[1, 2, 3], [4, 5, 6]]], 1),
        (IMAGE, [[[[1, 2, 3], [4, 5, 6]]] * 2], 1),
        (WORDS, [[0, 4], [2], [1, 1, 1]], 3),
        (WORDS, [[3]], 1),
        (WORDS, [[0, 0, 1, 0, 0], [1, 0, 0, 0, 0]], 2),
        (WORDS, [[0, 0, 1, 0, 0], [1]], 2),
        (VALUE, [1, 2], 1),
    ],
)
def test_values(node: Input, given: Any, count: int) -> None:
    for content in ({node.name.upper(): given}, {"inputs": {node.name: given, "more": 1}}, given):
        found, counted = inputs_of(content, [node])
        assert list(found) == [node.name]
        assert lists(found[node.name]) == given
        assert counted == count


NO_SAMPLES = "the values of 'x' are no list of samples [2], nor of sequences of them"
NO_WORDS = "the values of 'words' are no list of samples [5], nor of sequences of them"


@pytest.mark.parametrize(
    ("node", "given", "message"),
    [
        (X, {"x": 1}, NO_SAMPLES),
        (X, {"x": [[[[1, 2]]]]}, NO_SAMPLES),
        (X, {"x": [[[1, 2]], []]}, NO_SAMPLES),
        (X, {"x": [[[1, 2]], 3]}, NO_SAMPLES),
        (X, {"x": [[1, 2], [1]]}, NO_SAMPLES),
        (X, {"x": [[[1, float("inf")]]]}, "'x' has values that are no finite numbers"),
        (WORDS, {"words": [[0, 1], []]}, NO_WORDS),
        (WORDS, {"words": [[5]]}, "5 is no place in 'words', which has 0 to 4"),
        (WORDS, {"words": [[0, -1]]}, "-1 is no place in 'words', which has 0 to 4"),
        (WORDS, {"words": [[True]]}, "true is no place in 'words', which has 0 to 4"),
        (WORDS, {"words": [["a"]]}, "\"a\" is no place in 'words', which has 0 to 4"),
        (VALUE, {"v": [[1, 2]]}, "the value of 'v' is not [2]"),
        (VALUE, {"v": 1}, "the value of 'v' is not [2]"),
        (X, {"inputs": [1]}, "the inputs are no object of names and values\n    The inputs are x [2]."),
    ],
)
def test_what_is_no_value(node: Input, given: Any, message: str) -> None:
    with pytest.raises(DataError) as caught:
        inputs_of(given, [node])
    assert str(caught.value) == message


def test_inputs_together() -> None:
    found, count = inputs_of({"X": [[1, 2]] * 3, "v": [5, 6], "image": [[[0] * 3] * 2] * 3}, [X, VALUE, IMAGE])
    assert count == 3
    assert {name: value.shape for name, value in found.items()} == {"x": (3, 2), "v": (2,), "Image": (3, 2, 3)}
    with pytest.raises(DataError) as caught:
        inputs_of({"x": [[1, 2]] * 3, "v": [5, 6], "image": [[[0] * 3] * 2]}, [X, VALUE, IMAGE])
    assert str(caught.value) == "the inputs have different numbers of samples: x 3, Image 1"
    with pytest.raises(DataError) as caught:
        inputs_of([[1, 2]], [X, VALUE])
    assert caught.value.hint == "The inputs are x [2], v [2]."
    with pytest.raises(DataError, match="there are no values for v, Image"):
        inputs_of({"x": [[1, 2]]}, [X, VALUE, IMAGE])
    assert inputs_of({}, []) == ({}, 1)
    with pytest.raises(DataError) as caught:
        inputs_of({"x": []}, [X])
    assert str(caught.value) == NO_SAMPLES


def test_numbers_that_json_has_not() -> None:
    outputs = {"y": np.array([[1.0, np.nan], [np.inf, -np.inf]]), "z": [np.array([1.0]), np.array([np.nan, 2.0])]}
    assert json.loads(json_of(outputs)) == {"outputs": {"y": [[1.0, None], [None, None]], "z": [[1.0], [None, 2.0]]}}
    assert json_of({"y": np.array([[1.5]])}) == b'{"outputs": {"y": [[1.5]]}}'
    for word in ("NaN", "Infinity", "-Infinity"):
        with pytest.raises(DataError, match=f"^{word} is no number of JSON$"):
            parse_json(f"[{word}]".encode())


@pytest.mark.skipif(find_spec("pyarrow") is None, reason="pyarrow is not installed")
def test_arrow() -> None:
    import pyarrow as pa

    def stream(**columns: Any) -> bytes:
        table, sink = pa.table(columns), pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        return bytes(sink.getvalue())

    rows = [list(map(float, range(6))), [0.5] * 6]
    found = parse_arrow(stream(IMAGE=rows, x=[[1.0, 2.0], [3.0, 4.0]], other=["a", "b"]), [IMAGE, X, VALUE])
    assert found == {"Image": [[[0, 1, 2], [3, 4, 5]], [[0.5] * 3] * 2], "x": [[1, 2], [3, 4]]}
    assert parse_arrow(stream(x=[1.0, 2.0]), [X]) == {"x": [[1.0], [2.0]]}
    assert parse_arrow(stream(x=[[[1.0, 2.0]], [[3.0, 4.0]]]), [X]) == {"x": [[[1.0, 2.0]], [[3.0, 4.0]]]}
    answer = {"y": np.arange(6.0).reshape(2, 3), "s": [np.zeros((1, 2)), np.ones((2, 2))], "n": np.array([7, 8])}
    with pa.ipc.open_stream(arrow_of(answer)) as reader:
        told = reader.read_all().to_pydict()
    assert told == {"y": [[0, 1, 2], [3, 4, 5]], "s": [[[0, 0]], [[1, 1], [1, 1]]], "n": [[7], [8]]}


def test_what_is_no_arrow(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DataError, match=r"^the request is no stream of Arrow: "):
        parse_arrow(b"text", [X])
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(DataError) as caught:
        parse_arrow(b"text", [X])
    assert str(caught.value) == 'this server has no Arrow\n    pip install "cntk-tool-serve[arrow]"'


def test_what_belongs_to_all_samples_is_not_parted() -> None:
    whole = {"a": np.arange(5), "b": [np.zeros(1)] * 5}
    found = _split(whole, [2, 3])
    assert [one["a"].tolist() for one in found] == [[0, 1], [2, 3, 4]]  # type: ignore[index,union-attr]
    assert [len(one["b"]) for one in found] == [2, 3]  # type: ignore[index,arg-type]
    for wrong in (np.array(3.0), np.arange(4)):
        with pytest.raises(CntkError, match=r"^'c' has no value for each sample$"):
            _split({"c": wrong}, [2, 3])


class Doubling:
    """A model that notes what it is given."""

    def __init__(self) -> None:
        self.given: list[Any] = []

    def evaluate(self, inputs: Any, names: Any) -> dict[str, Any]:
        self.given.append(inputs)
        return {"z": next(iter(inputs.values()), np.zeros((1, 1)))}


def answers(
    *requests: tuple[dict[str, Any], int], gone: int | None = None, **limits: Any
) -> tuple[Doubling, list[Any]]:
    """What becomes of requests that come at once; of one nobody waits for the answer."""
    model = Doubling()

    async def run() -> list[Any]:
        batcher = Batcher(model, ["z"], **{"most": 100, "queue": 9, "timeout": 60.0, **limits})  # type: ignore[arg-type]
        tasks = [asyncio.ensure_future(batcher(*one)) for one in requests]
        if gone is not None:
            await asyncio.sleep(0)
            tasks[gone].cancel()
        found = await asyncio.gather(*tasks, return_exceptions=True)
        batcher.close()
        return found

    return model, asyncio.run(run())


def test_only_what_is_alike_is_computed_together() -> None:
    frames, wide = np.zeros((2, 3)), np.ones((1, 4))
    model, found = answers(
        ({"x": frames}, 2),
        ({"x": frames}, 2),
        ({"x": wide}, 1),
        ({"y": wide}, 1),
        ({"y": [wide]}, 1),
        ({"y": [frames, wide]}, 2),
        ({}, 1),
        ({}, 1),
    )
    assert [len(next(iter(one.values()), ())) for one in model.given] == [4, 1, 1, 3, 0, 0]
    assert [len(one["z"]) for one in found] == [2, 2, 1, 1, 1, 2, 1, 1]


def test_nobody_computes_for_those_who_have_gone() -> None:
    model, found = answers(({"x": np.zeros((1, 1))}, 1), ({"x": np.ones((2, 1))}, 2), gone=0)
    assert isinstance(found[0], asyncio.CancelledError)
    assert found[1]["z"].tolist() == [[1], [1]]
    assert [len(one["x"]) for one in model.given] == [2]


def test_defects_reach_those_who_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> Any:
        raise ArithmeticError("no luck")

    monkeypatch.setattr(Doubling, "evaluate", fail)
    _, found = answers(*[({"x": np.zeros((1, 1))}, 1)] * 2)
    assert [str(one) for one in found] == ["no luck"] * 2


def words() -> Network:
    """Each word has a row of a table."""
    made = Network(np.float32)
    node = made.add(Input.make("words", (5,), sparse=True))
    table = made.add(Parameter.make("E", (5, 2), value=np.arange(10.0, dtype=np.float32).reshape(5, 2)))
    times = core_ops().find("", "Times")
    assert times is not None
    made.mark(made.add(Node("row", times, [table, node], times.attributes())), "output")
    made.infer()
    return made


def test_words_are_places_of_ones() -> None:
    model = Model(words())
    service = Service(model, (), "", Limits())
    assert service.check() == "words [5] -> row [2]"
    inputs, _ = inputs_of({"words": [[3, 1], [4]]}, service.inputs)
    assert as_lists(model.evaluate(inputs, ["row"])["row"]) == [[[6, 7], [2, 3]], [[8, 9]]]


def test_a_model_without_outputs() -> None:
    made = words()
    made.roots["output"].clear()
    with pytest.raises(NetworkError) as caught:
        Service(Model(made), (), "", Limits())
    assert str(caught.value) == "the model marks no output\n    Name the nodes whose values you want: --node NAME."
    assert Service(Model(made), ("row",), "", Limits()).check() == "words [5] -> row [2]"
