"""SequenceTagger: words and features, words that never came, and the rest of scikit-learn."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

if TYPE_CHECKING:
    from cntk_sklearn import SequenceTagger
    from sklearn.base import clone
    from sklearn.exceptions import NotFittedError
    from sklearn.model_selection import GridSearchCV


@pytest.fixture(scope="module", autouse=True)
def later() -> None:
    """Import what takes long when the first of these tests runs: each worker collects all tests."""
    from cntk_sklearn import SequenceTagger  # noqa: F401
    from sklearn.base import clone  # noqa: F401
    from sklearn.exceptions import NotFittedError  # noqa: F401
    from sklearn.model_selection import GridSearchCV  # noqa: F401

    globals().update(locals())


SENTENCES = [
    ["the", "cat", "sleeps"],
    ["a", "dog", "sees", "the", "cat"],
    ["the", "dog", "sleeps"],
    ["a", "cat", "sees", "a", "dog"],
] * 3
KINDS = {"the": "D", "a": "D", "cat": "N", "dog": "N", "sleeps": "V", "sees": "V"}
TAGS = [[KINDS[word] for word in sentence] for sentence in SENTENCES]


def tagger(**settings: Any) -> SequenceTagger:
    given = {"embedding": 6, "hidden": 8, "epochs": 30, "learning_rate": 0.05, "random_state": 0, **settings}
    return SequenceTagger(**given)


def test_words_get_tags() -> None:
    fitted = tagger().fit(SENTENCES, TAGS)
    assert fitted.classes_ == ["D", "N", "V"]
    assert fitted.score(SENTENCES, TAGS) == 1.0
    assert fitted.predict([["a", "dog", "sleeps"], []]) == [["D", "N", "V"], []]
    first, empty = fitted.predict_proba([["a", "dog", "sleeps"], []])
    assert first.shape == (3, 3)
    assert empty.shape == (0, 3)
    np.testing.assert_allclose(first.sum(axis=1), 1.0, rtol=1e-5)


def test_what_is_said_of_strange_words_is_learned_from_rare_ones() -> None:
    rare = [*SENTENCES, ["the", "zebra", "sleeps"], ["a", "mole", "sees", "the", "newt"]]
    tags = [*TAGS, ["D", "N", "V"], ["D", "N", "V", "D", "N"]]
    fitted = tagger(min_count=2).fit(rare, tags)
    assert fitted.words_ is not None
    assert "zebra" not in fitted.words_
    assert fitted.predict([["the", "wombat", "sleeps"]]) == [["D", "N", "V"]]


def test_words_and_tags_of_any_kind() -> None:
    words = [[1, "one", (1, 2)], [(1, 2), 1]]
    tags = [[None, "x", 3], [3, None]]
    fitted = tagger(bidirectional=False).fit(words, tags)
    assert fitted.predict(words) == tags


def test_steps_may_be_features() -> None:
    random = np.random.default_rng(0)
    rows = [random.normal(size=(length, 2)) for length in random.integers(1, 9, size=20)]
    tags = [(each[:, 0] > 0).tolist() for each in rows]
    fitted = tagger(dropout=0.1, early_stopping=True).fit(rows, tags)
    assert fitted.score(rows, tags) > 0.9
    with pytest.raises(ValueError, match=r"^a sequence has the shape \(4, 3\); it has to be \(steps, 2\)$"):
        fitted.predict([np.zeros((4, 3))])


def test_one_tag_is_all_that_is_said() -> None:
    fitted = tagger(epochs=1).fit([["a"], ["b", "c"]], [["x"], ["x", "x"]])
    assert fitted.predict([["a", "z"]]) == [["x", "x"]]
    assert fitted.predict_proba([["a", "z"]])[0].tolist() == [[1.0], [1.0]]


def test_copies() -> None:
    fitted = tagger(epochs=2).fit(SENTENCES, TAGS)
    copied, again = pickle.loads(pickle.dumps(fitted)), clone(fitted)
    with pytest.raises(NotFittedError):
        again.predict(SENTENCES)
    again.fit(SENTENCES, TAGS)
    for one, other, third in zip(*(each.predict_proba(SENTENCES) for each in (fitted, copied, again)), strict=True):
        np.testing.assert_array_equal(one, other)
        np.testing.assert_array_equal(one, third)


def test_a_search() -> None:
    search = GridSearchCV(tagger(epochs=3), {"hidden": [4, (4, 4)]}, cv=2).fit(SENTENCES, TAGS)
    assert search.best_params_["hidden"] in (4, (4, 4))
    assert 0.0 < search.best_score_ <= 1.0


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        ([["a"]], [["x"], ["y"]], "there are 1 sequences and tags of 2"),
        ([["a"], ["b", "c"]], [["x"], ["y"]], "sequence 1 has 2 steps and 1 tags"),
        (["ab"], [["x", "y"]], "sequence 0 is a string; give a list of words, and a list of tags"),
        ([[]], [[]], "there is nothing to learn: there are no sequences with steps"),
    ],
)
def test_data_that_do_not_fit(x: Any, y: Any, message: str) -> None:
    with pytest.raises(ValueError) as raised:
        tagger().fit(x, y)
    assert str(raised.value) == message
