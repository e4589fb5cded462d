"""Sequence training in recipes: the lattices that a criterion of CNTK's takes without an input, and its SGD keys."""

from __future__ import annotations

import math
from typing import Any

import attrs
import numpy as np

from cntk_core.config import Config, bind, option, option_keys, options
from cntk_core.errors import ConfigError, NetworkError
from cntk_core.network.network import Network
from cntk_core.network.node import Input, Node, Parameter
from cntk_core.ops.families.binary import ELEMENT_TIMES
from cntk_core.ops.families.criteria import DUMMY_CRITERION
from cntk_core.ops.families.lattices import HIDDEN_INPUT, LATTICE_COLUMNS
from cntk_core.ops.families.sequence_training import SEQUENCE_WITH_SOFTMAX, SequenceTrainingAttributes

_COMPUTED = ("readerderiv", "seqtrainderiv", "readerobj", "seqtrainobj")
"""Types of a reader's blocks for what CNTK's reader computed over lattices."""

_USUAL_SCALE = 0.2
"""``acousticScale`` of lattices where it is not given."""


@options
class SequenceKeys:
    """The keys of the SGD block for criteria over lattices, by CNTK's names and with its defaults."""

    h_smoothing_weight: float = option(default=0.95, doc="share of the sequence criterion; the rest: cross entropy")
    frame_drop_thresh: float = option(default=1e-10, doc="frames whose label is less probable are left out")
    do_reference_align: bool = option(default=False, doc="labels: the best path through the reference's phones")
    seq_gammar_amf: float = option(default=14.0, key="seqGammarAMF", doc="acoustic scores are divided by it")
    seq_gammar_lmf: float = option(default=14.0, key="seqGammarLMF", doc="factor of the language model's scores")
    seq_gammar_word_pen: float = option(default=0.0, doc="added to the score of each arc")
    seq_gammar_bmmi_factor: float = option(default=0.0, key="seqGammarBMMIFactor", doc="boosted MMI")
    seq_gammar_uses_mbr: bool = option(default=False, key="seqGammarUsesMBR", doc="sMBR in place of MMI")


SEQUENCE_KEYS: tuple[str, ...] = tuple(option_keys(SequenceKeys))
"""As recipes write them."""


def read_sequence_keys(block: Config) -> SequenceKeys:
    """Read the keys in an SGD block.

    Raises:
        ConfigError, Problems: a value is wrong.
    """
    keys = bind(block.only(SEQUENCE_KEYS), SequenceKeys, what="the SGD block")
    if not 0.0 <= keys.h_smoothing_weight <= 1.0:
        text = f"hSmoothingWeight must be in [0, 1], not {keys.h_smoothing_weight:g}"
        raise ConfigError(text, where=block.location("hSmoothingWeight"))
    if not 0.0 < keys.seq_gammar_amf < math.inf:
        raise ConfigError(
            f"seqGammarAMF must be above 0, not {keys.seq_gammar_amf:g}", where=block.location("seqGammarAMF")
        )
    return keys


def sequence_keys_of(section: Config, block: Config) -> tuple[SequenceKeys, bool]:
    """Return the keys of a training, and whether it has a criterion that CNTK's reader computed.

    Then they are those of that reader: all of the gradient is sMBR's, with the scale of its lattices.

    Args:
        section: the command section.
        block: its SGD block.

    Raises:
        ConfigError, Problems: a value is wrong.
    """
    keys = read_sequence_keys(block)
    value = section.get("reader")
    reader = value.config() if value is not None and value.is_block else None
    if reader is None or not any(_is_computed(one) for one in reader.sections()):
        return keys, False
    lattices = reader.own("denlats")
    told = None if lattices is None else lattices.config().own("acousticScale")
    scale = _USUAL_SCALE if told is None else told.real()
    if not 0.0 < scale < math.inf:
        return keys, True  # the reader says what is wrong
    changed = {"h_smoothing_weight": 1.0, "frame_drop_thresh": 0.0, "seq_gammar_uses_mbr": True}
    every: Any = keys
    return attrs.evolve(every, **changed, seq_gammar_amf=1 / scale, seq_gammar_lmf=1 / scale), True


def _is_computed(block: Config) -> bool:
    value = block.own("type")
    return value is not None and value.text.lower() in _COMPUTED


def compute_here(network: Network, keys: SequenceKeys) -> Network:
    """Put the criterion over lattices in the place of those that CNTK's reader computed, and return the network.

    CNTK's gradient had not the scale of the lattices as a factor: the scores are multiplied by its inverse, which
    counts in the gradient alone.

    Args:
        network: changed in place. Its first output has the log likelihoods, as in CNTK.
        keys: of the training.

    Raises:
        NetworkError: it has no labels, or no output.
    """
    for node in [node for node in network if node.op is DUMMY_CRITERION]:
        labels, outputs = network.roots["label"], network.roots["output"]
        if not labels or not outputs:
            text = f"'{node.name}' is computed over lattices, and the network has no {'output' if labels else 'labels'}"
            hint = "Its labels need tag=label, and its scaled log likelihoods tag=output."
            raise NetworkError(text, where=node.where, hint=hint)
        given, scores = node.inputs[:2], node.inputs[2]
        value = np.full(1, keys.seq_gammar_amf, network.dtype)
        factor = Parameter.make(f"{node.name}.scale", (1,), value=value, learning_rate_multiplier=0.0)
        scaled = Node(f"{node.name}.scores", ELEMENT_TIMES, [scores, network.add(factor)], ELEMENT_TIMES.attributes())
        node.op, node.attributes = SEQUENCE_WITH_SOFTMAX, SequenceTrainingAttributes()
        node.inputs = [labels[0], network.add(scaled), outputs[0]]
        for each in given:
            if not any(each in other.inputs for other in network):
                network.remove(each)
    give_lattices(network, keys).infer()
    return network


def lattice_criteria(network: Network) -> list[Node]:
    """Return the criteria over lattices."""
    return [node for node in network if isinstance(node.attributes, SequenceTrainingAttributes)]


def give_lattices(network: Network, keys: SequenceKeys | None = None) -> Network:
    """Give criteria without lattices the hidden input that a reader's lattices feed, and return the network.

    Args:
        network: changed in place.
        keys: what the criteria have to say themselves from now on; None leaves that as it is.

    Raises:
        NetworkError: another node has the name of the input.
    """
    for node in lattice_criteria(network):
        if keys is not None:
            every: Any = keys
            node.attributes = SequenceTrainingAttributes(**attrs.asdict(every))
        if len(node.inputs) == 3:
            node.inputs.append(_hidden_input(network))
    return network


def _hidden_input(network: Network) -> Node:
    if HIDDEN_INPUT not in network:
        return network.add(Input.make(HIDDEN_INPUT, (LATTICE_COLUMNS,), axis=HIDDEN_INPUT))
    found = network[HIDDEN_INPUT]
    if not isinstance(found, Input) or found.shape != (LATTICE_COLUMNS,):
        raise NetworkError(
            f"the name '{HIDDEN_INPUT}' is that of the input for lattices", where=found.where, hint="Rename the node."
        )
    return found
