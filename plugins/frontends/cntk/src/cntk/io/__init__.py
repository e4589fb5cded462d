"""Minibatches: sources, what they read, and what they give."""

from __future__ import annotations

from cntk._inherited import inherit
from cntk.io import transforms
from cntk.io._config import MinibatchSourceConfig
from cntk.io._data import MinibatchData
from cntk.io._deserializers import (
    Base64ImageDeserializer,
    CBFDeserializer,
    CTFDeserializer,
    HTKFeatureDeserializer,
    HTKMLFBinaryDeserializer,
    HTKMLFDeserializer,
    ImageDeserializer,
    LatticeDeserializer,
)
from cntk.io._source import MinibatchSource
from cntk.io._streams import (
    DEFAULT_RANDOMIZATION_WINDOW_IN_CHUNKS,
    FULL_DATA_SWEEP,
    INFINITELY_REPEAT,
    StreamConfiguration,
    StreamDef,
    StreamDefs,
    StreamInformation,
)
from cntk.io._text import _is_tensor, sequence_to_cntk_text_format
from cntk.io._user import MinibatchSourceFromData, UserDeserializer, UserMinibatchSource

__all__ = [
    "DEFAULT_RANDOMIZATION_WINDOW_IN_CHUNKS",
    "FULL_DATA_SWEEP",
    "INFINITELY_REPEAT",
    "Base64ImageDeserializer",
    "CBFDeserializer",
    "CTFDeserializer",
    "HTKFeatureDeserializer",
    "HTKMLFBinaryDeserializer",
    "HTKMLFDeserializer",
    "ImageDeserializer",
    "LatticeDeserializer",
    "MinibatchData",
    "MinibatchSource",
    "MinibatchSourceConfig",
    "MinibatchSourceFromData",
    "StreamConfiguration",
    "StreamDef",
    "StreamDefs",
    "StreamInformation",
    "UserDeserializer",
    "UserMinibatchSource",
    "_is_tensor",
    "sequence_to_cntk_text_format",
    "transforms",
]

inherit(__name__)
