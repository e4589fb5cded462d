"""The action adapt: a trained model goes on learning from other data, without leaving its old ways too far if wanted.

With ``adaptationRegType=kl`` the labels are mixed with what the model that was started from says about the same
frames: ``(1 - w) * label + w * reference``. The gradient of the cross entropy is then that of the criterion and of a
penalty on the divergence from the old model (Yu, Yao, Su, Li and Seide, ICASSP 2013).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import attrs
import numpy as np

from cntk_core.api import (
    Action,
    CntkError,
    Config,
    ConfigError,
    DataError,
    DataReader,
    EpochSpec,
    Input,
    Location,
    Minibatch,
    Network,
    NetworkError,
    ParameterStore,
    StreamData,
    StreamInfo,
    collect,
    elements,
    raise_problems,
    show,
)
from cntk_core.api.engines import Program, make_plan
from cntk_core.api.recipes import ReaderAround, RecipeContext, check_readers, settings_of, train

_NONE = ("", "none")
_DIVERGENCE = ("kl", "klreg")


class AdaptAction(Action):
    """Trains a model further on other data, without letting it go too far from what it was."""

    requires_api = "1.0"
    name = "adapt"
    writes = ("modelPath",)
    needs_engine = True
    on_all_ranks = True
    announces_itself = True

    def check(self, context: RecipeContext, section: Config) -> None:
        """Raise what is wrong with the section before anything runs; all of it together."""
        problems: list[CntkError] = []
        for step in (_check_keys, check_readers, _check_sgd):
            collect(partial(step, context, section), problems)
        raise_problems(problems)

    def run(self, context: RecipeContext, section: Config) -> None:
        """Train the model in ``origModelFileName`` further and write ``modelPath``.

        Raises:
            CntkError: the model, the data or the settings are not what they must be.
        """
        start = section.require("origModelFileName")
        network = context.load_model(start.string(), start.where)
        sgd = _plain_sgd(section)
        weight = _weight(section)
        if not weight:
            train(context, section, sgd, network, action="adapt")
            return
        reference = context.load_model(start.string(), start.where)
        node = section.require("refNodeName")
        label = label_to_mix(network, reference, node.string(), node.where)
        program = context.make_engine(section).compile(
            make_plan(reference, [reference[node.string()]]), ParameterStore(reference.parameters, reference.dtype)
        )
        mixture = _Mixture(program, reference[node.string()].name, label.name, weight)
        train(context, section, sgd, network, action="adapt", change=lambda reader: MixedLabels(reader, mixture))


def _check_keys(context: RecipeContext, section: Config) -> None:
    section.require("modelPath")
    section.require("origModelFileName")
    if _weight(section) > 0 and section.get("refNodeName") is None:
        error = section.missing("refNodeName")
        error.hint = "It names the node of the start model whose value is mixed with the labels: its softmax."
        raise error


def _check_sgd(context: RecipeContext, section: Config) -> None:
    settings_of(context, _plain_sgd(section))


def _plain_sgd(section: Config) -> Config:
    """The SGD block without what only this action understands."""
    return section.section("SGD").with_entries("adaptationRegType=none")


def _weight(section: Config) -> float:
    """Share of the reference in the labels; 0 without regularization."""
    block = section.section("SGD")
    kind = block.string("adaptationRegType", "none")
    if kind.lower() not in (*_NONE, *_DIVERGENCE):
        raise ConfigError(
            f"adaptationRegType must be none or kl, not '{kind}'", where=block.location("adaptationRegType")
        )
    weight = block.real("adaptationRegWeight", 0.0)
    if not 0 <= weight <= 1:
        raise ConfigError(
            f"adaptationRegWeight must be in [0, 1], not {weight:g}", where=block.location("adaptationRegWeight")
        )
    return weight if kind.lower() in _DIVERGENCE else 0.0


def label_to_mix(network: Network, reference: Network, name: str, where: Location | None = None) -> Input:
    """Return the label that is mixed with the node ``name`` of the reference: the first of the label nodes.

    Raises:
        NetworkError: there is no label or no such node, or they differ in size.
    """
    labels = [node for node in network.roots["label"] if isinstance(node, Input)]
    if not labels:
        raise NetworkError("adaptationRegType=kl mixes labels, and the model has no label nodes", where=where)
    try:
        node = reference[name]
    except NetworkError as error:
        error.where = where
        raise
    if not node.framed or elements(node.known_shape) != elements(labels[0].known_shape):
        raise NetworkError(
            f"the reference '{node.name}' {show(node.known_shape, framed=bool(node.framed))} cannot be mixed with the "
            f"labels '{labels[0].name}' {show(labels[0].known_shape, framed=True)}",
            where=where,
            hint="Name a node with one value for each label, such as the softmax of the network's output.",
        )
    return labels[0]


@attrs.frozen(eq=False)
class _Mixture:
    """How labels are mixed: the program of the reference, its node, the label, and the share of the reference."""

    program: Program
    node: str
    label: str
    weight: float

    def of(self, minibatch: Minibatch) -> Minibatch:
        """Return the minibatch with other labels; one that was learned before may have none."""
        if not minibatch.streams:
            return minibatch
        given = minibatch.streams[self.label]
        labels = given.data if isinstance(given.data, np.ndarray) else given.data.toarray()
        self.program.evaluate(minibatch)
        reference = self.program.value(self.node)
        if len(reference) != len(labels):
            raise DataError(
                f"the reference '{self.node}' has {len(reference)} frames, the labels '{self.label}' {len(labels)}"
            )
        share = labels.dtype.type(self.weight)
        mixed = (1 - share) * labels + share * reference.reshape(labels.shape)
        streams = {**minibatch.streams, self.label: StreamData(mixed.astype(labels.dtype, copy=False), given.layout)}
        return attrs.evolve(minibatch, streams=streams)


class MixedLabels(ReaderAround):
    """A reader whose labels are mixed with what a reference says about the same frames."""

    def __init__(self, reader: DataReader, mixture: _Mixture) -> None:
        super().__init__(reader)
        self._mixture = mixture

    @property
    def streams(self) -> tuple[StreamInfo, ...]:
        """The streams of the reader."""
        return self._reader.streams

    def minibatches(self, epoch: EpochSpec) -> Iterator[Minibatch]:
        """Yield the minibatches of an epoch, with mixed labels."""
        return map(self._mixture.of, self._reader.minibatches(epoch))
