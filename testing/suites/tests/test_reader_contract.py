"""The contract of readers holds for a reader of arrays, and notices readers that are wrong."""

from __future__ import annotations

import threading

import attrs
import numpy as np
import pytest

from cntk_core.contract.component import NoOptions
from cntk_core.contract.reader import DataReader, EpochSpec, ReaderContext, StreamInfo
from cntk_core.ops.language.layouts import frame_layout
from cntk_core.records.minibatch import Minibatch, StreamData
from cntk_testing.reader_contract import ReaderContract

SAMPLES = 11


class Numbers(DataReader):
    """Samples 0 to 10, shuffled in each sweep."""

    requires_api = "1.0"

    def __init__(self):
        super().__init__(NoOptions(), ReaderContext())

    @property
    def streams(self):
        return (StreamInfo("x", (2,)),)

    def minibatches(self, epoch):
        size = epoch.epoch_size or SAMPLES
        position, end = epoch.epoch * size, (epoch.epoch + 1) * size
        if epoch.max_samples:
            end = min(end, position + epoch.max_samples)
        resume = position + epoch.skip_samples
        while position < end:
            sweep, at = divmod(position, SAMPLES)
            count = min(epoch.minibatch_size, SAMPLES - at, end - position)
            if position >= resume:
                yield self.minibatch(self.order(sweep)[at : at + count][epoch.rank :: epoch.ranks])
            position += count

    def order(self, sweep):
        return np.random.default_rng(sweep).permutation(SAMPLES)

    def minibatch(self, numbers):
        rows = np.stack([numbers, -numbers], axis=1).astype(np.float32)
        return Minibatch({"x": StreamData(rows, frame_layout(len(rows)))}, len(rows))


class TestNumbers(ReaderContract):
    samples = SAMPLES

    @pytest.fixture
    def reader_factory(self):
        return Numbers


class Faulty(ReaderContract):
    samples = SAMPLES


def error_of(reader, test, **arguments):
    contract = Faulty()
    name = "reader_factory" if test in FACTORY_TESTS else "reader"
    with pytest.raises(AssertionError) as error:
        getattr(contract, test)(**{name: reader if name == "reader_factory" else reader(), **arguments})
    return str(error.value)


FACTORY_TESTS = ("test_the_same_spec_gives_the_same", "test_a_dropped_iterator_leaves_no_thread")


def test_state_is_noticed():
    class Remembers(Numbers):
        count = 0

        def order(self, sweep):
            self.count += 1
            return np.random.default_rng(self.count // 20).permutation(SAMPLES)

    assert "differs" in error_of(Remembers, "test_the_same_spec_gives_the_same")


def test_shares_that_overlap_are_noticed():
    class Overlaps(Numbers):
        def minibatches(self, epoch):
            return super().minibatches(attrs.evolve(epoch, rank=0, ranks=1) if epoch.rank else epoch)

    found = error_of(Overlaps, "test_shares_are_disjoint_and_complete", ranks=2)
    assert "are read twice by 2 ranks" in found


def test_shares_that_lack_something_are_noticed():
    class Lacks(Numbers):
        def minibatches(self, epoch):
            return super().minibatches(attrs.evolve(epoch, rank=0))

    found = error_of(Lacks, "test_shares_are_disjoint_and_complete", ranks=3)
    assert "are read by no rank of 3" in found


def test_a_resume_at_another_place_is_noticed():
    class Late(Numbers):
        def minibatches(self, epoch):
            return super().minibatches(attrs.evolve(epoch, skip_samples=epoch.skip_samples * 2))

    assert "differs after 3 samples are skipped" in error_of(Late, "test_skipping_resumes")


def test_learned_minibatches_that_are_missing_are_noticed():
    class Short(Numbers):
        def minibatches(self, epoch):
            return super().minibatches(attrs.evolve(epoch, skip_samples=epoch.learned_samples))

    assert "learned are not counted" in error_of(Short, "test_learned_samples_need_not_be_made")

    class Late(Numbers):
        def minibatches(self, epoch):
            passed = 0
            for whole in super().minibatches(epoch):
                passed += whole.samples
                yield whole if passed > epoch.learned_samples + 3 else Minibatch({}, whole.samples)

    assert "differs after 2 minibatches" in error_of(Late, "test_learned_samples_need_not_be_made")


def test_wrong_sizes_are_noticed():
    class Small(Numbers):
        def minibatches(self, epoch):
            return super().minibatches(attrs.evolve(epoch, minibatch_size=min(epoch.minibatch_size, 3)))

    assert error_of(Small, "test_minibatches_have_their_size").startswith("minibatches of [3, 3, 3, 2] samples")

    class OneSweep(Numbers):
        def minibatches(self, epoch):
            return super().minibatches(attrs.evolve(epoch, epoch_size=0))

    found = error_of(OneSweep, "test_large_epochs_go_through_several_sweeps")
    assert found.startswith("an epoch of 22 samples has 11")
    found = error_of(OneSweep, "test_small_epochs_follow_each_other")
    assert found.startswith("epochs of 3 samples have [11, 11, 11, 11]")


def test_wrong_streams_are_noticed():
    class Double(Numbers):
        def minibatch(self, numbers):
            rows = np.stack([numbers, numbers], axis=1).astype(np.float64)
            return Minibatch({"x": StreamData(rows, frame_layout(len(rows)))}, len(rows))

    assert error_of(Double, "test_streams_are_as_declared").startswith("'x' is float64, not float32")
    wide = type("Wide", (Numbers,), {"streams": (StreamInfo("x", (3,)),)})
    assert error_of(wide, "test_streams_are_as_declared").startswith("samples of 'x' are (2,), not (3,)")


def test_a_buffer_used_again_is_noticed():
    class Reuses(Numbers):
        def minibatches(self, epoch):
            buffer = np.zeros((100, 2), np.float32)
            for minibatch in super().minibatches(epoch):
                rows = buffer[: minibatch.samples]
                rows[...] = minibatch.streams["x"].data
                yield Minibatch({"x": StreamData(rows, minibatch.streams["x"].layout)}, minibatch.samples)

    error_of(Reuses, "test_data_stay_as_they_are")


def test_a_thread_that_stays_is_noticed(monkeypatch):
    stop = threading.Event()

    class Threaded(Numbers):
        def minibatches(self, epoch):
            threading.Thread(target=stop.wait, args=(30,), name="forgotten", daemon=True).start()
            return super().minibatches(epoch)

    monkeypatch.setattr("cntk_testing.reader_contract.PATIENCE", 0.05)
    try:
        found = error_of(Threaded, "test_a_dropped_iterator_leaves_no_thread")
    finally:
        stop.set()
    assert found.startswith("threads are left: forgotten, forgotten, forgotten")


def test_the_reader_of_this_file():
    assert [minibatch.samples for minibatch in Numbers().minibatches(EpochSpec(minibatch_size=6))] == [6, 5]
