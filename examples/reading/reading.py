"""A network that reads a passage until it knows the answer to a question (ReasoNet).

Y. Shen, P. Huang, J. Gao, W. Chen, "ReasoNet: Learning to stop reading in machine comprehension", KDD 2017.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from cntk_builder_python import (
    GRU,
    BiRecurrence,
    Dense,
    Dropout,
    Embedding,
    Graph,
    Term,
    classification_error,
    expand_dims,
    hardmax,
    log,
    sequence,
    sigmoid,
    splice,
    sqrt,
    stop_gradient,
)

LEAST = 1e-8
"""What is added to chances before they divide or their logarithm is taken."""

SHARPNESS = 10.0
"""Factor of the cosines before the softmax (10 in the paper)."""


def dot(x: Term, y: Term) -> Term:
    """Return the product of two vectors."""
    return x.graph.apply("TransposeTimes", x, y)


def unit(x: Term) -> Term:
    """Return a vector in the same direction whose length is 1."""
    return x / sqrt(dot(x, x) + LEAST)


class Attention:
    """Looks at the steps of a text, by the cosine between what is made of each step and of a state."""

    def __init__(self, steps: Term, width: int, name: str) -> None:
        keys = Dense(width, bias=False, name=f"{name}.steps")(steps)
        self.keys, self.there = sequence.unpack(unit(keys))
        self.query = Dense(width, bias=False, name=f"{name}.state")

    def __call__(self, state: Term) -> Term:
        """Return how much a state looks at each step; together they are 1."""
        query = unit(self.query(state))
        return query.graph.apply("AttentionWeights", self.keys, query, self.there, scale=SHARPNESS)


def seen(values: Term, weights: Term) -> Term:
    """Return the weighted sum of what a text has at its steps."""
    return weights.graph.apply("AttentionSum", values, weights)


class Texts(NamedTuple):
    """A passage and a question as states look at them.

    Attributes:
        passage, question: what is seen of their steps, ``(longest, width)`` for each question.
        look, back: attention to the passage and to the question.
        begin: the state before the first reading.
        width: of states.
    """

    passage: Term
    question: Term
    look: Attention
    back: Attention
    begin: Term
    width: int


class Pointer(NamedTuple):
    """A part of the answer: attention to the passage, and what the passage has at its steps."""

    attention: Attention
    values: Term


class Reading(NamedTuple):
    """What comes of one reading.

    Attributes:
        chance: of answering after this reading, and not earlier or later.
        right: chance that the answer would be right.
        said: the answer: a chance for each entity, or for each step of the passage to be the begin or the end.
    """

    chance: Term
    right: Term
    said: tuple[Term, ...]


def sum_of(terms: list[Term]) -> Term:
    """Return the sum of terms."""
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total


def contrastive(readings: list[Reading], worth: list[float]) -> Term:
    """Return the contrastive reward: the sum over all choices of chance * (reward / mean reward - 1), negated.

    The mean is that of this question's choices, and counts as a constant.
    """
    reward = sum_of([each.chance * each.right * one for each, one in zip(readings, worth, strict=True)])
    return sum_of([each.chance for each in readings]) - reward / (stop_gradient(reward) + LEAST)


def against_baselines(readings: list[Reading], worth: list[float], baselines: Term) -> Term:
    """Return the sum over all choices of chance * (reward - baseline), negated, and what the baselines learn from.

    There is a baseline for each number of readings, the same for all questions, which learns the mean reward.
    """
    total = []
    for place, (each, one) in enumerate(zip(readings, worth, strict=True)):
        baseline = baselines[place : place + 1]
        total.append(each.chance * (stop_gradient(baseline) - each.right * one))
        chance, right = stop_gradient(each.chance), stop_gradient(each.right)
        total.append(0.5 * chance * (right * (one - baseline) * (one - baseline) + (1.0 - right) * baseline * baseline))
    return sum_of(total)


def sampled(readings: list[Reading], worth: list[float], baselines: Term, answer: Term, entities: int) -> Term:
    """Return REINFORCE for one choice that is drawn: -(reward - baseline) log chance, and the baseline's error."""
    chances = splice(*(each.chance * each.said[0] for each in readings))
    noise = chances.graph.apply("RandomDistribution", chances, type="gumbel", args=(0.0, 1.0))
    choice = stop_gradient(hardmax(log(chances + LEAST) + noise))
    parts = [choice[place * entities : (place + 1) * entities] for place in range(len(readings))]
    reward = sum_of([dot(answer, part) * one for part, one in zip(parts, worth, strict=True)])
    ones = chances.graph.constant(np.ones(entities), name="ones")
    baseline = sum_of([dot(ones, part) * baselines[place : place + 1] for place, part in enumerate(parts)])
    gain = reward - baseline
    return 0.5 * gain * gain - stop_gradient(gain) * log(dot(choice, chances) + LEAST)


def encode(passage: Term, question: Term, one: Term, hidden: int) -> tuple[Texts, Term]:
    """Read passage and question in both directions.

    Args:
        passage, question: the words' vectors.
        one: a sequence of one step for each question.
        hidden: width of each direction's states.

    Returns:
        The texts, and the encoded steps of the passage.
    """

    def both(text: Term, name: str) -> Term:
        return BiRecurrence(GRU(hidden, name=f"{name}.ahead"), GRU(hidden, name=f"{name}.back"))(text)

    steps, asked = both(passage, "passage"), both(question, "question")
    begin = splice(sequence.last(asked)[:hidden], sequence.first(asked)[hidden:])
    begin = one.graph.apply("ReconcileDynamicAxis", begin, one)
    look, back = Attention(steps, 2 * hidden, "look"), Attention(asked, 2 * hidden, "back")
    memory, words_asked = (sequence.unpack(each)[0] for each in (steps, asked))
    return Texts(memory, words_asked, look, back, begin, 2 * hidden), steps


def read(
    texts: Texts, pointers: list[Pointer], answer: Term | None, one: Term, reads: int, gated: bool
) -> list[Reading]:
    """Read again and again, and answer after each reading.

    Args:
        texts: what is read.
        pointers: to the answer, or to its begin and its end.
        answer: the right entity; None where the pointers' values are 1 at the right step.
        one: 1 for each question.
        reads: how many readings there are.
        gated: it may stop before the last one.
    """
    graph, wide = one.graph, texts.width
    # Asleep, all numbers of readings have their chances; awake, the gate learns when to stop.
    gate = graph.parameter((wide, 1), init=0.0, name="stop.W", learning_rate_multiplier=0.0)
    bias = graph.parameter(1, init=-1.0, name="stop.b", learning_rate_multiplier=0.0)
    cell, state, here = GRU(wide, name="state"), texts.begin, one
    readings: list[Reading] = []
    for number in range(reads):
        looks = seen(texts.passage, texts.look(state)), seen(texts.question, texts.back(state))
        state = cell(state, splice(*looks))
        weights = [pointer.attention(state) for pointer in pointers]
        found = [seen(pointer.values, each) for pointer, each in zip(pointers, weights, strict=True)]
        right, said = (found[0] * found[1], weights) if answer is None else (dot(answer, found[0]), found)
        chance = here
        if number < reads - 1:
            stop = sigmoid(state @ gate + bias) * float(gated)
            chance, here = here * stop, here * (1.0 - stop)
        readings.append(Reading(chance, right, tuple(said)))
    return readings


def criterion_of(readings: list[Reading], reward: str, worth: float, answer: Term | None, entities: int) -> Term:
    """Return what training makes small."""
    if reward == "fixed":
        return -log(readings[-1].right + LEAST)
    values = [worth**place for place in range(len(readings))]
    if reward == "contrastive":
        return contrastive(readings, values)
    baselines = readings[0].right.graph.parameter(len(readings), init=0.0, name="baselines")
    if reward == "baseline":
        return against_baselines(readings, values, baselines)
    if answer is None:
        raise ValueError("reward=sampled draws one of the entities; with answers=span take baseline or contrastive")
    return sampled(readings, values, baselines, answer, entities)


def build(
    graph: Graph,
    words: int,
    entities: int,
    answers: str,
    dim: int,
    hidden: int,
    reads: int,
    reward: str,
    worth: float,
    dropout: float,
) -> None:
    """Build the network.

    Args:
        graph: what it is built in.
        words: size of the vocabulary, whose first words are the entities.
        entities: how many of them there are.
        answers: ``entity``, or ``span``: from where to where in the passage.
        dim, hidden: widths of words and of each direction's states.
        reads: the most often that it reads.
        reward: ``contrastive``, ``baseline``, ``sampled``; ``fixed``: always reads so often, and cross entropy.
        worth: of a right answer after another reading, relative to one before.
        dropout: share of each word's vector that is left out in training.
    """
    passage = graph.input("passage", words, sparse=True, axis="passage")
    question = graph.input("question", words, sparse=True, axis="question")
    one = graph.input("one", 1)  # so that questions are what is counted, and not their words
    embed = Embedding(dim, name="words")
    vectors = [Dropout(dropout)(embed(text)) for text in (passage, question)]
    texts, steps = encode(vectors[0], vectors[1], one, hidden)
    answer = None
    if answers == "span":
        names = ["begin", "end"]
        at_steps = [graph.label(name, 1, axis="passage") for name in names]
    else:
        names = ["answer"]
        label = graph.label("answer", entities, sparse=True, axis="answer")
        answer = graph.apply("ReconcileDynamicAxis", label, one)
        # Which entity each word is; a word that is none has zeros.
        at_steps = [passage @ graph.constant(np.eye(words, entities), name="which")]
    pointers = [
        Pointer(Attention(steps, 2 * hidden, name), sequence.unpack(values)[0])
        for name, values in zip(names, at_steps, strict=True)
    ]

    readings = read(texts, pointers, answer, one, reads, reward != "fixed")
    graph.criterion(criterion_of(readings, reward, worth, answer, entities), "criterion")
    graph.evaluation(sum_of([each.chance * each.right for each in readings]), "right")
    graph.evaluation(sum_of([each.chance * (place + 1.0) for place, each in enumerate(readings)]), "reading")
    for place, name in enumerate(names):
        said = sum_of([each.chance * each.said[place] for each in readings])
        if answer is None:
            graph.output(sequence.to_sequence_like(expand_dims(said, -1), passage), f"p.{name}")
        else:
            graph.evaluation(classification_error(said, answer), "errors")
            graph.output(said, "p")
    graph.output(splice(*(each.chance for each in readings)), "chances")
