"""Random minibatches of slots with several sequences, and what is known of each of their frames."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
from hypothesis import strategies as st

from cntk_core.ops.language.layouts import slot_layout
from cntk_core.records.layout import SequenceLayout


@attrs.frozen(eq=False)
class SlotData:
    """A minibatch, slot by slot as the reader gives it."""

    lengths: Sequence[Sequence[int]]
    continued: Sequence[bool]
    continues: Sequence[bool]
    layout: SequenceLayout


@attrs.frozen
class Frame:
    """What is known of a frame: where its sequence begins and ends in the slot, and the sequence's number."""

    first: int
    last: int
    begun: bool
    number: int


def make_slots(
    lengths: Sequence[Sequence[int]], continued: Sequence[bool] = (), continues: Sequence[bool] = ()
) -> SlotData:
    """A minibatch of slots."""
    no = [False] * len(lengths)
    made = slot_layout(lengths, continued=continued, continues=continues)
    return SlotData(lengths, continued or no, continues or no, made)


def walk(slots: SlotData) -> dict[tuple[int, int], Frame]:
    """Every frame by the reader's slot and the step."""
    found = {}
    number = 0
    for slot, lengths in enumerate(slots.lengths):
        step = 0
        for index, length in enumerate(lengths):
            begun = not (index == 0 and slots.continued[slot])
            for time in range(step, step + length):
                found[slot, time] = Frame(step, step + length - 1, begun, number)
            step += length
            number += 1
    return found


@st.composite
def _minibatches(draw: st.DrawFn) -> SlotData:
    lengths = draw(st.lists(st.lists(st.integers(1, 4), max_size=3), max_size=4))
    flags = st.lists(st.booleans(), min_size=len(lengths), max_size=len(lengths))
    continued = [flag and bool(slot) for flag, slot in zip(draw(flags), lengths, strict=True)]
    continues = [flag and bool(slot) for flag, slot in zip(draw(flags), lengths, strict=True)]
    return make_slots(lengths, continued, continues)


MINIBATCHES = _minibatches()
