"""Sources: sizes, order, sweeps, parts, data in Python, refusals. Orders are those of the original 2.7, recorded."""

from __future__ import annotations

import cntk as C
import numpy as np
import pytest
from cntk.io import (
    FULL_DATA_SWEEP,
    CTFDeserializer,
    MinibatchSource,
    MinibatchSourceFromData,
    StreamDef,
    StreamDefs,
    StreamInformation,
    UserDeserializer,
    UserMinibatchSource,
    sequence_to_cntk_text_format,
)
from scipy.sparse import csr_matrix

SEQUENCES = {0: 7, 2: 3, 3: 4, 4: 1, 5: 2, 6: 2, 7: 1, 8: 2, 9: 2, 10: 1}


@pytest.fixture
def numbers(tmp_path):
    file = tmp_path / "numbers.txt"
    file.write_text("|a 1\n|a 2\n|a 3\n|a 4\n")
    return CTFDeserializer(str(file), StreamDefs(a=StreamDef(field="a", shape=1)))


@pytest.fixture
def sequences(tmp_path):
    file = tmp_path / "sequences.txt"
    file.write_text("".join(f"{key} |w {key}:1 |b {key}\n" for key, count in SEQUENCES.items() for _ in range(count)))
    streams = StreamDefs(w=StreamDef(field="w", shape=20, is_sparse=True), b=StreamDef(field="b", shape=1))
    return CTFDeserializer(str(file), streams)


def values(data):
    return data.asarray().ravel().astype(int).tolist()


@pytest.mark.parametrize("stream", [[["a"]], [[{0: 1.0}]], "a"])
def test_what_is_no_stream_is_not_written(stream):
    with pytest.raises(ValueError, match=r"^a stream is an array, or a list with a dictionary for each frame, not "):
        sequence_to_cntk_text_format(0, {"a": stream})


@pytest.mark.parametrize(
    ("settings", "order"),
    [
        ({}, [3, 1, 2, 4, 1, 3, 4, 2, 1, 3, 2, 4]),
        ({"randomization_seed": 123}, [1, 3, 2, 4, 3, 2, 4, 1, 3, 4, 2, 1]),
        ({"randomization_seed": 1}, [1, 3, 4, 2, 1, 3, 2, 4, 4, 3, 2, 1]),
        ({"randomize": False}, [1, 2, 3, 4] * 3),
    ],
)
def test_the_order_is_that_of_the_original(numbers, settings, order):
    source = MinibatchSource(numbers, **settings)
    found = []
    for size in (5, 3, 4):
        found += values(source.next_minibatch(size)[source.streams.a])
    assert found == order


def test_minibatches_go_over_the_end_of_a_sweep(numbers):
    source = MinibatchSource(numbers, max_sweeps=3)
    wanted = {"a": source["a"]}
    found = [source.next_minibatch(5, wanted)["a"] for _ in range(3)]
    assert [(data.num_samples, data.end_of_sweep) for data in found] == [(5, True), (5, True), (2, True)]
    assert source.next_minibatch(5, wanted) == {}


@pytest.mark.parametrize("limit", [{"max_samples": FULL_DATA_SWEEP}, {"max_sweeps": 1}, {"max_samples": 4}])
def test_sources_end(numbers, limit):
    source = MinibatchSource(numbers, **limit)
    assert not source.is_infinite()
    data = source.next_minibatch(100)[source.streams.a]
    assert (data.num_samples, data.end_of_sweep) == (4, True)
    assert source.next_minibatch(100) == {}


def test_a_source_goes_on_where_it_was(numbers):
    source = MinibatchSource(numbers)
    source.next_minibatch(3)
    place = source.current_position
    expected = values(source.next_minibatch(6)[source.streams.a])
    source.current_position = place
    assert values(source.next_minibatch(6)[source.streams.a]) == expected


def test_sequences_sparse_and_dense(sequences):
    source = MinibatchSource(sequences, randomize=False)
    found = source.next_minibatch(10)
    sparse, dense = found[source.streams.w], found[source.streams.b]
    assert sparse.is_sparse
    assert not dense.is_sparse
    assert (sparse.num_sequences, sparse.num_samples, sparse.shape) == (2, 10, (2, 7, 20))
    np.testing.assert_array_equal(dense.mask, [[2, 1, 1, 1, 1, 1, 1], [2, 1, 1, 0, 0, 0, 0]])
    assert [each.ravel().tolist() for each in dense.as_sequences()] == [[0.0] * 7, [2.0] * 3]
    x = C.sequence.input_variable(20)
    assert [each.shape for each in C.tanh(x).eval({x: sparse})] == [(7, 20), (3, 20)]


@pytest.mark.parametrize(
    ("part", "settings", "counts"),
    [
        (0, {"randomize": False, "max_samples": 36}, [7, 4, 5, 7, 4]),
        (1, {"randomize": False, "max_samples": 36}, [4, 5, 3]),
        (0, {"max_sweeps": 1}, [5, 4, 4, 5, 7]),
        (1, {"max_sweeps": 1}, []),
    ],
)
def test_parts_of_minibatches(sequences, part, settings, counts):
    source, found = MinibatchSource(sequences, **settings), []
    while data := source.next_minibatch(10, num_data_partitions=2, partition_index=part):
        found.append(data[source.streams.w].num_samples)
    assert found == counts


def test_arrays_are_a_source():
    data = {"x": np.arange(10, dtype=np.float32).reshape(5, 2), "s": csr_matrix(np.eye(5, dtype=np.float32))}
    source = MinibatchSourceFromData(data, max_samples=9)
    found = [source.next_minibatch(3) for _ in range(5)]
    sizes = [(mb[source.streams.x].num_samples, mb[source.streams.x].end_of_sweep) for mb in found if mb]
    assert sizes == [(3, False), (2, True), (3, False), (1, True)]
    assert found[-1] == {}
    assert found[0][source.streams.s].is_sparse
    np.testing.assert_array_equal(found[1][source.streams.x].asarray(), data["x"][3:])


class Rows(UserDeserializer):
    """Ten sequences of one to three frames, in two chunks."""

    def stream_infos(self):
        return [StreamInformation("x", 0, "dense", np.float32, (2,))]

    def num_chunks(self):
        return 2

    def get_chunk(self, chunk_id):
        return {"x": [np.full((1 + number % 3, 2), 10 * chunk_id + number, np.float32) for number in range(5)]}


def test_chunks_in_python():
    source = MinibatchSource([Rows()], randomize=False, max_sweeps=1)
    found = []
    while mb := source.next_minibatch(4):
        found += [each[:, 0].tolist() for each in mb[source.streams.x].as_sequences()]
    assert found == [[10.0 * chunk + n] * (1 + n % 3) for chunk in range(2) for n in range(5)]
    mixed = MinibatchSource([Rows()], max_sweeps=1).next_minibatch(100)
    (data,) = mixed.values()
    assert sorted(each[0, 0] for each in data.as_sequences()) == sorted(each[0] for each in found)


def test_text_of_sequences():
    assert (
        sequence_to_cntk_text_format(3, {"w": np.array([[1, 0], [2, 5]]), "l": [{4: 1}]})
        == "3\t|l 4:1 |w 1 0\n3\t|w 2 5"
    )


def test_what_is_refused(numbers, tmp_path):
    with pytest.raises(ValueError, match="max_samples and max_sweeps exclude each other"):
        MinibatchSource(numbers, max_samples=5, max_sweeps=2)
    with pytest.raises(ValueError, match="a minibatch has at least one sample"):
        MinibatchSource(numbers).next_minibatch(0)
    with pytest.raises(RuntimeError, match="there is no stream 'b'; there are a"):
        MinibatchSource(numbers).stream_info("b")
    with pytest.raises(ValueError, match="the stream 'x' needs a field, its name in the file"):
        CTFDeserializer("f.txt", StreamDefs(x=StreamDef(shape=1)))
    with pytest.raises(ValueError, match="missing"):
        MinibatchSource(CTFDeserializer(str(tmp_path / "missing.txt"), StreamDefs(x=StreamDef(field="x", shape=1))))
    with pytest.raises(NotImplementedError, match="binary master label files cannot be read"):
        C.io.HTKMLFBinaryDeserializer({})
    with pytest.raises(NotImplementedError, match="UserMinibatchSource does not say which streams it has"):
        UserMinibatchSource()
    with pytest.raises(TypeError, match="all streams must have equally many samples, or sequences"):
        MinibatchSourceFromData({"x": np.zeros((2, 1)), "y": np.zeros((3, 1))})
