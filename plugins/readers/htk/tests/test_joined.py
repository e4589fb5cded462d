"""Whole utterances as CNTK's HTKMLFReader reads them: its random numbers, its orders, joined utterances and copies."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from cntk_reader_htk import old_order
from cntk_reader_htk.gnu_random import GnuRandom
from cntk_reader_htk.joined import Batch, epoch_frames, fill_slots, whole_utterances
from cntk_reader_htk.old_order import OldOrder, rolling_order

from cntk_core.api import CntkError, EpochSpec
from cntk_core.api.readers import ChunkInfo, Piece, Window
from cntk_kit_readers.randomize import FileOrder
from cntk_testing.inside import unpack

LENGTHS = {"utt0": 7, "utt1": 4, "utt2": 9, "utt3": 1, "utt4": 6}
FEATURES = "features=[ dim=2 ; scpFile=archive.scp ]\n"
LABELS = "labels=[ labelDim=3 ; mlfFile=ali.mlf ; labelMappingFile=states.list ]\n"
WHOLE = FEATURES + LABELS + "frameMode=false\n"
COPIES = (
    "at the end of an epoch fills gaps with copies of the last ones, which count again. joinUtterances=false reads "
    "each utterance once, as a sequence of its own."
)


def frames_of(name: str) -> list[int]:
    return [100 * list(LENGTHS).index(name) + t for t in range(LENGTHS[name])]


def sequences(minibatch) -> list[list[list[int]]]:
    """Return the frames of the sequences of each slot, in the reader's order of slots."""
    layout = minibatch.streams["features"].layout
    values = minibatch.streams["features"].data[:, :1].astype(int)
    places = np.argsort(np.argsort(layout.order, kind="stable"), kind="stable")
    found: list[list[list[int]]] = [[] for _ in range(layout.slots)]
    begins = [[] for _ in range(layout.slots)]
    for slot, step in layout.begins.tolist():
        begins[int(places[slot])].append(step)
    for place, frames in enumerate(unpack(values, layout)):
        found[place] = [part[:, 0].tolist() for part in np.split(frames, begins[place][1:])] if len(frames) else []
    return found


class TestRandomNumbers:
    @pytest.mark.parametrize(
        ("seed", "first", "last"),
        [
            (0, [1804289383, 846930886, 1681692777], 981914693),
            (1, [1804289383, 846930886, 1681692777], 981914693),
            (2, [1505335290, 1738766719, 190686788], 1682007530),
            (3, [1205554746, 483147985, 844158168], 783522754),
        ],
    )
    def test_numbers_of_the_c_library(self, seed: int, first: list[int], last: int) -> None:
        random = GnuRandom(seed)
        numbers = [random.next() for _ in range(1001)]
        assert numbers[:3] == first
        assert numbers[1000] == last

    @pytest.mark.parametrize(
        ("seed", "first"),
        [(2**32 - 1, [254925627, 1205188300]), (2**31, [1336741213, 1210407648]), (3 * 10**9, [2058147116, 854483408])],
    )
    def test_large_seeds(self, seed: int, first: list[int]) -> None:
        random = GnuRandom(seed)
        assert [random.next(), random.next()] == first


class TestOrders:
    """The expected orders come from a C++ program with the original's steps."""

    @pytest.mark.parametrize(
        ("size", "sweep", "expected"),
        [
            (None, 0, "1.1 1.2 1.0 4.0 2.0 4.1 0.1 3.0 3.2 3.1 0.0"),
            (None, 1, "4.0 1.0 3.1 1.2 1.1 2.0 3.0 3.2 0.0 0.1 4.1"),
            (40, 0, "4.0 4.1 3.2 3.1 3.0 1.1 1.2 1.0 0.0 0.1 2.0"),
            (40, 2, "3.0 3.2 3.1 2.0 4.1 4.0 0.0 0.1 1.1 1.2 1.0"),
        ],
    )
    def test_utterances(self, size: int | None, sweep: int, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
        chunks = [[5, 6], [4, 4, 4], [12], [3, 9, 2], [7, 5]]
        monkeypatch.setattr(old_order, "cut_chunks", lambda lengths: ([0, 2, 5, 6, 9, 11], []))
        index = [ChunkInfo(len(chunk), sum(chunk), np.array(chunk)) for chunk in chunks]
        order = OldOrder(index, 0, Window(size, in_samples=True))
        found, opened = [], []
        for block in order.blocks(sweep):
            found += [f"{c}.{s}" for c, s in zip(block.chunks.tolist(), block.sequences.tolist(), strict=True)]
            assert block.lengths.tolist() == [chunks[c][s] for c, s in zip(block.chunks, block.sequences, strict=True)]
            assert set(block.chunks.tolist()) <= order.open_chunks
            opened.append(len(order.open_chunks))
        assert " ".join(found) == expected
        assert max(opened) == (5 if size is None else 2)

    def test_chunks_of_utterances_that_are_left(self) -> None:
        # 20 utterances of 9000 frames in 20 chunks of the data are two chunks of the order: of 11 and of 9.
        index = [ChunkInfo(1, 9000, np.array([9000])) for _ in range(20)]
        blocks = list(OldOrder(index, 0, Window(1, in_samples=True)).blocks(0))
        assert sorted(len(block.chunks) for block in blocks) == [9, 11]
        assert sorted(np.concatenate([block.chunks for block in blocks]).tolist()) == list(range(20))

    @pytest.mark.parametrize(
        ("size", "seed", "expected"),
        [
            (None, 1, [4, 15, 10, 1, 3, 2, 13, 0, 12, 11, 7, 18, 14, 17, 16, 6, 9, 8, 5, 19]),
            (8, 2, [1, 0, 2, 4, 5, 3, 8, 6, 7, 9, 10, 14, 13, 11, 12, 17, 18, 19, 15, 16]),
            (5, 0, [0, 1, 2, 4, 5, 3, 7, 8, 6, 10, 11, 9, 12, 13, 15, 14, 17, 16, 19, 18]),
            (2, 2, list(range(20))),
            (1, 2, list(range(20))),
        ],
    )
    def test_frames(self, size: int | None, seed: int, expected: list[int]) -> None:
        assert rolling_order(20, size, seed).tolist() == expected


def batches(*sizes: int) -> list[Batch]:
    return [(Piece(0, number, size, 0, size),) for number, size in enumerate(sizes)]


def filled(parallel: int, *sizes: int) -> list[list[list[int]]]:
    """Return the numbers of the batches in each slot of each minibatch."""
    plans = list(fill_slots(iter(batches(*sizes)), parallel))
    for plan in plans:
        longest = max(sum(batch[0].count for batch in slot) for slot in plan.slots)
        assert plan.columns == parallel * longest
    return [[[batch[0].sequence for batch in slot] for slot in plan.slots] for plan in plans]


class TestSlots:
    def test_the_last_one_fills_all_gaps_but_those_of_the_first_slot(self) -> None:
        copies = [[1, 1]] * 4
        assert filled(5, 22, 9) == [[[0], *copies]]
        assert sum(plan.samples for plan in fill_slots(iter(batches(22, 9)), 5)) == 94
        assert sum(plan.samples for plan in fill_slots(iter(batches(27, 4)), 5)) == 123

    def test_a_gap_is_never_filled_to_its_end(self) -> None:
        assert filled(2, 8, 4) == [[[0], [1]]]
        assert filled(2, 9, 4) == [[[0], [1, 1]]]

    def test_one_slot_has_each_batch_once(self) -> None:
        assert filled(1, 5, 9, 2) == [[[0]], [[1]], [[2]]]

    def test_the_next_one_goes_into_the_gap(self) -> None:
        assert filled(2, 10, 3, 4, 2, 7) == [[[0], [1, 2, 3]], [[4], [3, 3, 3]]]

    def test_what_is_held_is_shown_again(self) -> None:
        # Slot 0 shows batch 2, while slot 1 still holds batch 1.
        assert filled(2, 5, 5, 5) == [[[0], [1]], [[2], [1]]]

    def test_what_does_not_fit_is_lost_with_the_last_of_the_first_slot(self) -> None:
        # After the first minibatch slot 0 has nothing left, and the batch of 9 frames in slot 1 has no room.
        assert filled(2, 6, 3, 2, 9) == [[[0], [1, 2]]]

    def test_nothing(self) -> None:
        assert filled(3) == []


class TestBatches:
    def order(self) -> FileOrder:
        return FileOrder([ChunkInfo(3, 20, np.array([7, 4, 9])), ChunkInfo(2, 7, np.array([1, 6]))])

    def lengths(self, size: int, start: int, end: int) -> list[list[int]]:
        found = whole_utterances(self.order(), size, start, end)
        return [[piece.count for piece in batch] for batch in found]

    def test_fewer_frames_than_the_size(self) -> None:
        assert self.lengths(11, 0, 27) == [[7], [4], [9, 1], [6]]
        assert self.lengths(12, 0, 27) == [[7, 4], [9, 1], [6]]
        assert self.lengths(1, 0, 27) == [[7], [4], [9], [1], [6]]

    def test_the_end_of_the_epoch_keeps_the_last_apart(self) -> None:
        assert self.lengths(100, 0, 27) == [[7, 4, 9, 1], [6]]
        assert self.lengths(100, 0, 28) == [[7, 4, 9, 1, 6], [7]]

    def test_epochs_begin_and_end_inside_sweeps(self) -> None:
        assert self.lengths(100, 0, 10) == [[7], [4]]
        assert self.lengths(100, 10, 20) == [[9]]
        assert self.lengths(100, 20, 30) == [[1, 6], [7]]
        assert self.lengths(100, 22, 27) == []

    def test_pieces_are_whole(self) -> None:
        (batch,) = itertools.islice(whole_utterances(self.order(), 100, 11, 27), 1)
        assert batch == (Piece(0, 2, 9, 0, 9), Piece(1, 0, 1, 0, 1))

    @pytest.mark.parametrize(
        ("epoch_size", "size", "frames"),
        [(0, 10, 20), (0, 27, 27), (0, 30, 27), (20, 10, 20), (21, 10, 28), (50, 30, 50)],
    )
    def test_full_minibatches(self, epoch_size: int, size: int, frames: int) -> None:
        spec = EpochSpec(epoch_size=epoch_size, minibatch_size=size)
        assert epoch_frames(spec, 27, full=True) == frames
        assert epoch_frames(spec, 27, full=False) == (epoch_size or 27)


class TestReader:
    def test_utterances_are_joined(self, make) -> None:
        reader = make(WHOLE)
        (first, second) = reader.minibatches(EpochSpec(minibatch_size=100))
        # In this order as drawn with seed 1; without the last one they have fewer frames than the epoch has.
        joined = [frame for name in ("utt4", "utt3", "utt1", "utt0") for frame in frames_of(name)]
        assert sequences(first) == [[joined]]
        assert sequences(second) == [[frames_of("utt2")]]
        assert first.streams["features"].layout.keys == ("utt4",)
        assert first.columns == first.samples == 18
        labels = first.streams["labels"].data
        assert labels.shape == (18, 3)
        assert first.streams["labels"].layout is first.streams["features"].layout
        assert reader.told == [
            "WARNING: as in CNTK 2.0, HTKMLFReader joins as many utterances as fit into minibatchSize frames into one "
            f"sequence, over whose seams recurrent networks carry their state, and {COPIES}"
        ]

    def test_copies_fill_the_gaps(self, make) -> None:
        (minibatch,) = make(WHOLE + "nbruttsineachrecurrentiter=3").minibatches(EpochSpec(minibatch_size=100))
        slots = sequences(minibatch)
        assert sorted(map(len, slots)) == [1, 1, 1]
        assert slots[1] == slots[2] == [frames_of("utt2")]
        assert minibatch.samples == 36
        assert minibatch.columns == 54

    def test_the_second_sweep_has_another_order(self, make) -> None:
        (first, _) = make(WHOLE).minibatches(EpochSpec(epoch=1, minibatch_size=100))
        names = ("utt3", "utt2", "utt4", "utt0")
        assert sequences(first) == [[[frame for name in names for frame in frames_of(name)]]]

    def test_slots_by_epoch(self, make) -> None:
        reader = make(WHOLE + "nbruttsineachrecurrentiter=1:2")
        counts = [[one.samples for one in reader.minibatches(EpochSpec(epoch=k, minibatch_size=1))] for k in (0, 1)]
        assert counts == [[6, 1, 4, 7, 9], [1 + 6 + 9, 4 + 7]]

    def test_twister(self, make) -> None:
        text = WHOLE + "useMersenneTwisterRand=true"
        joined = [key for one in make(text).minibatches(EpochSpec(minibatch_size=1)) for key in _keys(one)]
        plain = [key for one in make(text, old=False).minibatches(EpochSpec(minibatch_size=1)) for key in _keys(one)]
        assert joined == plain
        assert joined != ["utt4", "utt3", "utt1", "utt0", "utt2"]

    def test_frames_are_cut_anywhere(self, make) -> None:
        reader = make(WHOLE + "readMethod=rollingWindow ; randomize=none ; nbruttsineachrecurrentiter=2")
        minibatches = list(reader.minibatches(EpochSpec(minibatch_size=10)))
        every = [frame for name in LENGTHS for frame in frames_of(name)]
        assert [sequences(one) for one in minibatches] == [
            [[every[:10]], [every[10:20]]],
            [[every[20:]], [every[10:20]]],
        ]
        assert reader.told == [
            "WARNING: as in CNTK 2.0, HTKMLFReader with readMethod=rollingWindow cuts sequences of minibatchSize "
            f"frames out of the order of all frames, whatever utterances they belong to, and {COPIES}"
        ]

    def test_frames_in_random_order(self, make) -> None:
        reader = make(WHOLE + "readMethod=rollingWindow")
        every = np.array([frame for name in LENGTHS for frame in frames_of(name)])
        for sweep in (0, 1):
            found = [sequences(one)[0][0] for one in reader.minibatches(EpochSpec(epoch=sweep, minibatch_size=10))]
            assert [len(frames) for frames in found] == [10, 10, 7]
            assert np.concatenate(found).tolist() == every[rolling_order(27, None, sweep)].tolist()

    def test_ranks_share_the_slots(self, make) -> None:
        text = WHOLE + "nbruttsineachrecurrentiter=3"
        (whole,) = make(text).minibatches(EpochSpec(minibatch_size=100))
        shares = [list(make(text).minibatches(EpochSpec(minibatch_size=100, rank=rank, ranks=2))) for rank in (0, 1)]
        assert [one.samples for (one,) in shares] == [27, 9]
        assert [one.columns for (one,) in shares] == [36, 18]
        assert sorted(slot for (one,) in shares for slot in sequences(one)) == sorted(sequences(whole))

    def test_an_epoch_that_goes_on(self, make) -> None:
        reader = make(WHOLE)
        every = [one.samples for one in reader.minibatches(EpochSpec(minibatch_size=1))]
        spec = EpochSpec(minibatch_size=1, skip_samples=every[0] + every[1])
        assert [one.samples for one in reader.minibatches(spec)] == every[2:]
        spec = EpochSpec(minibatch_size=1, max_samples=every[0] + 1)
        assert [one.samples for one in reader.minibatches(spec)] == every[:2]

    def test_ten_thousand_frames_at_most(self, make) -> None:
        reader = make(WHOLE)
        assert reader.settings.max_utterance_length == 10_000
        assert make(WHOLE + "joinUtterances=false").settings.max_utterance_length is None

    def test_full_minibatches(self, make) -> None:
        reader = make(WHOLE + "minibatchMode=full")
        assert [one.samples for one in reader.minibatches(EpochSpec(minibatch_size=10))] == [7, 4, 7, 9]


def _keys(minibatch) -> list[str]:
    layout = minibatch.streams["features"].layout
    return [layout.keys[slot] for slot in np.argsort(layout.order, kind="stable").tolist()]


class TestNotJoined:
    @pytest.mark.parametrize(
        "text",
        [
            "joinUtterances=false",
            "randomize=none",
            "readMethod=none",
            "joinUtterances=false ; readMethod=rollingWindow",
        ],
    )
    def test_each_utterance_once(self, make, text: str) -> None:
        reader = make(WHOLE + text)
        (minibatch,) = reader.minibatches(EpochSpec(minibatch_size=100))
        assert sorted(minibatch.streams["features"].layout.keys) == sorted(LENGTHS)
        assert reader.told == []

    def test_file_order_is_joined_where_the_recipe_says_so(self, make) -> None:
        reader = make(WHOLE + "randomize=none ; joinUtterances=true")
        (first, second) = reader.minibatches(EpochSpec(minibatch_size=100))
        assert sequences(first) == [[[frame for name in list(LENGTHS)[:4] for frame in frames_of(name)]]]
        assert sequences(second) == [[frames_of("utt4")]]

    def test_other_reader(self, make) -> None:
        reader = make(WHOLE, old=False)
        (minibatch,) = reader.minibatches(EpochSpec(minibatch_size=100))
        assert len(minibatch.streams["features"].layout.keys) == 5
        assert reader.told == []

    def test_write_action(self, make) -> None:
        reader = make(WHOLE, for_writing=True, inputs={"features": (2,)})
        assert [one.samples for one in reader.minibatches(EpochSpec(minibatch_size=64))] == list(LENGTHS.values())
        assert reader.told == []

    @pytest.mark.parametrize("other", ["frameMode", "truncated"])
    def test_what_is_no_whole_utterance(self, make, other: str) -> None:
        text = FEATURES + f"joinUtterances=true\nframeMode={'true' if other == 'frameMode' else 'false'}\ntruncated="
        with pytest.raises(CntkError) as caught:
            make(text + ("true" if other == "truncated" else "false"))
        assert str(caught.value) == (
            f"r.cntk: joinUtterances=true and {other}=true exclude each other\n"
            "    Only whole utterances are joined: set frameMode=false and truncated=false."
        )

    def test_the_other_reader_never_joins(self, make) -> None:
        with pytest.raises(CntkError) as caught:
            make(WHOLE + "joinUtterances=true", old=False)
        assert str(caught.value) == (
            "r.cntk:4:1: reader 'HTKDeserializers' never joins utterances\n"
            "    Remove joinUtterances=true, or set readerType=HTKMLFReader."
        )
