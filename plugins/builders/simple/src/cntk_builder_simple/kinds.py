"""The kinds of networks: their names, the keys that each reads, the criteria that fit, and what makes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs

from cntk_builder_simple import language_models, lstm, recurrent
from cntk_builder_simple.criteria import CLASS_BASED, CRF, ERROR_NAMES, NOISE_CONTRASTIVE, ON_SCORES
from cntk_builder_simple.feed_forward import feed_forward
from cntk_builder_simple.layers import Numbering
from cntk_builder_simple.maker import Maker

COMMON = (
    "rnnType", "layerSizes", "layerTypes", "initValueScale", "uniformInit", "applyMeanVarNorm", "addDropoutNodes",
    "trainingCriterion", "evalCriterion", "deviceId",
)  # fmt: skip
"""Keys that all kinds read."""

_RECURRENT = ("recurrentLayer", "defaultHiddenActivity")
_GATES = (
    "constForgetGateValue", "constInputGateValue", "constOutputGateValue",
    "forgetGateInitVal", "inputGateInitVal", "outputGateInitVal",
)  # fmt: skip
_LSTM = ("defaultHiddenActivity", "lookupTableOrder", *_GATES)

_PLAIN = tuple(ON_SCORES)
_CLASS_BASED = ("classCrossEntropyWithSoftmax",)
_NOISE_CONTRASTIVE = ("noiseContrastiveEstimation",)


@attrs.frozen
class Kind:
    """One kind of network.

    Attributes:
        name: its word for ``rnnType``.
        make: makes its nodes.
        reads: keys that it reads beside the common ones.
        training: criteria that it can be trained with.
        evaluation: criteria that it can be evaluated with.
        needs: keys that must be given.
        numbering: how ``recurrentLayer`` counts, if it reads that.
        smallest: fewest ``layerSizes``, without and with ``lookupTableOrder``.
        words: what a message calls it.
    """

    name: str
    make: Callable[[Maker], None]
    reads: tuple[str, ...]
    training: tuple[str, ...] = _PLAIN
    evaluation: tuple[str, ...] = (*_PLAIN, *ERROR_NAMES)
    needs: tuple[str, ...] = ()
    numbering: Numbering | None = None
    smallest: tuple[int, int] = (2, 2)
    words: str = ""

    @property
    def described(self) -> str:
        """``a feed-forward network`` or ``a network of rnnType LSTM``."""
        return self.words or f"a network of rnnType {self.name}"

    @property
    def keys(self) -> frozenset[str]:
        """All keys that it reads, in small letters."""
        return frozenset(key.lower() for key in (*COMMON, *self.reads))


KINDS = (
    Kind("SIMPLENET", feed_forward, ("needPrior",), words="a feed-forward network"),
    Kind("SIMPLERNN", recurrent.simple_recurrent, ("needPrior", *_RECURRENT), numbering=recurrent.NUMBERING),
    Kind(
        "LSTM",
        lstm.lstm,
        ("needPrior", "recurrentLayer", "sparseinput", *_LSTM),
        numbering=lstm.ABOVE_FIRST,
        smallest=(2, 4),
    ),
    Kind(
        "CLASSLM",
        recurrent.class_based_recurrent,
        ("needPrior", "vocabSize", "nbrClass", *_RECURRENT),
        _CLASS_BASED,
        _CLASS_BASED,
        ("vocabSize", "nbrClass"),
        recurrent.NUMBERING,
    ),
    Kind(
        "LBLM",
        language_models.log_bilinear,
        ("needPrior", "maOrder", "lookupTableOrder", *_RECURRENT),
        numbering=language_models.BEHIND_LOOK_UP,
        smallest=(2, 3),
    ),
    Kind("NPLM", language_models.neural_probabilistic, ("needPrior", *_RECURRENT), numbering=language_models.NUMBERING),
    Kind(
        "CLASSLSTM",
        lstm.class_lstm,
        ("vocabSize", "nbrClass", *_LSTM),
        _CLASS_BASED,
        _CLASS_BASED,
        ("nbrClass", "lookupTableOrder"),
        smallest=(4, 4),
    ),
    Kind(
        "NCELSTM",
        lstm.noise_contrastive_lstm,
        ("needPrior", "recurrentLayer", "directConnect", "noise_number", *_LSTM),
        _NOISE_CONTRASTIVE,
        _NOISE_CONTRASTIVE,
        ("noise_number",),
        lstm.ABOVE_FIRST,
        (3, 4),
    ),
    Kind(
        "CLSTM",
        lstm.conditional_lstm,
        ("vocabSize", "nbrClass", "auxfeatdim", *_LSTM),
        _CLASS_BASED,
        _CLASS_BASED,
        ("nbrClass", "lookupTableOrder"),
        smallest=(4, 4),
    ),
    Kind(
        "CRF",
        lstm.crf_lstm,
        ("recurrentLayer", *_LSTM),
        ("CRF", *_PLAIN),
        ("CRF", *_PLAIN, *ERROR_NAMES),
        numbering=lstm.BEHIND_LOOK_UP,
        smallest=(2, 3),
    ),
)
"""In the order in which the original looks for them in ``rnnType``."""

ALIASES = {"FFDNN": "SIMPLENET"}
"""Other names of kinds."""

NAMES = ("SIMPLENET", "FFDNN", *(kind.name for kind in KINDS[1:]))
"""What ``rnnType`` may be."""

OTHER_KINDS = {CLASS_BASED: "CLASSLM, CLASSLSTM or CLSTM", NOISE_CONTRASTIVE: "NCELSTM", CRF: "CRF"}
"""The kinds that an operation for special labels is for."""


def kind_of(rnn_type: Sequence[str]) -> Kind | None:
    """Return the kind that ``rnnType`` names, None if it names none; of several, the first of :data:`KINDS`."""
    names = {ALIASES.get(name.upper(), name.upper()) for name in rnn_type}
    return next((kind for kind in KINDS if kind.name in names), None)
