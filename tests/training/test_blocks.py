"""Sessions whose ranks merge models after blocks, alone or in groups that sum gradients."""

from __future__ import annotations

from pathlib import Path

import attrs
import numpy as np
import pytest
from cntk_parallel_bmuf import BlockMomentum, BlockMomentumOptions, ModelAveraging, ModelAveragingOptions
from cntk_parallel_data_parallel import FullPrecision

from cntk_core.config import Schedule
from tests.training.small import Lines, ListReader, minibatch
from tests.training.test_together import assert_close, serial, train


def momentum(**given):
    """A class of strategies with these options."""

    class Blocks(BlockMomentum):
        def __init__(self):
            super().__init__(BlockMomentumOptions(**given), {"full": FullPrecision()})

    return Blocks


def averaging(**given):
    """A class of strategies with these options."""

    class Averages(ModelAveraging):
        def __init__(self):
            super().__init__(ModelAveragingOptions(**given), {"full": FullPrecision()})

    return Averages


@pytest.mark.parametrize("distributed", [True, False])
@pytest.mark.parametrize("strategy", [momentum, averaging])
@pytest.mark.sampled(2)
def test_one_worker_of_all_ranks_is_serial_training(tmp_path, strategy, distributed):
    """Gradients are summed in each step, and there is nothing to merge."""
    given = {"ranks_per_worker": 3, "block_size": 16}
    if strategy is momentum:
        given["reset_sgd_momentum"] = False
    expected, alone = serial(tmp_path / "serial")
    for values, summary in train(tmp_path / "together", 3, strategy(**given), distributed=distributed):
        assert_close(values, expected, 1e-11)
        assert summary.criteria == pytest.approx(alone.criteria, rel=1e-10)


def test_one_rank_is_serial_training(tmp_path):
    expected, alone = serial(tmp_path / "serial")
    ((values, summary),) = train(tmp_path / "one", 1, momentum(block_size=10, reset_sgd_momentum=False))
    assert_close(values, expected, 1e-11)
    assert summary.criteria == pytest.approx(alone.criteria, rel=1e-10)


@pytest.mark.parametrize(("size", "each"), [(3, 1), (4, 2), (6, 2)])
@pytest.mark.parametrize("variant", ["cntk", "paper"])
@pytest.mark.sampled(2)
def test_workers_agree(tmp_path, size, each, variant):
    """Shares are uneven; every sample counts once, and all ranks end with the same model and the same sums."""
    lines = [Lines() for _ in range(size)]
    strategy = momentum(block_size=24, ranks_per_worker=each, variant=variant)
    found = train(tmp_path, size, strategy, lines=lines, check=1)
    for values, summary in found:
        assert_close(values, found[0][0], 0.0)
        assert summary.criteria == found[0][1].criteria
    assert found[0][1].criteria["ce"] < 1.2
    for one in lines:
        (line,) = one.with_text("Finished Epoch[ 3 of 3]: [Training] ce = ")
        assert line.count("* 43") == 2
        assert "totalSamplesSeen = 129" in line


@pytest.mark.parametrize("each", [1, 2])
@pytest.mark.parametrize("strategy", [momentum, averaging])
@pytest.mark.sampled(3)
def test_a_restart_is_exact(tmp_path, strategy, each):
    blocks = strategy(block_size=24, ranks_per_worker=each)
    through = train(tmp_path / "through", 4, blocks)
    folder = tmp_path / "restarted"
    train(folder, 4, blocks, keep_check_point_files=True)
    for name in ("net.dnn", "net.dnn.ckp"):
        (folder / name).unlink()
    lines = [Lines() for _ in range(4)]
    for (values, _), (expected, _) in zip(train(folder, 4, blocks, lines=lines), through, strict=True):
        assert_close(values, expected, 0.0)
    assert lines[3].with_text("Restored from")


@attrs.define
class Stop(Exception):
    """Ends all ranks after so many minibatches of rank 0, and notes what was saved inside an epoch by then."""

    folder: Path
    minibatches: int
    saved: set[str] = attrs.field(factory=set)

    def listeners(self, name):
        def look(result, **told):
            self.saved |= {path.name for path in self.folder.glob("net.dnn.*.*.ckp")}
            if (result.epoch, result.minibatch) == (1, self.minibatches):
                raise self

        return [look] if name == "cntk_minibatch_end" else []


@pytest.mark.parametrize("each", [1, 2])
def test_it_is_saved_inside_an_epoch_where_the_models_have_met(tmp_path, each):
    blocks = averaging(block_size=8, ranks_per_worker=each)
    given = {"checkpoint_every_samples": 8, "minibatch_size": 8}
    straight = train(tmp_path / "straight", 4, blocks, minibatch_size=8)
    folder = tmp_path / "stopped"
    stop = Stop(folder, 4)
    with pytest.raises(Stop):
        train(folder, 4, blocks, hooks=stop, **given)
    assert "net.dnn.1.3.ckp" in stop.saved
    lines = [Lines() for _ in range(4)]
    for (values, _), (expected, _) in zip(train(folder, 4, blocks, lines=lines, **given), straight, strict=True):
        assert_close(values, expected, 0.0)
    assert lines[0].with_text(f"Restored from '{folder}/net.dnn.1.")


@pytest.fixture
def compressed():
    """A class of strategies that sum gradients with one bit inside workers of two ranks."""
    onebit = pytest.importorskip("cntk_parallel_onebit")
    pytest.importorskip("cntk_parallel_onebit.kernels").prepare(
        "float64"
    )  # the deadline of ranks does not count the compiler

    class Blocks(BlockMomentum):
        def __init__(self):
            given = BlockMomentumOptions(block_size=24, ranks_per_worker=2, gradient_bits=Schedule.constant(1))
            options = onebit.OneBitOptions(reset_residual_per_epoch=False)
            super().__init__(given, {"quantized": onebit.OneBit(options)})

    return Blocks


def test_one_bit_inside_and_block_momentum_between(tmp_path, compressed):
    """All ranks agree, the model is not that of full precision, and a restart goes on with residuals and velocity."""
    through = train(tmp_path / "through", 4, compressed)
    for values, summary in through:
        assert_close(values, through[0][0], 0.0)
        assert summary.criteria["ce"] < 1.2
    exact = train(tmp_path / "exact", 4, momentum(block_size=24, ranks_per_worker=2))
    assert any(not np.array_equal(values, exact[0][0][name]) for name, values in through[0][0].items())
    folder = tmp_path / "restarted"
    train(folder, 4, compressed, keep_check_point_files=True)
    for name in ("net.dnn", "net.dnn.ckp"):
        (folder / name).unlink()
    for values, _ in train(folder, 4, compressed):
        assert_close(values, through[0][0], 0.0)


def test_another_number_of_ranks(tmp_path):
    train(tmp_path, 4, momentum(block_size=24), max_epochs=2, keep_check_point_files=True)
    (tmp_path / "net.dnn").unlink()
    lines = [Lines() for _ in range(2)]
    found = train(tmp_path, 2, momentum(block_size=24), lines=lines)
    assert_close(found[1][0], found[0][0], 0.0)
    assert (
        "The checkpoint is of 4 ranks, now there are 2: a block has 12 samples of each worker instead of 6; "
        "there are 2 workers instead of 4; the block momentum is 0.5 instead of 0.75." in lines[0].all
    )


class Holes(ListReader):
    """Gives rank 1 every other minibatch, and an empty one in between and at the end."""

    def minibatches(self, epoch):
        for index, whole in enumerate(super().minibatches(attrs.evolve(epoch, rank=0, ranks=1))):
            streams = {name: data.data for name, data in whole.streams.items()}
            if epoch.rank == 1 and index % 2:
                streams = {name: data[:0] for name, data in streams.items()}
            yield minibatch(streams)


class Compact(Holes):
    """The same without the empty ones."""

    def minibatches(self, epoch):
        yield from (one for one in super().minibatches(epoch) if one.samples)


def test_minibatches_without_samples_are_not_learned(tmp_path, monkeypatch):
    found, lines = [], [Lines(), Lines()]
    for reader in (Holes, Compact):
        monkeypatch.setattr("tests.training.test_together.SharingReader", reader)
        given = {"max_epochs": 1, "num_mbs_to_show_result": 1}
        lines = [Lines(), Lines()]
        found.append(train(tmp_path / reader.__name__, 2, averaging(block_size=16), lines=lines, **given))
        shown = lines[1].with_text("-Minibatch[")
        # As in the original, one minibatch without samples is shown at the end, whoever it comes from.
        assert [line.count("* 0;") for line in shown][-2:] == [0, 2]
    assert_close(found[0][1][0], found[1][1][0], 0.0)
    assert np.isfinite(found[0][0][1].criteria["ce"])
