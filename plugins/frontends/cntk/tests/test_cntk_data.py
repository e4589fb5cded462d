"""Data in Python: sources of arrays and lists, sources and deserializers of one's own, what minibatches hold."""

from __future__ import annotations

from typing import Any

import cntk as C
import numpy as np
import pytest
from cntk.io import MinibatchData, MinibatchSourceFromData, StreamInformation, UserDeserializer, UserMinibatchSource
from cntk.layers.typing import Sequence, Tensor
from scipy.sparse import csr_matrix

ROWS = np.arange(12, dtype=np.float32).reshape(6, 2)
SEQUENCES = [np.full((length, 2), length, np.float32) for length in (3, 1, 2)]


def test_arrays_are_given_in_their_order() -> None:
    source = MinibatchSourceFromData({"a": ROWS, "b": csr_matrix(ROWS)}, max_samples=8)
    assert [each.m_name for each in source.stream_infos()] == ["a", "b"]
    assert (source["a"].sample_shape, source["b"].is_sparse, source.is_infinite()) == ((2,), True, False)
    first = source.next_minibatch(4)
    a, b = first[source["a"]], first[source["b"]]
    assert (a.num_samples, a.num_sequences, a.end_of_sweep, a.is_sparse, b.is_sparse) == (4, 4, False, False, True)
    np.testing.assert_array_equal(a.asarray().reshape(4, 2), ROWS[:4])
    np.testing.assert_array_equal(b.for_variable(C.input_variable(2)), ROWS[:4])
    sparse = C.input_variable(2, is_sparse=True)
    np.testing.assert_array_equal(b.for_variable(sparse).toarray(), ROWS[:4])
    np.testing.assert_array_equal((sparse * 2).eval({sparse: b}), 2 * ROWS[:4])
    assert len(a) == 4
    second = source.next_minibatch(4)[source["a"]]
    assert (second.num_samples, second.end_of_sweep) == (2, True)
    state = source.get_checkpoint_state()
    third = source.next_minibatch(4)[source["a"]]
    np.testing.assert_array_equal(third.asarray().reshape(-1, 2), ROWS[:2])
    assert source.next_minibatch(4) == {}
    source.restore_from_checkpoint(state)
    assert source.next_minibatch(4)[source["a"]].num_samples == 2
    with pytest.raises(RuntimeError, match=r"^there is no stream 'c'; there are a, b$"):
        source.stream_info("c")


@pytest.mark.parametrize("sparse", [False, True])
def test_sequences_are_a_list(sparse: bool) -> None:
    given = [csr_matrix(each) if sparse else each for each in SEQUENCES]
    source = MinibatchSourceFromData({"s": (given, Sequence[Tensor[2]])}, max_samples=6)
    assert (source["s"].sample_shape, source["s"].is_sparse) == ((2,), sparse)
    found = source.next_minibatch(4)[source["s"]]
    assert (found.num_samples, found.num_sequences, found.shape) == (4, 2, (2, 3, 2))
    assert found.mask.tolist() == [[2, 1, 1], [2, 0, 0]]
    steps = C.sequence.input_variable(2, is_sparse=sparse)
    told = found.as_sequences(steps), found.as_sequences(), found.for_variable(steps)
    for several in told:
        for each, data in zip(several, SEQUENCES, strict=False):
            np.testing.assert_array_equal(each.toarray() if sparse else each, data)
    samples = found.for_variable(C.input_variable(2, is_sparse=sparse))
    expected = np.concatenate(SEQUENCES[:2])
    np.testing.assert_array_equal(samples.toarray() if sparse else samples, expected)


def test_a_list_of_samples() -> None:
    source = MinibatchSourceFromData({"x": [*ROWS]}, max_samples=6)
    assert source["x"].sample_shape == (2,)
    found = source.next_minibatch(4)[source["x"]]
    assert (found.num_samples, found.num_sequences) == (4, 4)
    np.testing.assert_array_equal(found.for_variable(C.input_variable(2)), ROWS[:4])
    view = MinibatchSourceFromData({"x": C.Value(ROWS)}, max_samples=6)
    assert view["x"].sample_shape == (2,)
    typed = MinibatchSourceFromData({"x": (ROWS, Tensor[2])}, max_samples=6)
    assert typed["x"].sample_shape == (2,)


def test_data_that_are_none() -> None:
    with pytest.raises(TypeError, match=r"^the data of 'x' are arrays of NumPy or CSR matrices, or a list of those$"):
        MinibatchSourceFromData({"x": [1, 2]})
    with pytest.raises(ValueError, match=r"^beside the data of 'x' stands their type, such as Tensor\[13\], not 'a'$"):
        MinibatchSourceFromData({"x": (ROWS, "a")})


def test_values_that_are_given_whole() -> None:
    value = C.Value.create(C.sequence.input_variable(2), SEQUENCES)
    data = MinibatchData(value, 3, 6, True)
    assert (data.num_sequences, data.num_samples, data.end_of_sweep, data.is_sparse) == (3, 6, True, False)
    assert [len(each) for each in data.as_sequences()] == [3, 1, 2]
    assert data.data is value
    assert data.shape == (3, 3, 2)
    np.testing.assert_array_equal(data.for_variable(C.input_variable(2)), np.concatenate(SEQUENCES))


class Own(UserMinibatchSource):
    """Gives two samples once."""

    def __init__(self) -> None:
        self.info = StreamInformation("x", 0, "dense", np.float32, (2,))
        self.left = 1
        super().__init__()

    def stream_infos(self) -> list[StreamInformation]:
        return [self.info]

    def next_minibatch(self, num_samples: int, *_: Any, **__: Any) -> Any:
        self.left -= 1
        if self.left < 0:
            return {}
        return {self.info: MinibatchData(C.Value(ROWS[:2]), 2, 2, False)}


def test_a_source_of_ones_own() -> None:
    source, x = Own(), C.input_variable(2)
    assert source.stream_info("x") is source["x"] is source.streams.x
    f = C.reduce_sum(x)
    assert f.test(source, 5, model_inputs_to_streams={x: source["x"]}).metric == pytest.approx(ROWS[:2].sum() / 2)
    assert source.get_checkpoint_state() == {}
    source.restore_from_checkpoint({})
    with pytest.raises(NotImplementedError, match=r"^Own has a state, but no restore_from_checkpoint$"):
        source.restore_from_checkpoint({"a": 1})
    assert not source.is_infinite()


def test_what_a_class_has_to_say() -> None:
    class Less(Own):
        next_minibatch = UserMinibatchSource.next_minibatch

    with pytest.raises(NotImplementedError, match=r"^Less gives no minibatches: it has no next_minibatch$"):
        Less().next_minibatch(3)
    with pytest.raises(NotImplementedError, match=r"^UserMinibatchSource does not say which streams "):
        UserMinibatchSource()
    for method, message in (
        ("stream_infos", "does not say which streams it has: it has no stream_infos"),
        ("num_chunks", "does not say how many chunks it has: it has no num_chunks"),
    ):
        with pytest.raises(NotImplementedError, match=f"^UserDeserializer {message}$"):
            getattr(UserDeserializer(), method)()
    with pytest.raises(NotImplementedError, match=r"^UserDeserializer gives no data: it has no get_chunk$"):
        UserDeserializer().get_chunk(0)


class Chunks(UserDeserializer):
    """Chunks of sequences, dense, and of a sparse matrix for each."""

    def __init__(self, count: int = 2) -> None:
        self.count = count

    def stream_infos(self) -> list[StreamInformation]:
        kinds = [("s", "dense"), ("t", "sparse")] if self.count >= 0 else []
        return [StreamInformation(name, place, kind, np.float32, (2,)) for place, (name, kind) in enumerate(kinds)]

    def num_chunks(self) -> int:
        return self.count

    def get_chunk(self, chunk_id: int) -> Any:
        several = [each + chunk_id for each in SEQUENCES]
        return {"s": several, "t": [csr_matrix(each) for each in several]}


def test_a_deserializer_of_ones_own() -> None:
    source = C.io.MinibatchSource(Chunks(), randomize=False, max_sweeps=1)
    found = source.next_minibatch(7)
    dense, sparse = found[source.streams.s], found[source.streams.t]
    assert (dense.num_sequences, dense.num_samples, sparse.num_samples) == (3, 6, 6)
    expected = [each + chunk for chunk in range(2) for each in SEQUENCES]
    for several in (dense.as_sequences(), [each.toarray() for each in sparse.as_sequences()]):
        for each, data in zip(several, expected, strict=False):
            np.testing.assert_array_equal(each, data)
    seen = dense.num_sequences
    while found := source.next_minibatch(7):
        seen += found[source.streams.s].num_sequences
    assert seen == 6
    for count, message in ((-1, "Chunks has no streams"), (0, "Chunks has no chunks")):
        with pytest.raises(ValueError, match=f"^{message}$"):
            C.io.MinibatchSource(Chunks(count), randomize=False)


def test_a_deserializer_of_samples() -> None:
    class Samples(Chunks):
        def get_chunk(self, chunk_id: int) -> Any:
            return {"s": ROWS + 100 * chunk_id, "t": csr_matrix(ROWS)}

    source = C.io.MinibatchSource(Samples(), randomize=False, max_samples=8)
    found = source.next_minibatch(20)
    assert found[source.streams.s].num_samples == 8
    rows = found[source.streams.s].as_sequences()
    np.testing.assert_array_equal(np.concatenate(rows), np.concatenate([ROWS, ROWS[:2] + 100]))
