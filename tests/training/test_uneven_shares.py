"""Ranks of which one has less data than the others, saved and gone on with."""

from __future__ import annotations

import numpy as np
import pytest

from cntk_core.training.loop.ranks import ParallelSettings, Ranks
from cntk_testing import VirtualRanks
from tests.training.small import ListReader, make_session, minibatch
from tests.training.test_together import Sums, assert_close


def test_a_restart_where_one_rank_has_read_all_of_its_share(tmp_path):
    """Rank 1 has data for two steps, and goes on with empty ones; it is there that training is saved."""

    class Uneven(ListReader):
        def minibatches(self, epoch):
            for begin in range(0, 16 if epoch.rank else 40, 8):
                yield minibatch({name: values[begin : begin + 8] for name, values in self.data.items()})

    class Stopping(Sums):
        def reduce(self, store, counts):
            if self.steps == 5:
                raise ZeroDivisionError
            return super().reduce(store, counts)

    def run(folder, strategy):
        def work(communicator):
            ranks = Ranks(communicator, strategy(), "Stopping", ParallelSettings())
            session = make_session(folder, reader=Uneven(), ranks=ranks, max_epochs=1, checkpoint_every_samples=8)
            session.run()
            return {p.name: np.array(p.value) for p in session.job.network.parameters}

        return VirtualRanks(2, deadline=60.0).run(work)

    expected = run(tmp_path / "through", Sums)
    with pytest.raises(ZeroDivisionError):
        run(tmp_path / "stopped", Stopping)
    assert max(each.name for each in (tmp_path / "stopped").glob("net.dnn.0.*.ckp")) == "net.dnn.0.4.ckp"
    for values, whole in zip(run(tmp_path / "stopped", Sums), expected, strict=True):
        assert_close(values, whole, 0.0)
