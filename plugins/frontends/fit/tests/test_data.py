"""Data as programs have them: each kind is learned as the same arrays are."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest
from cntk_builder_python import BATCH, Dense, Graph, cross_entropy_with_softmax
from cntk_fit import Estimator
from cntk_fit.taking import Stream, Wanted, is_stream
from fit_problems import CLASSES, SENTENCES, TAGS, X, Y, perceptron, same, tagger, values
from scipy.sparse import csc_array, csr_array

from cntk_core.api import CntkError, DataError, UnsupportedError, UsageError

NAMES = np.array(["no", "yes"])[CLASSES]


def learned(x, y=None, network=perceptron, columns=None, **given):
    estimator = Estimator(network(), columns=columns)
    estimator.fit(x, y, shuffle=False, **given)
    return values(estimator.network)


def table():
    pa = pytest.importorskip("pyarrow")
    return pa.table({"height": X[:, 0], "width": X[:, 1], "y": NAMES})


class Tensor:
    """What a tensor of PyTorch has."""

    def __init__(self, array):
        self.array = array

    def detach(self):
        return SimpleNamespace(cpu=lambda: SimpleNamespace(numpy=lambda: self.array))


KINDS = {
    "classes": lambda: (X, CLASSES),
    "list of classes": lambda: (X.tolist(), CLASSES.tolist()),
    "names": lambda: (X, NAMES),
    "objects": lambda: (X, NAMES.astype(object)),
    "truth": lambda: (X, CLASSES == 1),
    "by name": lambda: ({"X": X, "y": Y},),
    "tensors": lambda: (Tensor(X), Tensor(CLASSES)),
    "sparse": lambda: (csr_array(X), csc_array(Y)),
    "Arrow": lambda: (table(),),
    "Arrow and a name": lambda: (table().rename_columns(["a", "b", "kind"]), "kind"),
    "Arrow and a column": lambda: (table().drop(["y"]), table()["y"]),
    "minibatches": lambda: (
        [{"x": X[first : first + 32], "y": CLASSES[first : first + 32]} for first in range(0, 120, 32)],
    ),
    "generator": lambda: (((X[first : first + 32], CLASSES[first : first + 32]) for first in range(0, 120, 32)),),
    "batches of Arrow": lambda: (table().to_batches(32),),
    "reader of Arrow": lambda: (table().to_reader(32),),
}


@pytest.mark.parametrize("kind", KINDS)
def test_kinds_of_data(kind):
    assert same(learned(*KINDS[kind]()), learned(X, Y))


def test_tables_of_pandas():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"height": X[:, 0], "width": X[:, 1], "y": pd.Categorical(NAMES)})
    expected = learned(X, Y)
    assert same(learned(frame), expected)
    assert same(learned(frame[["height", "width"]], frame["y"]), expected)
    assert same(learned(frame.assign(name="x"), columns={"x": ["height", "width"]}), expected)
    shuffled = frame.iloc[::-1]
    assert same(learned(shuffled, "y"), learned(X[::-1], Y[::-1]))


def test_parquet_files(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(table(), tmp_path / "data.parquet")
    assert same(learned(tmp_path / "data.parquet"), learned(X, Y))
    assert same(learned(str(tmp_path / "data.parquet"), "y"), learned(X, Y))
    with pytest.raises(DataError, match=r"^'nothing.parquet' cannot be read as a Parquet file: "):
        learned("nothing.parquet", "y")


def test_parquet_without_arrow(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(UnsupportedError) as caught:
        learned("data.parquet", "y")
    assert str(caught.value) == "'data.parquet' cannot be read without Arrow\n    pip install 'cntk-fit[tables]'"


class HuggingFace:
    """What a data set of Hugging Face has."""

    def __init__(self, found):
        self.found, self.column_names = found, found.column_names

    def __len__(self):
        return len(self.found)

    def with_format(self, form):
        return {"arrow": HuggingFaceRows(self.found)}[form]


class HuggingFaceRows:
    def __init__(self, found):
        self.found = found

    def __getitem__(self, rows):
        return self.found.slice(*rows.indices(self.found.num_rows)[:2])


class Streamed:
    """What a data set of Hugging Face has that is streamed."""

    column_names = None

    def __iter__(self):
        raise AssertionError("row by row")

    def with_format(self, form):
        raise AssertionError(form)

    def iter(self, batch_size):
        for first in range(0, 120, batch_size):
            yield {"x": X[first : first + batch_size].tolist(), "y": CLASSES[first : first + batch_size].tolist()}


def test_data_sets_of_hugging_face():
    assert same(learned(HuggingFace(table())), learned(X, Y))
    assert same(learned(Streamed()), learned(X, Y))


def test_the_real_loaders(tmp_path):
    torch = pytest.importorskip("torch")
    datasets = pytest.importorskip("datasets")
    loader = torch.utils.data.DataLoader(list(zip(X, CLASSES, strict=True)), batch_size=32)
    assert same(learned(loader, epochs=2), learned(X, Y, epochs=2))
    assert same(learned(datasets.Dataset.from_dict({"x": X.tolist(), "y": CLASSES.tolist()})), learned(X, Y))


def test_several_inputs_and_a_loader_that_brings_labels():
    def network():
        graph = Graph(seed=1)
        z = Dense(2)(graph.input("a", 1) + graph.input("b", 1))
        graph.criterion(cross_entropy_with_softmax(z, graph.label("y", 2)), "ce")
        graph.output(z, "z")
        return graph.finish()

    one, other = X[:, :1], X[:, 1]
    expected = learned({"b": other, "a": one, "y": Y}, network=network)
    assert same(learned((one, other), Y, network=network), expected)
    assert same(learned({"a": one, "b": other}, {"Y": CLASSES}, network=network), expected)
    estimator = Estimator(perceptron())
    batches = [(X[:50], CLASSES[:50]), (X[50:], CLASSES[50:])]
    np.testing.assert_allclose(estimator.predict(lambda: iter(batches)), estimator.predict(X), rtol=1e-5)


def test_kinds_of_sequences():
    def tags(**given):
        return learned(network=tagger, minibatch_size=8, **given)

    dense = [np.eye(3)[each] for each in TAGS]
    expected = tags(x=SENTENCES, y=TAGS)
    assert same(tags(x=[each.tolist() for each in SENTENCES], y=[each.tolist() for each in TAGS]), expected)
    assert same(tags(x=SENTENCES, y=dense), expected)
    assert same(tags(x=[csr_array(np.eye(20)[each]) for each in SENTENCES], y=TAGS), expected)
    names = [np.array(["noun", "to", "verb"])[each] for each in TAGS]
    assert same(tags(x=SENTENCES, y=names), expected)
    other = learned(SENTENCES, TAGS, network=lambda: tagger(sparse=False), minibatch_size=8)
    assert all(np.allclose(other[name], expected[name], atol=1e-6) for name in expected)
    together = np.array([each[:1].repeat(4) for each in SENTENCES])
    assert same(tags(x=together, y=together % 3), tags(x=list(together), y=list(together % 3)))


def test_columns_of_classes_and_of_arrays():
    pa = pytest.importorskip("pyarrow")

    def network():
        graph = Graph(seed=1)
        z = Dense(2)(graph.input("x", 4, axis=BATCH))
        graph.criterion(cross_entropy_with_softmax(z, graph.label("y", 2, axis=BATCH)), "ce")
        graph.output(z, "z")
        return graph.finish()

    colours = np.array(["red", "green", "blue"])[np.arange(120) % 3]
    whole = np.column_stack([X[:, 0], np.eye(3)[[2, 1, 0] * 40]])
    found = pa.table({"height": X[:, 0], "colour": pa.array(colours).dictionary_encode(), "y": CLASSES})
    expected = learned(whole, CLASSES, network=network)
    assert same(learned(found, network=network), expected)
    arrays = pa.table({"x": whole.tolist(), "y": CLASSES})
    assert same(learned(arrays, network=network), expected)
    estimator = Estimator(network())
    estimator.fit(found)
    few = found.slice(3, 1).drop(["y"])
    np.testing.assert_allclose(estimator.predict(few), estimator.predict(whole[3:4]), rtol=1e-5)
    with pytest.raises(DataError) as caught:
        estimator.predict(few.set_column(1, "colour", [["pink"]]))
    assert str(caught.value) == (
        "the column 'colour' has classes that the first data did not have: 'pink'\n"
        "    Known are 'blue', 'green', 'red'."
    )


def test_what_the_first_data_have_shown_is_kept():
    estimator = Estimator(perceptron())
    estimator.fit(X, NAMES)
    assert estimator.classes == {"y": ["no", "yes"]}
    only_yes = estimator.evaluate(X[NAMES == "yes"], NAMES[NAMES == "yes"])
    assert only_yes["errs"] == (estimator.classify(X[NAMES == "yes"]) != "yes").mean()


def test_a_fit_that_fails_shows_nothing():
    estimator = Estimator(perceptron())
    with pytest.raises(CntkError):
        estimator.fit(X[:5], NAMES)
    assert estimator.classes == {}


def test_a_stream_can_be_a_function_and_says_how_long_it_is():
    calls = []

    def minibatches():
        calls.append(1)
        yield X, CLASSES

    Estimator(perceptron()).fit(minibatches, epochs=3)
    assert len(calls) == 3  # the first minibatch is looked at, and kept
    wanted = Wanted((), (), {}, None)
    assert Stream(wanted, [1, 2, 3], 1).known_length == 3
    assert Stream(wanted, iter([]), 1).known_length is None


@pytest.mark.parametrize("data", [X, [1, 2], (1, 2), {"x": X}, csr_array(X), Tensor(X)])
def test_what_is_no_stream(data):
    assert not is_stream(data)


# -- mistakes -----------------------------------------------------------------------------------------------------

BAD = np.where(np.arange(240).reshape(120, 2) == 7, np.nan, X)
_FILL = "\n    Leave these rows out, or fill them in."
_CLASSES = "\n    Classes are numbered from 0 to 1; or give their names."
_X = "\n    Give an array (rows, 2), or numbers of classes below 2, or for sequences a list of arrays (steps, 2)."


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (
            X[:, :1],
            CLASSES[:5],
            "the input 'x' takes samples of the shape (2,), and is given an array of the shape (120, 1)"
            f"{_X}\nthe data differ in the number of rows: 'x' has 120, 'y' has 5\n2 problems found",
        ),
        (BAD, Y, f"the input 'x' is not finite (NaN or infinite) in 1 of 120 rows; the first is row 3{_FILL}"),
        (
            csr_array(BAD),
            Y,
            f"the input 'x' is given a sparse matrix with numbers that are not finite (NaN or infinite){_FILL}",
        ),
        (X, CLASSES + 1, f"the input 'y' has 2 classes, and is given numbers of classes from 1 to 2{_CLASSES}"),
        (X, np.arange(120).astype(str), "the input 'y' has 2 classes, and is given 120 names"),
        (X, [*NAMES[:119], None], f"the input 'y' has no value in 1 of 120 rows; the first is row 119{_FILL}"),
        (X[:0], Y[:0], "there are no rows"),
        (X * 1j, Y, "the input 'x' is given values of the type complex128, which are no numbers"),
        ({"why": X}, Y, "there are no data for the input 'x'\n    Given: why"),
        (
            X,
            None,
            "data are given for 1 input; there are 'x', 'y'\n"
            "    Give a dictionary by name, a tuple in this order, or labels as the second argument.",
        ),
    ],
)
def test_all_that_is_wrong_is_said(x, y, message):
    with pytest.raises(CntkError) as caught:
        Estimator(perceptron()).fit(x, y)
    assert str(caught.value) == message


def test_sequences_that_are_wrong():
    estimator = Estimator(tagger())
    with pytest.raises(CntkError) as caught:
        estimator.fit([*SENTENCES[:-1], np.ones((3, 7))], [*TAGS[:-1], np.array([5])])
    assert str(caught.value) == (
        "the input 'words' takes samples of the shape (20,), and is given in row 23 of 24 a sequence of the shape "
        "(3, 7)\n"
        "    Give an array (rows, 20), or numbers of classes below 20, or for sequences a list of arrays (steps, 20).\n"
        "the input 'tags' has 3 classes, and is given numbers of classes from 0 to 5\n"
        "    Classes are numbered from 0 to 2; or give their names.\n"
        "2 problems found"
    )


def test_tables_that_are_wrong():
    pa = pytest.importorskip("pyarrow")
    found = table().append_column("when", pa.array([None] * 120, pa.date32()))
    estimator = Estimator(perceptron(), columns={"x": ["height", "when"], "y": "yes"})
    with pytest.raises(CntkError) as caught:
        estimator.fit(found)
    assert str(caught.value) == (
        "the table has no column 'yes' for the input 'y'\n    Columns: height, width, y, when\n"
        "the column 'when' has no value in 120 of 120 rows; the first is row 0"
        f"{_FILL}\n2 problems found"
    )
    with pytest.raises(DataError) as caught:
        Estimator(perceptron()).fit(table().append_column("more", [NAMES]))
    assert str(caught.value) == (
        "the input 'x' takes 2 numbers, and its columns give 4: height, width, more (2 classes)\n"
        "    Say which columns it has: columns={'x': [...]}."
    )


def test_data_that_come_once():
    minibatches = iter([(X, Y)])
    with pytest.raises(DataError) as caught:
        Estimator(perceptron()).fit(minibatches, epochs=2)
    assert str(caught.value) == (
        "the data can be read only once, and all of them were read\n"
        "    Give a function that makes the iterator, a list or a loader; or ask for one epoch."
    )
    with pytest.raises(DataError, match=r"^there is nothing to learn: the data gave no minibatch$"):
        Estimator(perceptron()).fit(iter([]))
    with pytest.raises(DataError, match=r"^there is nothing to evaluate: the data gave no minibatch$"):
        Estimator(perceptron()).evaluate(iter([]))
    with pytest.raises(DataError) as caught:
        Estimator(perceptron()).fit(iter([(X, Y), (X, Y[:, :1])]))
    assert caught.value.message == (
        "minibatch 2 of the data: the input 'y' takes samples of the shape (2,), "
        "and is given an array of the shape (120, 1)"
    )


def test_what_cannot_be_asked_of_a_stream():
    estimator = Estimator(perceptron())
    with pytest.raises(
        UsageError, match=r"^the data come minibatch by minibatch, and labels or weights are given apart"
    ):
        estimator.fit(iter([X]), Y)
    with pytest.raises(UsageError, match=r"^no share can be held out of data that come minibatch by minibatch"):
        estimator.fit(iter([(X, Y)]), validation=0.1)
    with pytest.raises(UsageError, match=r"^class_weight needs data that are there at once"):
        estimator.fit(iter([(X, Y)]), class_weight="balanced")


def test_networks_that_do_not_say_what_their_scores_are():
    network = perceptron()
    (scores,) = network.roots["output"]
    network.roots["output"] = [scores, *scores.inputs[:1]]
    estimator = Estimator(network)
    with pytest.raises(CntkError) as caught:
        estimator.classify(X)
    first, second = (node.name for node in network.roots["output"])
    assert str(caught.value) == f"the network has several outputs: {first}, {second}\n    Name the one with the scores."
    assert len(estimator.classify(X, scores.name)) == len(X)
    network.roots["output"] = []
    with pytest.raises(CntkError) as caught:
        estimator.classify(X)
    assert str(caught.value) == "the network marks no output\n    Name the nodes whose values you want."


def test_dictionaries_of_data_sets():
    class Several(dict):
        """What Hugging Face's DatasetDict has."""

        column_names = with_format = None

    with pytest.raises(DataError) as caught:
        Estimator(perceptron()).fit(Several(train=1, test=2))
    assert str(caught.value) == "these are several data sets: train, test\n    Give one of them, such as data['train']."
