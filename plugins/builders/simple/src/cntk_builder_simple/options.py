"""The keys of a ``SimpleNetworkBuilder`` section (cntk-inventory 3.5)."""

from __future__ import annotations

from cntk_core.api import option, options

RECURRENT_TYPES = ("SIMPLERNN", "LSTM", "CLASSLM", "LBLM", "NPLM", "CLASSLSTM", "NCELSTM", "CLSTM", "CRF")
"""Kinds of networks that are not there yet."""

FEED_FORWARD_TYPES = ("SIMPLENET", "FFDNN")
"""Names of the feed-forward network."""

RECURRENT_KEYS = (
    "vocabSize", "nbrClass", "noise_number", "word2cls", "cls2index", "recurrentLayer", "defaultHiddenActivity",
    "directConnect", "maOrder", "lookupTableOrder", "streamSizes", "lookupTableOrderSizes", "labelEmbeddingSize",
    "constForgetGateValue", "constInputGateValue", "constOutputGateValue", "forgetGateInitVal", "inputGateInitVal",
    "outputGateInitVal", "sparseinput", "auxfeatdim",
)  # fmt: skip
"""Keys that only the kinds of networks above read."""

LAYER_TYPES = ("Sigmoid", "RectifiedLinear", "Tanh", "None")
"""Values of ``layerTypes``."""

CRITERIA = {
    "crossentropywithsoftmax": "CrossEntropyWithSoftmax",
    "squareerror": "SquareError",
    "logistic": "Logistic",
}
"""Values of both criteria, and their ops."""

LATER_CRITERIA = ("noiseContrastiveEstimation", "classCrossEntropyWithSoftmax", "sequenceWithSoftmax")
"""Values of both criteria that are not there yet."""


@options
class SimpleOptions:
    """Keys of a ``SimpleNetworkBuilder`` section."""

    layer_sizes: tuple[int, ...] = option(default=(100,), doc="sizes, input and output included (2:50*2:2)")
    layer_types: tuple[str, ...] = option(default=("Sigmoid",), doc="Sigmoid, RectifiedLinear, Tanh or None, per layer")
    init_value_scale: float = option(default=1.0, doc="scale of the initial values")
    uniform_init: bool = option(default=True, doc="initial values uniform, else normal")
    apply_mean_var_norm: bool = option(default=False, doc="normalise the features by their mean and deviation")
    need_prior: bool = option(default=False, doc="output log likelihoods scaled by the prior")
    add_dropout_nodes: bool = option(default=False, doc="a Dropout after each hidden layer")
    training_criterion: str = option(default="crossEntropyWithSoftmax", doc="what is minimised")
    eval_criterion: str = option(default="classificationError", doc="what is reported")
    output_layer_size: int = option(default=-1, doc="for the conversion of DBN files")
    rnn_type: tuple[str, ...] = option(default=("SIMPLENET",), doc="kind of network")
    device_id: str = option(default="", doc="read by the engine")
    vocab_size: str = option(default="", doc="class models; not there yet")
    nbr_class: str = option(default="", doc="class models; not there yet")
    noise_number: str = option(default="", key="noise_number", doc="noise contrastive estimation; not there yet")
    word2cls: str = option(default="", doc="class models; not there yet")
    cls2index: str = option(default="", doc="class models; not there yet")
    recurrent_layer: str = option(default="", doc="recurrent networks; not there yet")
    default_hidden_activity: str = option(default="", doc="recurrent networks; not there yet")
    direct_connect: str = option(default="", doc="recurrent networks; not there yet")
    ma_order: str = option(default="", doc="recurrent networks; not there yet")
    lookup_table_order: str = option(default="", doc="language models; not there yet")
    stream_sizes: str = option(default="", doc="language models; not there yet")
    lookup_table_order_sizes: str = option(default="", doc="language models; not there yet")
    label_embedding_size: str = option(default="", doc="language models; not there yet")
    const_forget_gate_value: str = option(default="", doc="LSTM; not there yet")
    const_input_gate_value: str = option(default="", doc="LSTM; not there yet")
    const_output_gate_value: str = option(default="", doc="LSTM; not there yet")
    forget_gate_init_val: str = option(default="", doc="LSTM; not there yet")
    input_gate_init_val: str = option(default="", doc="LSTM; not there yet")
    output_gate_init_val: str = option(default="", doc="LSTM; not there yet")
    sparseinput: str = option(default="", doc="recurrent networks; not there yet")
    auxfeatdim: str = option(default="", doc="attention; not there yet")
