"""What network and which rates are chosen."""

from __future__ import annotations

import pytest
from cntk_tool_init.found import CLASSIFY, LANGUAGE_MODEL, REGRESS, TAG, Prepared, Stream, Wishes, word_classes
from cntk_tool_init.networks import choose


def dense(samples: int = 0, x: int = 3, y: int = 2, **others: object) -> Prepared:
    return Prepared(Stream("x", x), Stream("y", y), [], samples=samples, **others)


@pytest.mark.parametrize(
    ("samples", "size"),
    [(0, 8), (800, 8), (801, 16), (1600, 16), (1601, 32), (12_801, 256), (12_800, 128), (10**7, 256)],
)
def test_a_minibatch_is_a_hundredth_of_an_epoch_between_8_and_256(samples: int, size: int) -> None:
    first = choose(dense(samples), CLASSIFY).rates[0]
    assert first == f"{f'minibatchSize = {size}':<41}# samples that are learned from together"


@pytest.mark.parametrize(
    ("x", "y", "size"),
    [(1, 1, 16), (16, 2, 16), (17, 2, 32), (2, 33, 64), (128, 1, 128), (129, 1, 256), (256, 1, 256), (999, 1, 256)],
)
def test_hidden_layers_are_as_wide_as_the_next_power_of_two(x: int, y: int, size: int) -> None:
    assert choose(dense(x=x, y=y), CLASSIFY).says == f"two hidden layers of {size}"


def test_steps_of_sequences_are_learned_in_larger_minibatches_for_fewer_epochs() -> None:
    tags = choose(dense(sequential=True), TAG)
    one_label = choose(dense(sequential=True, whole=True), CLASSIFY)
    sizes = [one.rates[0].split()[2] for one in (tags, one_label)]
    assert sizes == ["256", "64"]
    assert {tags.epochs, one_label.epochs} == {10}
    assert choose(dense(), REGRESS).epochs == 30


@pytest.mark.parametrize(
    ("width", "says"), [(500, "LSTMs of 128 in both directions"), (3, "LSTMs of 16 in both directions")]
)
def test_an_lstm_is_at_most_128_wide(width: int, says: str) -> None:
    assert choose(dense(x=width, sequential=True), TAG).says == says


def test_a_language_model_looks_back_alone() -> None:
    chosen = choose(dense(x=40, sequential=True), LANGUAGE_MODEL)
    assert chosen.says == "an LSTM of 64"
    assert not [line for line in chosen.network if "Both" in line]


@pytest.mark.parametrize(
    ("image", "maps"),
    [((3, 9, 1), []), ((4, 9, 1), [16]), ((7, 7, 3), [16]), ((8, 8, 3), [16, 32]), ((64, 64, 3), [16, 32, 64])],
)
def test_pictures_are_convolved_while_they_are_large_enough(image: tuple[int, int, int], maps: list[int]) -> None:
    chosen = choose(dense(image=image), CLASSIFY)
    found = [line for line in chosen.network if "ConvolutionalLayer" in line]
    assert found == [f"        ConvolutionalLayer {{{one}, (3:3), pad = true, activation = ReLU}} :" for one in maps]
    assert chosen.says.startswith(f"{len(maps)} convolutions")
    assert chosen.rates[0].startswith("minibatchSize = 32 ")


@pytest.mark.parametrize(("words", "hidden", "classes"), [(3, 16, 2), (10, 16, 3), (100, 128, 10), (10_000, 200, 100)])
def test_words_come_in_about_as_many_classes_as_a_class_has_words(words: int, hidden: int, classes: int) -> None:
    chosen = choose(Prepared(Stream("features", words), Stream("labels", 4), [], words=words), LANGUAGE_MODEL)
    assert chosen.says == f"an LSTM of {hidden}, with {classes} classes of words"
    assert chosen.epochs == 10


@pytest.mark.parametrize(("words", "classes"), [(1, 2), (4, 2), (5, 2), (6, 2), (9, 3), (15, 3), (16, 4)])
def test_classes_of_words(words: int, classes: int) -> None:
    assert word_classes(words) == classes


@pytest.mark.parametrize(
    ("share", "count", "held"),
    [(0.1, 20, [9, 19]), (0.1, 5, [4]), (0.1, 1, []), (0.5, 4, [1, 3]), (0.0, 9, []), (0.3, 7, [2, 5])],
)
def test_one_in_so_many_is_held_out(share: float, count: int, held: list[int]) -> None:
    wishes = Wishes(share=share).of(count)
    assert [number for number in range(count) if wishes.holds_out(number)] == held
