"""What the readers read of files that are put together byte by byte, and what recipes may say to them."""

from __future__ import annotations

import numpy as np
import pytest
from sparse_bytes import batch, corpus_file, dssm_file, libsvm_file

from cntk_core.api import CntkError, EpochSpec

Q = [{1: 2.0}, {0: 1.0, 2: -3.0}, {}, {2: 7.0}]
D = [{0: 5.0}, {1: 6.0}, {0: 8.0, 1: 9.0}, {}]
PAIRS = {"q.bin": dssm_file(3, Q), "d.bin": dssm_file(2, D)}
DSSM = "q=[ file=q.bin; dim=3 ]\nd=[ file=d.bin; dim=2 ]\nl=[ labelDim=2 ]\n"
ROWS = corpus_file([((q, d), number / 2) for number, (q, d) in enumerate(zip(Q, D, strict=True))])
CORPUS = "file=c.bin\nq=[ dim=3 ]\nd=[ dim=2 ]\nl=[ labelDim=1 ]\n"
BATCHES = libsvm_file(
    [("Query", 3), ("Doc", 2)],
    [("Click", 2)],
    [batch([Q[:3], D[:3]], [[(0, 1), (2, 3), (4, 5)]]), batch([Q[3:], D[3:]], [[(6, 7)]])],
)
DENSE_Q = [[0, 2, 0], [1, 0, -3], [0, 0, 0], [0, 0, 7]]
DENSE_D = [[5, 0], [0, 6], [8, 9], [0, 0]]


def read(reader, **spec: int) -> dict[str, list]:
    found: dict[str, list] = {stream.name: [] for stream in reader.streams}
    for minibatch in reader.minibatches(EpochSpec(**{"minibatch_size": 4, **spec})):
        for name, value in minibatch.streams.items():
            data = value.data if isinstance(value.data, np.ndarray) else value.data.toarray()
            found[name] += data.tolist()
    return found


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("size", [1, 3, 100])
def test_queries_and_documents(make, dtype: str, size: int) -> None:
    """The label is 1, 0, ... in each row; values are floats in the file, whatever the network has."""
    reader = make("DSSMReader", DSSM + f"precision=float\nchunkSizeInRows={size}", PAIRS, dtype=dtype)
    assert read(reader) == {"q": DENSE_Q, "d": DENSE_D, "l": [[1, 0]] * 4}
    assert [(stream.name, stream.shape, stream.sparse) for stream in reader.streams] == [
        ("q", (3,), True),
        ("d", (2,), True),
        ("l", (2,), False),
    ]


def test_values_have_the_precision_of_the_network_where_the_block_says_none(make) -> None:
    files = {"q.bin": dssm_file(3, Q, "d"), "d.bin": dssm_file(2, D, "d")}
    assert read(make("DSSMReader", DSSM, files))["q"] == DENSE_Q


def test_rows_may_lie_in_any_order(make) -> None:
    """Where each row begins stands in the file."""
    data = dssm_file(2, D)
    offsets = np.frombuffer(data, "<i8", count=4, offset=20)[::-1].tobytes()
    files = {"q.bin": PAIRS["q.bin"], "d.bin": data[:20] + offsets + data[52:]}
    assert read(make("DSSMReader", DSSM, files, dtype="float32"))["d"] == DENSE_D[::-1]


def test_the_label_is_as_large_as_the_input_of_the_network(make) -> None:
    reader = make("DSSMReader", DSSM, PAIRS, dtype="float32", inputs={"Q": (3,), "d": (2,), "L": (3,)})
    assert read(reader) == {"Q": DENSE_Q, "d": DENSE_D, "L": [[1, 0, 0]] * 4}


def test_rows_of_a_parallel_corpus(make) -> None:
    """The streams stand in the reverse order of their names: q, then d."""
    reader = make("SparsePCReader", CORPUS, {"c.bin": ROWS}, dtype="float32")
    assert read(reader) == {"q": DENSE_Q, "d": DENSE_D, "l": [[0], [0.5], [1], [1.5]]}


@pytest.mark.parametrize("key", ["returnDense", "gradientCheck"])
def test_dense_features_of_a_corpus(make, key: str) -> None:
    reader = make("SparsePCReader", f"{CORPUS}{key}=true", {"c.bin": ROWS}, dtype="float32")
    assert [stream.sparse for stream in reader.streams] == [False, False, False]
    assert read(reader)["q"] == DENSE_Q


def test_rows_that_are_one_sequence(make) -> None:
    """A minibatch has whole sequences."""
    reader = make("SparsePCReader", CORPUS + "microbatchSize=2\nchunkSizeInBytes=1", {"c.bin": ROWS}, dtype="float32")
    parts = [
        minibatch.streams["l"].data.ravel().tolist() for minibatch in reader.minibatches(EpochSpec(minibatch_size=2))
    ]
    assert parts == [[0, 0.5], [1, 1.5]]
    assert all(stream.sequence for stream in reader.streams)


def test_only_the_first_bytes_of_a_corpus(make) -> None:
    """A row that begins before so many bytes is read whole."""
    first = len(corpus_file([((Q[0], D[0]), 0)]))
    for most, rows in ((first, 1), (first + 1, 2), (0, 4), (10**9, 4)):
        reader = make("SparsePCReader", f"{CORPUS}maxReadData={most}", {"c.bin": ROWS}, dtype="float32")
        assert read(reader)["q"] == DENSE_Q[:rows]


def test_batches(make) -> None:
    reader = make("LibSVMBinaryReader", "file=b.bin\nminibatch=3", {"b.bin": BATCHES}, dtype="float32")
    assert read(reader) == {"Query": DENSE_Q, "Doc": DENSE_D, "Click": [[0, 1], [2, 3], [4, 5], [6, 7]]}


def test_streams_of_batches_feed_other_inputs(make) -> None:
    """Of the streams those are read that the network needs; the input DSSMLabel gets ones."""
    reader = make(
        "LibSVMBinaryReader",
        "file=b.bin\nquery=[ rename=features ; dim=3 ]",
        {"b.bin": BATCHES},
        dtype="float32",
        inputs={"Features": (3,), "click": (1, 2), "dssmlabel": (2,)},
    )
    assert read(reader) == {
        "Features": DENSE_Q,
        "click": [[[0, 1]], [[2, 3]], [[4, 5]], [[6, 7]]],
        "dssmlabel": [[1, 0]] * 4,
    }


def test_batches_come_whole_in_random_order(make) -> None:
    batches = [batch([[{0: n + k / 4} for k in range(3)]], []) for n in range(8)]
    files = {"b.bin": libsvm_file([("x", 1)], [], batches)}
    reader = make("LibSVMBinaryReader", "file=b.bin\nrandomize=auto", files, dtype="float32")
    sweeps = [[row[0] for row in read(reader, epoch=epoch)["x"]] for epoch in (0, 1)]
    groups = [[sweep[i : i + 3] for i in range(0, 24, 3)] for sweep in sweeps]
    whole = [[n, n + 0.25, n + 0.5] for n in range(8)]
    assert [sorted(one) for one in groups] == [whole, whole]
    assert groups[0] != groups[1]
    assert whole not in groups


CASES = [
    (
        "DSSMReader",
        "q=[ file=q.bin; dim=3 ]\nl=[ labelDim=2 ]",
        "r.cntk: reader 'DSSMReader' needs two blocks of features, query and document, and one of labels\n"
        "    query=[ file=... ; dim=... ] ; document=[ file=... ; dim=... ] ; labels=[ labelDim=... ]",
    ),
    (
        "DSSMReader",
        "q=[ dim=3 ]\nd=[ file=d.bin; dim=2 ]\nl=[ labelDim=2 ]",
        "r.cntk:1:1: stream 'q' of reader 'DSSMReader' has no file\n    q=[ file=... ; dim=... ]",
    ),
    (
        "DSSMReader",
        DSSM.replace("dim=3", "dim=2"),
        "r.cntk:1:1: stream 'q' has dim=2, but 3 in 'q.bin'\n    Set dim=3, and change the input.",
    ),
    (
        "DSSMReader",
        DSSM.replace("d.bin", "no.bin"),
        "r.cntk:2:1: DSSMReader: cannot open file 'no.bin': no such file or directory\n"
        "    A relative name starts at the directory in which the command runs.",
    ),
    (
        "DSSMReader",
        DSSM.replace("d.bin", "short.bin"),
        "r.cntk:2:1: 'short.bin' has 1 rows, 'q.bin' 4\n"
        "    Each row of one file belongs to the row of the other that has its number.",
    ),
    (
        "SparsePCReader",
        "file=c.bin\nl=[ labelDim=1 ]",
        "r.cntk: reader 'SparsePCReader' needs at least one block of features and one of labels\n"
        "    features=[ dim=... ] ; labels=[ labelDim=1 ]",
    ),
    (
        "LibSVMBinaryReader",
        "file=b.bin\nminibatch=4",
        "r.cntk:1:1: LibSVMBinaryReader: minibatch=4, but 'b.bin' has batches of 3 rows\n"
        "    Leave minibatch out: the file knows it.",
    ),
    (
        "LibSVMBinaryReader",
        "file=b.bin\nQuerry=[ rename=x ]",
        "r.cntk:2:1: 'b.bin' has no stream 'Querry'; did you mean 'Query'?\n    It has: Query, Doc, Click.",
    ),
    (
        "LibSVMBinaryReader",
        "file=b.bin\nQuery=[ rename=Doc ]",
        "r.cntk:1:1: two streams of 'b.bin' feed 'Doc'",
    ),
    (
        "LibSVMBinaryReader",
        "file=b.bin\nClick=[ labelDim=3 ]",
        "r.cntk:2:1: stream 'Click' has dim=3, but 2 in the file\n    Leave dim out: the file knows it.",
    ),
]


@pytest.mark.parametrize(("name", "text", "message"), CASES)
def test_wrong_recipes(make, name: str, text: str, message: str) -> None:
    files = {**PAIRS, "c.bin": ROWS, "b.bin": BATCHES, "short.bin": dssm_file(2, D[:1])}
    with pytest.raises(CntkError) as caught:
        make(name, text, files, dtype="float32")
    assert str(caught.value) == message


def test_blocks_say_what_they_are(make) -> None:
    """Not by their keys alone."""
    text = CORPUS.replace("l=[ labelDim=1 ]", "l=[ sectionType=Labels ]")
    reader = make("SparsePCReader", text, {"c.bin": ROWS}, dtype="float32")
    assert read(reader)["l"] == [[0], [0.5], [1], [1.5]]


def test_sequences_that_are_not_whole(make) -> None:
    reader = make("SparsePCReader", CORPUS + "microbatchSize=3", {"c.bin": ROWS}, dtype="float32")
    with pytest.raises(CntkError) as caught:
        read(reader)
    assert str(caught.value) == (
        f"c.bin: byte {len(ROWS)}: the last sequence has 1 rows, microbatchSize=3\n"
        "    microbatchSize has to divide the number of rows."
    )


def test_inputs_of_other_sizes_are_named_together(make) -> None:
    with pytest.raises(CntkError) as caught:
        make("SparsePCReader", CORPUS, {"c.bin": ROWS}, inputs={"q": (4,), "l": (2,)})
    said = str(caught.value).splitlines()
    assert [line.partition(": ")[2] for line in said[::2]] == [
        "stream 'q' has dim=3, but the network's input 'q' is [4]",
        "stream 'l' has labelDim=1, but the network's input 'l' is [2]",
        "",
    ]


def test_an_input_of_another_size(make) -> None:
    with pytest.raises(CntkError) as caught:
        make("DSSMReader", DSSM, PAIRS, inputs={"q": (4,)})
    assert str(caught.value) == (
        "r.cntk:1:1: stream 'q' has dim=3, but the network's input 'q' is [4]\n    Set dim=4, or change the input."
    )


def test_chunks_of_pairs(make) -> None:
    reader = make("DSSMReader", DSSM + "precision=float\nchunkSizeInRows=3", PAIRS)
    assert [info.samples for info in reader.source.index()] == [3, 1]
    assert [len(reader.source.load(chunk).columns["l"].data) for chunk in range(2)] == [3, 1]


def test_batches_have_the_precision_of_the_network_where_the_block_says_none(make) -> None:
    data = libsvm_file([("Query", 3)], [("Click", 2)], [batch([Q], [[(0.1, 1)] * 4], "d")])
    reader = make("LibSVMBinaryReader", "file=b.bin", {"b.bin": data}, dtype="float64")
    assert read(reader) == {"Query": DENSE_Q, "Click": [[0.1, 1]] * 4}


def test_labels_that_are_too_large_for_the_network(make) -> None:
    head = libsvm_file([("Query", 3)], [("Click", 1)], [b""])
    data = libsvm_file([("Query", 3)], [("Click", 1)], [batch([Q], [[(1.0,), (2.0,), (1e300,), (0.0,)]], "d")])
    reader = make("LibSVMBinaryReader", "file=b.bin\nprecision=double", {"b.bin": data}, dtype="float32")
    with pytest.raises(CntkError) as caught:
        read(reader)
    place = len(data) - 4 * 8
    assert len(head) < place
    assert str(caught.value).splitlines()[0].startswith(f"b.bin: byte {place}: ")
    assert "'Click'" in str(caught.value)


def test_a_batch_without_rows(make) -> None:
    streams = [("Query", 3)], [("Click", 1)]
    batches = [batch([Q[:2]], [[(1.0,), (2.0,)]]), batch([[]], [[]]), batch([Q[2:]], [[(3.0,), (4.0,)]])]
    reader = make("LibSVMBinaryReader", "file=b.bin\nprecision=float", {"b.bin": libsvm_file(*streams, batches)})
    assert [info.samples for info in reader.source.index()] == [2, 0, 2]
    assert sum(minibatch.samples for minibatch in reader.minibatches(EpochSpec(minibatch_size=9))) == 4


@pytest.mark.parametrize(
    ("size", "chunks"), [(1, [1] * 6), (28, [1] * 6), (29, [2] * 3), (56, [2] * 3), (57, [3, 3]), (85, [4, 2])]
)
def test_chunks_of_a_corpus_have_as_many_bytes(make, size: int, chunks: list[int]) -> None:
    """At least, in whole rows."""
    data = corpus_file([([{0: 1.0}, {1: 2.0}], float(number)) for number in range(6)], "f")
    assert len(data) == 6 * (2 * 12 + 4)
    reader = make("SparsePCReader", f"{CORPUS}chunkSizeInBytes={size}", {"c.bin": data}, dtype="float32")
    assert [info.samples for info in reader.source.index()] == chunks


@pytest.mark.parametrize(("count", "sequence"), [(1, False), (2, True), (4, True)])
def test_rows_are_sequences_if_there_are_several(make, count: int, sequence: bool) -> None:
    reader = make("SparsePCReader", f"{CORPUS}microbatchSize={count}", {"c.bin": ROWS}, dtype="float32")
    assert [stream.sequence for stream in reader.streams] == [sequence] * 3
