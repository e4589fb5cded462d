"""Deserializers: what is read out of which file, as a block of a recipe says it."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

Streams = Mapping[str, Any]

_LONGEST = 65535


class Deserializer(dict[str, Any]):
    """A block of a recipe: ``type``, ``file``, ``input`` and what else the reader takes."""


def CTFDeserializer(filename: str, streams: Streams) -> Deserializer:
    """Read a file in CNTK's text format.

    Args:
        filename: the file.
        streams: for each stream what it is in the file (:func:`~cntk.io.StreamDef`).

    Raises:
        ValueError: a stream has no name in the file.
    """
    for name, stream in streams.items():
        if stream.stream_alias is None:
            raise ValueError(f"CTFDeserializer: the stream '{name}' needs a field, its name in the file")
    return Deserializer(type="CNTKTextFormatDeserializer", file=str(filename), input=_text_streams(streams))


def _text_streams(streams: Streams) -> dict[str, Any]:
    return {
        name: {
            "dim": stream.dim,
            "format": "sparse" if stream.is_sparse else "dense",
            "definesMBSize": stream["defines_mb_size"],
            **({"alias": stream.stream_alias} if stream.stream_alias else {}),
        }
        for name, stream in streams.items()
    }


def CBFDeserializer(filename: str, streams: Streams | None = None) -> Deserializer:
    """Read a file in CNTK's binary format.

    Args:
        filename: the file.
        streams: for each stream its name in the file; by default all, under their own names.
    """
    renamed = {name: {"alias": stream.stream_alias or name} for name, stream in (streams or {}).items()}
    made = Deserializer(type="CNTKBinaryFormatDeserializer", file=str(filename))
    if renamed:
        made["input"] = renamed
    return made


def ImageDeserializer(filename: str, streams: Streams) -> Deserializer:
    """Read images that a file lists, one ``path<tab>class`` to a line.

    Args:
        filename: the list.
        streams: one with the field ``image``, and one with the field ``label`` if classes are wanted.

    Raises:
        ValueError: other fields, or none for the images.
    """
    return _images("ImageDeserializer", filename, streams)


def Base64ImageDeserializer(filename: str, streams: Streams) -> Deserializer:
    """Read images out of a file, one ``class<tab>image`` to a line, the image in base 64.

    Args:
        filename: the file.
        streams: as those of :func:`ImageDeserializer`.

    Raises:
        ValueError: other fields, or none for the images.
    """
    return _images("Base64ImageDeserializer", filename, streams)


def _images(kind: str, filename: str, streams: Streams) -> Deserializer:
    images, transforms = None, []
    labels, classes = f"_ignore_labels_{uuid.uuid1()}", 2
    for name, stream in streams.items():
        if stream.stream_alias == "image":
            images, transforms = name, list(stream.get("transforms", ()))
        elif stream.stream_alias == "label":
            labels, classes = name, stream.dim
        else:
            raise ValueError(f"{kind}: a stream has the field 'image' or 'label', not {stream.stream_alias!r}")
    if images is None:
        raise ValueError(f"{kind}: no stream has the field 'image'")
    shown = {images: {"transforms": [*transforms, {"type": "Transpose"}]}, labels: {"labelDim": classes}}
    return Deserializer(type=kind, file=str(filename), input=shown)


def HTKFeatureDeserializer(streams: Streams) -> Deserializer:
    """Read features out of HTK files.

    Args:
        streams: for each stream ``scp``, ``shape``, and if wanted ``context`` and ``broadcast``.

    Raises:
        ValueError: a stream has a field or no list of files; there is none.
    """
    blocks: dict[str, Any] = {}
    for name, stream in streams.items():
        if stream.stream_alias is not None:
            raise ValueError("HTKFeatureDeserializer: features have no fields")
        if "scp" not in stream:
            raise ValueError(f"HTKFeatureDeserializer: the stream '{name}' needs scp, its list of files")
        if stream.get("max_sequence_length", _LONGEST) != _LONGEST:
            raise ValueError("HTKFeatureDeserializer: utterances are read whole; max_sequence_length is not supported")
        left, right = stream.get("context", (0, 0))
        blocks[name] = {
            "scpFile": str(stream["scp"]),
            "dim": stream.dim,
            "contextWindow": [left, right],
            "expandToUtterance": bool(stream.get("broadcast", False)),
            "definesMBSize": stream["defines_mb_size"],
        }
    if not blocks:
        raise ValueError("HTKFeatureDeserializer: there is no stream")
    return Deserializer(type="HTKFeatureDeserializer", input=blocks)


def HTKMLFDeserializer(
    label_mapping_file: str,
    streams: Streams,
    phoneBoundaries: bool = False,
) -> Deserializer:
    """Read frame labels out of HTK's master label files.

    Args:
        label_mapping_file: the names of the classes, one to a line.
        streams: one stream with ``mlf``, a file or several, and ``shape``.
        phoneBoundaries: the label of the first frame of each range is 2 (CTC).

    Raises:
        ValueError: several streams, a field, no label file.
    """
    if len(streams) != 1:
        raise ValueError(f"HTKMLFDeserializer reads one stream, not {len(streams)}")
    ((name, stream),) = streams.items()
    if stream.stream_alias is not None:
        raise ValueError("HTKMLFDeserializer: labels have no fields")
    if "mlf" not in stream:
        raise ValueError(f"HTKMLFDeserializer: the stream '{name}' needs mlf, its label files")
    files = stream["mlf"] if isinstance(stream["mlf"], list) else [stream["mlf"]]
    if len(files) != 1:
        raise ValueError("HTKMLFDeserializer reads one label file; put several into one")
    block = {
        "mlfFile": str(files[0]),
        "labelMappingFile": str(label_mapping_file),
        "labelDim": stream.dim,
        "phoneBoundaries": phoneBoundaries,
    }
    return Deserializer(type="HTKMLFDeserializer", input={name: block})


def HTKMLFBinaryDeserializer(streams: Streams) -> Deserializer:
    """Refuse: nothing here reads binary label files. Raises NotImplementedError."""
    raise NotImplementedError("binary master label files cannot be read; HTKMLFDeserializer reads those in text")


def LatticeDeserializer(lattice_index_file: str, streams: Streams) -> Deserializer:
    """Refuse: nothing here reads lattices. Raises NotImplementedError."""
    raise NotImplementedError("lattices cannot be read")


def block_text(block: Mapping[str, Any]) -> str:
    """Return a block as a recipe writes it."""
    return "[ " + " ; ".join(f"{key}={_value_text(value)}" for key, value in block.items()) + " ]"


def _value_text(value: Any) -> str:
    if isinstance(value, Mapping):
        return block_text(value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return '"' + value.replace('"', '""') + '"' if not _is_range(value) else value
    if isinstance(value, Sequence):
        return "( " + " : ".join(_value_text(each) for each in value) + " )" if value else "()"
    return str(value)


def _is_range(text: str) -> bool:
    return ":" in text and all(part.replace(".", "", 1).replace("e-", "", 1).isdigit() for part in text.split(":"))
