"""A reader of another wheel, whose streams and minibatches are looked at before anybody works with them."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from cntk_core.contract.reader import DataReader, EpochSpec, StreamInfo
from cntk_core.errors import BrokenPluginError, WrongResult, shown
from cntk_core.ops.language.sparse_rows import is_sparse
from cntk_core.plugins.faults import whose
from cntk_core.plugins.offer import Source
from cntk_core.plugins.places import remedy_for, short_place
from cntk_core.plugins.precedence import is_first_party
from cntk_core.records.layout import SequenceLayout
from cntk_core.records.minibatch import Minibatch, StreamData
from cntk_kit_recipes.recipe.reader_around import ReaderAround


def checked(reader: DataReader, source: Source) -> DataReader:
    """Return a reader that gives what one of a source gives if that can be used; the reader itself if it is ours."""
    return reader if is_first_party(source.name) else CheckedReader(reader, source)


class CheckedReader(ReaderAround):
    """Hands on what a reader gives.

    Args:
        reader: may give anything.
        source: whose it is.

    Raises:
        BrokenPluginError: its streams are no tuple of :class:`StreamInfo`.
    """

    def __init__(self, reader: DataReader, source: Source) -> None:
        super().__init__(reader)
        found: Any = reader.streams
        if not (isinstance(found, tuple | list) and all(isinstance(one, StreamInfo) for one in found)):
            raise _no_streams(type(reader), source, found)
        self._streams = tuple(found)

    @property
    def streams(self) -> tuple[StreamInfo, ...]:
        """The streams of the reader."""
        return self._streams

    def minibatches(self, epoch: EpochSpec) -> Iterator[Minibatch]:
        """Return the minibatches of an epoch.

        Raises:
            WrongResult: there are none, or when it comes, one cannot be used.
        """
        found: Any = self._reader.minibatches(epoch)
        if not isinstance(found, Iterable):
            raise WrongResult(self._reader.minibatches, f"returned {shown(found)}, not minibatches")
        return self._sound(found, epoch.learned_samples)

    def _sound(self, minibatches: Iterable[Any], learned: int) -> Iterator[Minibatch]:
        read = 0
        for minibatch in minibatches:
            wrong = _wrong(minibatch)
            if not wrong:
                read += minibatch.samples
                if minibatch.streams or read > learned:  # those that were learned before may have none
                    wrong = self._missing(minibatch)
            if wrong:
                raise WrongResult(self._reader.minibatches, f"gave {wrong}")
            yield minibatch

    def _missing(self, minibatch: Minibatch) -> str:
        given = {name.lower() for name in minibatch.streams}
        lost = next((stream.name for stream in self._streams if stream.name.lower() not in given), None)
        return "" if lost is None else f"a minibatch without '{lost}', which is one of its streams"


def _wrong(minibatch: Any) -> str:
    """What is wrong with what a reader gave for a minibatch; empty if nothing is."""
    if not isinstance(minibatch, Minibatch):
        return f"{shown(minibatch)}, not a Minibatch"
    if not hasattr(minibatch.samples, "__index__"):
        return f"a minibatch whose samples are {shown(minibatch.samples)}, not a whole number"
    streams: Any = minibatch.streams
    if not (isinstance(streams, Mapping) and all(isinstance(name, str) for name in streams)):
        return f"a minibatch whose streams are {shown(streams)}, not a dict of StreamData by name"
    return next((wrong for name, stream in streams.items() if (wrong := _wrong_stream(name, stream))), "")


def _wrong_stream(name: object, stream: Any) -> str:
    which = f"a minibatch whose stream {name!r}"
    if not isinstance(stream, StreamData):
        return f"{which} is {shown(stream)}, not a StreamData"
    data: Any = stream.data
    layout: Any = stream.layout
    if not (is_sparse(data) or isinstance(data, np.ndarray)):
        return f"{which} has as its data {shown(data)}, not an array with a row for each frame"
    if not isinstance(layout, SequenceLayout):
        return f"{which} has as its layout {shown(layout)}, not a SequenceLayout"
    rows, frames = data.shape[:1], layout.frames
    return "" if rows == (frames,) else f"{which} has data of {tuple(data.shape)}, but a layout of {frames} frames"


def _no_streams(kind: type, source: Source, found: Any) -> BrokenPluginError:
    given = inspect.getattr_static(kind, "streams", None)
    function = given.fget if isinstance(given, property) else given
    code = getattr(function, "__code__", None)
    if isinstance(found, tuple | list):
        other = next(one for one in found if not isinstance(one, StreamInfo))
        found_text = f"has {shown(other)} in it, which is no StreamInfo"
    else:
        found_text = f"is {shown(found)}, not a tuple of StreamInfo"
    text = f"{kind.__qualname__}.streams of {whose(source)} {found_text}"
    try:
        place = (code.co_filename, code.co_firstlineno) if code else _place_of(kind)
    except (OSError, TypeError):  # a class that somebody has made of text
        return BrokenPluginError(text, hint=remedy_for(source))
    return BrokenPluginError(text, hint=f"it is at {short_place(*place)}\n{remedy_for(source)}")


def _place_of(kind: type) -> tuple[str, int]:
    file = inspect.getsourcefile(kind) or inspect.getfile(kind)
    return file, inspect.getsourcelines(kind)[1]
