"""SIGTERM, SIGHUP, SIGUSR1: training is saved at the next minibatch and ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import attrs
import pytest

from cntk_core.config import Schedule
from cntk_core.training.loop.ranks import ParallelSettings, Ranks
from cntk_core.training.rates.auto_adjust import AutoAdjust
from cntk_kit_recipes.session import stop_signals as module
from cntk_kit_recipes.session.stop_request import Stopped, StopRequest
from cntk_kit_recipes.session.stop_signals import listening
from cntk_testing import VirtualRanks
from tests.training.small import Lines, make_session
from tests.training.test_together import Averages, SharingReader, Sums

SAVED = "    It is saved there; the same command goes on from it."
KEPT = "    What was saved before is kept; the same command goes on from it."


@attrs.define
class AskAfter:
    """A listener through which somebody asks after so many minibatches."""

    stop: StopRequest
    minibatches: int

    def listeners(self, name):
        def count(**told):
            self.minibatches -= 1
            self.stop.asked = self.stop.asked or self.minibatches == 0

        return [count] if name == "cntk_minibatch_end" else []


def train(folder, ask=0, **changes):
    stop, lines = StopRequest(), Lines()
    make_session(folder, lines, stop=stop, hooks=AskAfter(stop, ask), minibatch_size=8, **changes).run()
    return lines


def train_together(folder, ask=0, strategy=Sums, start=1):
    """Somebody asks rank 1."""

    def work(communicator):
        stop = StopRequest()
        hooks = AskAfter(stop, ask if communicator.rank == 1 else 0)
        ranks = Ranks(communicator, strategy(), strategy.__name__, ParallelSettings(start_epoch=start))
        reader = SharingReader()
        make_session(folder, stop=stop, hooks=hooks, minibatch_size=8, ranks=ranks, reader=reader).run()

    VirtualRanks(2).run(work)


def model(folder):
    return (folder / "net.dnn").read_bytes()


def test_training_is_saved_and_goes_on(tmp_path):
    train(tmp_path / "through")
    with pytest.raises(Stopped) as caught:
        train(tmp_path / "stopped", 9)
    assert str(caught.value) == f"training was told to end (SIGTERM): it ends after minibatch 3 of epoch 2\n{SAVED}"
    assert caught.value.exit_code == 143
    assert [path.name for path in (tmp_path / "stopped").glob("net.dnn.*.*.ckp")] == ["net.dnn.1.3.ckp"]
    assert "3 minibatches of the next epoch" in train(tmp_path / "stopped").with_text("Restored from")[0]
    assert model(tmp_path / "stopped") == model(tmp_path / "through")


def test_a_checkpoint_that_cannot_be_written(tmp_path, monkeypatch):
    import cntk_kit_recipes.session.saving as module

    real = module.save_checkpoint

    def full(path, *given, **more):
        if more.get("position") is not None:
            raise OSError(28, "No space left on device")
        real(path, *given, **more)

    monkeypatch.setattr(module, "save_checkpoint", full)
    with pytest.raises(Stopped) as caught:
        train(tmp_path, 9)
    assert str(caught.value).endswith(KEPT)


def test_a_request_to_one_rank_ends_all(tmp_path):
    train_together(tmp_path / "through")
    with pytest.raises(Stopped) as caught:
        train_together(tmp_path / "stopped", 9)
    message = str(caught.value)
    assert message.startswith("training on rank 1 was told to end (SIGTERM): it ends after minibatch ")
    assert message.endswith(f" of epoch 2\n{SAVED}")
    train_together(tmp_path / "stopped")
    assert model(tmp_path / "stopped") == model(tmp_path / "through")


def test_ranks_that_are_not_at_the_same_step(tmp_path):
    train_together(tmp_path / "through", strategy=Averages)
    with pytest.raises(Stopped) as caught:
        train_together(tmp_path / "stopped", 9, strategy=Averages)
    assert str(caught.value).endswith(f" of epoch 2\n{KEPT}")
    train_together(tmp_path / "stopped", strategy=Averages)
    assert model(tmp_path / "stopped") == model(tmp_path / "through")


class Late(Sums):
    """Tells of a request that came to an earlier run, as sums that were on their way in a checkpoint do."""

    def reduce(self, store, counts):
        total = super().reduce(store, counts)
        return attrs.evolve(total, flags=(total.flags[0], 1.0)) if self.steps == 1 else total


def test_a_request_to_an_earlier_run_is_over(tmp_path):
    train_together(tmp_path, strategy=Late)
    assert (tmp_path / "net.dnn").exists()


def test_a_trial_ends_without_being_saved(tmp_path):
    search = AutoAdjust(auto_adjust_lr="searchBeforeEpoch", num_samples4_search=Schedule.constant(24))
    with pytest.raises(Stopped) as caught:
        make_session(tmp_path, stop=StopRequest(asked=True), auto_adjust=search, learning_rates_per_sample=None).run()
    said = "training was told to end (SIGTERM): it ends after minibatch 1 of a trial for epoch 1"
    assert str(caught.value) == f"{said}\n{KEPT}"


def twice(stop, heard):
    with listening(stop):
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.asked
        assert not heard
        os.kill(os.getpid(), signal.SIGTERM)


def test_the_signal_is_noted_once(monkeypatch):
    monkeypatch.setattr(module, "ECHO", 0.0)
    before = signal.getsignal(signal.SIGTERM)
    heard = []
    signal.signal(signal.SIGTERM, lambda number, frame: heard.append(number))
    try:
        stop = StopRequest()
        with pytest.raises(Stopped, match="it ends after its last epoch"):
            twice(stop, heard)
        assert heard == [signal.SIGTERM]
        os.kill(os.getpid(), signal.SIGTERM)
        assert len(heard) == 2
    finally:
        signal.signal(signal.SIGTERM, before)


def test_the_same_request_may_come_twice():
    """From the batch system, and from a launcher that passes it on."""
    stop, heard = StopRequest(), []
    with pytest.raises(Stopped, match=r"told to end \(SIGTERM\): it ends after its last epoch"):
        twice(stop, heard)


@pytest.mark.parametrize("name", ["SIGHUP", "SIGUSR1"])
def test_other_signals_are_requests_too(name, request):
    number = signal.Signals[name]
    before = signal.signal(number, signal.SIG_DFL)  # it may be ignored, as under nohup
    request.addfinalizer(lambda: signal.signal(number, before))
    with pytest.raises(Stopped, match=rf"told to end \({name}\)") as caught, listening(StopRequest()):
        os.kill(os.getpid(), number)
    assert caught.value.exit_code == 128 + number
    assert signal.getsignal(number) == signal.SIG_DFL


def test_a_signal_that_is_ignored_stays_so():
    """As nohup does with SIGHUP."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        stop = StopRequest()
        with listening(stop):
            os.kill(os.getpid(), signal.SIGHUP)
        assert not stop.asked
    finally:
        signal.signal(signal.SIGHUP, before)


BUSY = """
import hashlib, os, signal
from cntk_kit_recipes.session.stop_request import StopRequest
from cntk_kit_recipes.session import stop_signals
stop_signals.ECHO = 0.0
with stop_signals.listening(StopRequest()):
    os.kill(os.getpid(), signal.SIGUSR1)
    print("told", flush=True)
    hashlib.pbkdf2_hmac("sha256", b"a", b"b", 10**9)
"""


def test_a_second_request_ends_a_process_that_is_long_at_a_sum():
    with subprocess.Popen([sys.executable, "-c", BUSY], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "told\n"
        process.send_signal(signal.SIGTERM)
        # From outside both are the same: the thread ends it, or, just before the sum, the main thread.
        assert process.wait(30) in (143, -signal.SIGTERM)


def test_ranks_say_which_signal_it_was(tmp_path):
    def work(communicator):
        stop = StopRequest(number=signal.SIGUSR1)
        hooks = AskAfter(stop, 9 if communicator.rank == 1 else 0)
        ranks = Ranks(communicator, Sums(), "Sums", ParallelSettings(start_epoch=1))
        make_session(tmp_path, stop=stop, hooks=hooks, minibatch_size=8, ranks=ranks, reader=SharingReader()).run()

    with pytest.raises(Stopped, match=r"^training on rank 1 was told to end \(SIGUSR1\): it ends") as caught:
        VirtualRanks(2).run(work)
    assert caught.value.exit_code == 128 + signal.SIGUSR1


def test_nobody_asks():
    before = signal.getsignal(signal.SIGTERM)
    with listening(StopRequest()):
        assert signal.getsignal(signal.SIGTERM) is not before
    assert signal.getsignal(signal.SIGTERM) is before


def test_threads_leave_signals_alone():
    before, seen = signal.getsignal(signal.SIGTERM), []

    def work():
        with listening(StopRequest()):
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [before]


def test_a_request_before_the_ranks_train_together(tmp_path):
    """All learn the same then, without a word to each other, and still save together."""
    train_together(tmp_path / "through", start=2)
    with pytest.raises(Stopped) as caught:
        train_together(tmp_path / "stopped", 2, start=2)
    said = "training on rank 1 was told to end (SIGTERM): it ends after minibatch 2 of epoch 1"
    assert str(caught.value) == f"{said}\n{SAVED}"
    train_together(tmp_path / "stopped", start=2)
    assert model(tmp_path / "stopped") == model(tmp_path / "through")
