"""The contract of a reader: the same spec gives the same minibatches, and the ranks' shares are the whole.

A plugin's test file gives readers of a small data set::

    class TestMyReader(ReaderContract):
        samples = 23
        recipe = README

        @pytest.fixture
        def reader_factory(self, tmp_path):
            ...
            return lambda: MyReader(options, ReaderContext())

        def files(self, folder):
            ...                         # what the recipe of README.md reads
"""

from __future__ import annotations

import gc
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import attrs
import numpy as np
import pytest
from numpy.typing import NDArray

from cntk_core.contract.reader import DataReader, EpochSpec
from cntk_core.records.minibatch import Minibatch, StreamData
from cntk_testing.contract import check_component
from cntk_testing.recipes import ReaderRecipe

ReaderFactory = Callable[[], DataReader]

PATIENCE = 60.0
"""Seconds that a thread may take to end."""


def dense_rows(stream: StreamData) -> NDArray[Any]:
    """The frames of a stream as a dense matrix ``(frames, elements)``."""
    data: Any = stream.data.toarray() if stream.sparse else stream.data  # type: ignore[union-attr]
    return np.asarray(data).reshape(data.shape[0], int(np.prod(data.shape[1:])))


def content(minibatch: Minibatch) -> dict[str, tuple[Any, ...]]:
    """What a minibatch holds, in a form that can be compared."""
    return {
        name: (
            stream.data.shape,
            dense_rows(stream).tobytes(),
            *(getattr(stream.layout, field).tobytes() for field in ("lengths", "order", "begins")),
            stream.layout.keys,
        )
        for name, stream in sorted(minibatch.streams.items())
    } | {"samples": (minibatch.samples,)}


class ReaderContract(ReaderRecipe):
    """Tests of a reader for pytest: subclass it with ``samples`` and a fixture ``reader_factory``.

    One class of a wheel's tests also has the ``recipe`` of its README and writes its ``files``.

    Attributes:
        samples: how many samples one sweep over the data has; at least 6.
        sequences: the data has sequences, so that minibatches and epochs end after whole ones, near their sizes.
        supports_ranks: the reader gives each of several ranks its share.
        ranks_in_step: all ranks have equally many minibatches (not in file order, where each rank reads on until it
            has a sequence of its own).
        supports_skipping: the reader can begin inside an epoch.
    """

    samples: ClassVar[int]
    sequences: ClassVar[bool] = False
    supports_ranks: ClassVar[bool] = True
    ranks_in_step: ClassVar[bool] = True
    supports_skipping: ClassVar[bool] = True

    @pytest.fixture
    def reader_factory(self) -> ReaderFactory:
        """Make a new reader of the data set."""
        raise NotImplementedError(f"{type(self).__name__} has no fixture reader_factory")

    @pytest.fixture
    def reader(self, reader_factory: ReaderFactory) -> Iterator[DataReader]:
        """A reader of the data set, closed after the test."""
        reader = reader_factory()
        yield reader
        reader.close()

    def specs(self) -> list[EpochSpec]:
        """Epochs of different kinds."""
        part = max(self.samples // 2 - 1, 1)
        return [
            EpochSpec(minibatch_size=4),
            EpochSpec(epoch=1, minibatch_size=4),
            EpochSpec(minibatch_size=self.samples + 3),
            EpochSpec(epoch=2, epoch_size=part, minibatch_size=3),
            EpochSpec(epoch=1, epoch_size=self.samples + 5, minibatch_size=5),
            EpochSpec(epoch=3, minibatch_size=4, max_samples=part),
        ]

    def read(self, reader: DataReader, epoch: EpochSpec) -> list[dict[str, tuple[Any, ...]]]:
        """Read an epoch to its end."""
        return [content(minibatch) for minibatch in reader.minibatches(epoch)]

    def rows(self, reader: DataReader, epoch: EpochSpec) -> Counter[tuple[str, bytes]]:
        """Read an epoch and return how often each frame of each stream occurs."""
        return self.rows_and_sizes(reader, epoch)[0]

    def rows_and_sizes(self, reader: DataReader, epoch: EpochSpec) -> tuple[Counter[tuple[str, bytes]], list[int]]:
        """Read an epoch and return how often each frame of each stream occurs, and the samples of each minibatch."""
        found: Counter[tuple[str, bytes]] = Counter()
        sizes = []
        for minibatch in reader.minibatches(epoch):
            sizes.append(minibatch.samples)
            for name, stream in minibatch.streams.items():
                found.update((name, row.tobytes()) for row in dense_rows(stream))
        return found, sizes

    def count(self, reader: DataReader, epoch: EpochSpec) -> int:
        """Read an epoch and return its samples."""
        return sum(minibatch.samples for minibatch in reader.minibatches(epoch))

    def test_component(self, reader: DataReader) -> None:
        """Options are an attrs class; the interface version fits."""
        check_component(type(reader))

    def test_streams_are_as_declared(self, reader: DataReader) -> None:
        """Names, shapes and precision of the minibatches' streams; layouts have as many frames as the data."""
        declared = {stream.name: stream for stream in reader.streams}
        assert len(declared) == len(reader.streams), "two streams have the same name"
        for minibatch in reader.minibatches(EpochSpec(minibatch_size=4)):
            assert set(minibatch.streams) == set(declared), f"streams {sorted(minibatch.streams)}"
            for name, stream in minibatch.streams.items():
                info, data = declared[name], stream.data
                assert stream.sparse == info.sparse, f"'{name}' is {'sparse' if stream.sparse else 'dense'}"
                assert data.dtype == reader.context.dtype, f"'{name}' is {data.dtype}, not {reader.context.dtype}"
                shape = (int(np.prod(info.shape)),) if info.sparse else info.shape
                assert tuple(data.shape[1:]) == shape, f"samples of '{name}' are {data.shape[1:]}, not {shape}"
                frames = stream.layout.frames
                assert data.shape[0] == frames, f"'{name}' has {data.shape[0]} rows in a layout of {frames} frames"
                assert info.sequence or stream.layout.is_frames, f"'{name}' has sequences that are not declared"

    def test_a_sweep_has_all_samples(self, reader: DataReader) -> None:
        """An epoch of size 0 is one sweep, whatever the size of the minibatches; every sweep has the same data."""
        whole = self.rows(reader, EpochSpec(minibatch_size=4))
        for size in (1, 3, self.samples, 10 * self.samples):
            rows, sizes = self.rows_and_sizes(reader, EpochSpec(minibatch_size=size))
            assert sum(sizes) == self.samples, f"a sweep has {sum(sizes)} samples"
            assert rows == whole, f"a sweep in minibatches of {size} has other data"
        assert self.rows(reader, EpochSpec(epoch=3, minibatch_size=4)) == whole, "the fourth sweep has other data"

    def test_minibatches_have_their_size(self, reader: DataReader) -> None:
        """Minibatches are full but for the last of a sweep; the longest sequence may exceed the size."""
        sizes = [minibatch.samples for minibatch in reader.minibatches(EpochSpec(minibatch_size=4))]
        assert all(sizes), "a minibatch has no samples"
        if not self.sequences:
            full, rest = divmod(self.samples, 4)
            assert sizes == [4] * full + ([rest] if rest else []), f"minibatches of {sizes} samples"

    def test_the_same_spec_gives_the_same(self, reader_factory: ReaderFactory) -> None:
        """What was read before does not count, nor in which order epochs are read, nor which reader reads."""
        first, second = reader_factory(), reader_factory()
        try:
            expected = [self.read(first, spec) for spec in self.specs()]
            for index in (3, 0, 5, 2, 2, 4, 1, 0):
                assert self.read(second, self.specs()[index]) == expected[index], f"{self.specs()[index]} differs"
                next(second.minibatches(EpochSpec(epoch=7, minibatch_size=2)))
        finally:
            first.close()
            second.close()

    def test_two_iterators_do_not_disturb_each_other(self, reader: DataReader) -> None:
        """Two epochs that are read in turn give what each gives alone."""
        specs = [EpochSpec(minibatch_size=2), EpochSpec(epoch=1, minibatch_size=2)]
        expected = [self.read(reader, spec) for spec in specs]
        found: list[list[dict[str, tuple[Any, ...]]]] = [[], []]
        for pair in zip(*(reader.minibatches(spec) for spec in specs), strict=False):
            for index, minibatch in enumerate(pair):
                found[index].append(content(minibatch))
        for one, other in zip(found, expected, strict=True):
            assert one == other[: len(one)], "an epoch differs when another one is read at the same time"

    def test_small_epochs_follow_each_other(self, reader: DataReader) -> None:
        """Epochs smaller than a sweep cover the data one after the other."""
        size = max(self.samples // 3, 1)
        number = -(-self.samples // size)
        total, counts = Counter[tuple[str, bytes]](), []
        for epoch in range(number):
            spec = EpochSpec(epoch=epoch, epoch_size=size, minibatch_size=4)
            rows, sizes = self.rows_and_sizes(reader, spec)
            total += rows
            counts.append(sum(sizes))
        if not self.sequences:
            assert counts == [size] * number, f"epochs of {size} samples have {counts}"
        missing = self.rows(reader, EpochSpec(minibatch_size=4)) - total
        assert not missing, f"{missing.total()} frames of a sweep are in none of the epochs that cover it"

    def test_large_epochs_go_through_several_sweeps(self, reader: DataReader) -> None:
        """An epoch larger than a sweep goes on with the next one."""
        size = 2 * self.samples
        rows, sizes = self.rows_and_sizes(reader, EpochSpec(epoch_size=size, minibatch_size=4))
        assert sum(sizes) == size, f"an epoch of {size} samples has {sum(sizes)}"
        whole = self.rows(reader, EpochSpec(minibatch_size=4))
        assert rows == whole + whole, "an epoch of two sweeps does not have all data twice"
        if not self.sequences:
            more = EpochSpec(epoch_size=self.samples + 3, minibatch_size=4)
            assert self.count(reader, more) == self.samples + 3

    def test_max_samples_ends_an_epoch(self, reader: DataReader) -> None:
        """With ``max_samples`` an epoch begins as it does without, and ends early."""
        whole = self.read(reader, EpochSpec(minibatch_size=2))
        part = self.read(reader, EpochSpec(minibatch_size=2, max_samples=4))
        assert len(part) < len(whole), "max_samples does not end the epoch"
        assert part == whole[: len(part)], "max_samples changes the minibatches before the end"
        if not self.sequences:
            assert len(part) == 2, f"max_samples = 4 gives {len(part)} minibatches of 2 samples"

    def test_skipping_resumes(self, reader: DataReader) -> None:
        """With ``skip_samples`` an epoch goes on exactly where it was interrupted."""
        if not self.supports_skipping:
            pytest.skip("the reader cannot begin inside an epoch")
        for spec in (EpochSpec(epoch=1, minibatch_size=3), EpochSpec(epoch_size=2 * self.samples, minibatch_size=4)):
            whole = self.read(reader, spec)
            done = 0
            for index, minibatch in enumerate(whole):
                found = self.read(reader, attrs.evolve(spec, skip_samples=done))
                assert found == whole[index:], f"{spec} differs after {done} samples are skipped"
                done += minibatch["samples"][0]

    def test_learned_samples_need_not_be_made(self, reader: DataReader) -> None:
        """With ``learned_samples`` the minibatches after these are as they would be, and those before are counted."""
        spec = EpochSpec(epoch=1, minibatch_size=3)
        whole = self.read(reader, spec)
        half = len(whole) // 2
        sizes = [minibatch["samples"][0] for minibatch in whole]
        found = list(reader.minibatches(attrs.evolve(spec, learned_samples=sum(sizes[:half]))))
        assert [minibatch.samples for minibatch in found] == sizes, "minibatches that were learned are not counted"
        rest = [content(minibatch) for minibatch in found[half:]]
        assert rest == whole[half:], f"the epoch differs after {half} minibatches that were learned"

    @pytest.mark.parametrize("ranks", [2, pytest.param(3, marks=pytest.mark.slow)])
    def test_shares_are_disjoint_and_complete(self, reader: DataReader, ranks: int) -> None:
        """Every frame is read by exactly one rank, and all ranks have equally many minibatches."""
        if not self.supports_ranks:
            pytest.skip("the reader knows one rank")
        for spec in self.specs():
            if self.sequences and spec.epoch_size:
                continue  # Each rank may read one sequence beyond the end.
            whole, shares, lengths = self.rows(reader, spec), Counter[tuple[str, bytes]](), set()
            for rank in range(ranks):
                rows, sizes = self.rows_and_sizes(reader, attrs.evolve(spec, rank=rank, ranks=ranks))
                shares += rows
                lengths.add(len(sizes))
            if not spec.max_samples or not self.sequences:
                missing, twice = whole - shares, shares - whole
                assert not missing, f"{missing.total()} frames of {spec} are read by no rank of {ranks}"
                assert not twice, f"{twice.total()} frames of {spec} are read twice by {ranks} ranks"
            in_step = len(lengths) == 1 or not self.ranks_in_step
            assert in_step, f"the ranks of {spec} have {sorted(lengths)} minibatches"

    def test_data_stay_as_they_are(self, reader: DataReader) -> None:
        """A minibatch keeps its numbers while others are read."""
        minibatches = list(reader.minibatches(EpochSpec(minibatch_size=2)))
        assert [content(minibatch) for minibatch in minibatches] == self.read(reader, EpochSpec(minibatch_size=2))

    def test_good_data_pass_the_check(self, reader: DataReader) -> None:
        """The check finds nothing wrong with the data set of this contract."""
        problems = [str(error) for error in reader.check()]
        assert not problems, "\n".join(problems)

    def test_close_twice(self, reader_factory: ReaderFactory) -> None:
        """A reader may be closed more than once, before it was used and in the middle of an epoch."""
        unused = reader_factory()
        unused.close()
        unused.close()
        used = reader_factory()
        minibatches = used.minibatches(EpochSpec(minibatch_size=2))
        next(minibatches)
        used.close()
        used.close()

    def test_a_dropped_iterator_leaves_no_thread(self, reader_factory: ReaderFactory) -> None:
        """Threads end when an epoch is not read to its end and when the reader is closed."""
        before = set(threading.enumerate())
        reader = reader_factory()
        for _ in range(3):
            minibatches = reader.minibatches(EpochSpec(minibatch_size=1))
            next(minibatches)
            del minibatches
        reader.close()
        gc.collect()
        end = time.monotonic() + PATIENCE
        while (left := set(threading.enumerate()) - before) and time.monotonic() < end:
            time.sleep(0.01)
        assert not left, f"threads are left: {', '.join(thread.name for thread in left)}"
