"""The keys of a ``SimpleNetworkBuilder`` section (docs/original-rules.md#simplenetworkbuilder)."""

from __future__ import annotations

from cntk_core.api import option, options

LAYER_TYPES = ("Sigmoid", "RectifiedLinear", "Tanh", "None")
"""Values of ``layerTypes``."""

OLD_KEYS = {"layerType": "layerTypes", "nodeType": "layerTypes", "addPrior": "needPrior"}
"""Keys of old recipes that the original never read, and what they were meant to be."""

NEVER_READ = ("word2cls", "cls2index", "streamSizes", "lookupTableOrderSizes", "labelEmbeddingSize")
"""Keys that the original knows and uses for no kind of network."""


@options
class SimpleOptions:
    """Keys of a ``SimpleNetworkBuilder`` section."""

    rnn_type: tuple[str, ...] = option(default=("SIMPLENET",), doc="kind of network")
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
    device_id: str = option(default="", doc="read by the engine")
    recurrent_layer: tuple[int, ...] = option(default=(), doc="numbers of the recurrent layers, ascending")
    default_hidden_activity: float = option(default=0.1, doc="value of delays before the first frame")
    lookup_table_order: int = option(default=0, doc="words that are looked up for each frame; 0: no look-up")
    ma_order: int = option(default=0, doc="LBLM: earlier frames that are added to the input")
    sparseinput: bool = option(default=False, doc="LSTM: features are sparse")
    direct_connect: tuple[int, ...] = option(default=(), doc="NCELSTM: layers linked to the output directly")
    const_forget_gate_value: bool = option(default=False, doc="LSTM: no forget gate")
    const_input_gate_value: bool = option(default=False, doc="LSTM: no input gate")
    const_output_gate_value: bool = option(default=False, doc="LSTM: no output gate")
    forget_gate_init_val: float = option(default=-1.0, doc="LSTM: first value of the forget gate's bias")
    input_gate_init_val: float = option(default=-1.0, doc="LSTM: first value of the input gate's bias")
    output_gate_init_val: float = option(default=-1.0, doc="LSTM: first value of the output gate's bias")
    vocab_size: int = option(default=-1, doc="class-based models: number of words")
    nbr_class: int = option(default=-1, doc="class-based models: number of classes of words")
    noise_number: int = option(default=-1, key="noise_number", doc="NCELSTM: samples of noise for each word")
    auxfeatdim: int = option(default=20, doc="CLSTM: size of the second input")
    word2cls: str = option(default="", doc="no effect, as in the original")
    cls2index: str = option(default="", doc="no effect, as in the original")
    stream_sizes: str = option(default="", doc="no effect, as in the original")
    lookup_table_order_sizes: str = option(default="", doc="no effect, as in the original")
    label_embedding_size: str = option(default="", doc="no effect, as in the original")
