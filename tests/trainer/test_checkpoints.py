"""What a trainer saves, and that it goes on from there as if it had not stopped."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from cntk_engine_cpu import CpuEngine

from cntk_core.errors import CheckpointError, TrainingError
from cntk_core.network.model_file import load_model
from cntk_core.training.files.checkpoint import load_checkpoint
from cntk_testing import ReferenceEngine
from tests.trainer.driven import assert_same, learner, make_network, minibatches, train, trainer, values
from tests.training.small import TABLE, make_session

ADAMS = [learner("adam", 0.01, parameters=["W1", "b1"]), learner("fsadagrad", 0.01)]


def make(engine=CpuEngine):
    """A trainer with dropout, injected noise and learners that count."""
    given = {"op_settings": {"dropoutRate": 0.5}, "seed": 4, "engine": engine()}
    noisy = [*ADAMS[:1], learner("fsadagrad", 0.01, noise=0.01)]
    return trainer(make_network(dropout=True), noisy, **given)


def steps(made, first, last):
    for one in minibatches()[first:last]:
        made.train_minibatch(one)
    return made


@pytest.mark.parametrize("at", [0, 1, 4])
@pytest.mark.parametrize("engine", [ReferenceEngine, CpuEngine])
def test_going_on_in_the_same_process(tmp_path, at, engine):
    straight = make(engine)
    steps(straight, 0, 5)
    straight.end_epoch()
    before = steps(make(engine), 0, at)
    path = before.save(tmp_path / "run" / "net", external={"mine": [1, 2]})
    assert path == tmp_path / "run" / "net.ckp"
    after = make(engine)
    steps(after, 0, 2)  # whatever it did before is forgotten
    assert after.restore(path) == {"mine": [1, 2]}
    assert after.samples == before.samples
    steps(after, at, 5)
    found, expected = after.read_totals()["ce"], straight.read_totals()["ce"]
    assert (found.total, found.samples) == (pytest.approx(expected.total, rel=1e-12), expected.samples)
    after.end_epoch()
    for made in (straight, after):
        steps(made, 0, 1)
    assert_same(values(after.model.network), values(straight.model.network))


CHILD = """
import sys
from pathlib import Path
sys.path[:0] = {path!r}
from tests.trainer.test_checkpoints import make, steps, values
made = make()
made.restore({checkpoint!r})
steps(made, 3, 5)
made.save({after!r})
"""


@pytest.mark.slow
def test_going_on_in_another_process(tmp_path):
    made = steps(make(), 0, 3)
    made.save(tmp_path / "net")
    paths = [str(Path(__file__).resolve().parents[2])]
    code = CHILD.format(path=paths, checkpoint=str(tmp_path / "net"), after=str(tmp_path / "after"))
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
    steps(made, 3, 5).save(tmp_path / "straight")
    found, expected = (load_checkpoint(tmp_path / f"{name}.ckp") for name in ("after", "straight"))
    assert found.progress == expected.progress
    assert {name: array.tobytes() for name, array in found.arrays.items()} == {
        name: array.tobytes() for name, array in expected.arrays.items()
    }


def test_a_new_checkpoint_takes_the_place_of_the_one_before(tmp_path):
    made = steps(make(), 0, 1)
    made.save(tmp_path / "net")
    (first,) = (tmp_path / "net.checkpoints").iterdir()
    steps(made, 1, 2).save(tmp_path / "net.ckp")
    (second,) = (tmp_path / "net.checkpoints").iterdir()
    assert first != second
    assert load_checkpoint(tmp_path / "net.ckp").progress.steps == 2


def test_the_totals_are_saved(tmp_path):
    made = steps(make(), 0, 3)
    made.read_totals()
    steps(made, 3, 4)
    made.save(tmp_path / "net")
    after = make()
    after.restore(tmp_path / "net")
    totals = after.read_totals()
    assert totals == made.read_totals()
    assert totals["ce"].samples == 8


def test_from_a_recipe_to_a_trainer(tmp_path):
    """Three epochs of a recipe and two of a trainer are five of a trainer."""
    make_session(tmp_path).run()
    network, whole = make_network(), make_network()
    made = trainer(network)
    made.restore(tmp_path / "net.dnn.ckp")
    assert made.epoch == 3
    train(trainer(whole), epochs=4)
    for one in minibatches(3):
        made.train_minibatch(one)
    assert_same(values(network), values(whole))


def test_the_model_is_written(tmp_path):
    made = train(trainer(make_network()), epochs=1)
    made.save_model(tmp_path / "net.dnn")
    found = load_model(tmp_path / "net.dnn", TABLE.find)
    assert_same(values(found), values(made.model.network))


def test_other_learners_are_refused(tmp_path):
    path = trainer(make_network()).save(tmp_path / "net")
    made = make()
    before = values(made.model.network)
    with pytest.raises(CheckpointError) as caught:
        made.restore(path)
    assert caught.value.message == f"the checkpoint '{path}' is of the learners SGD; here they are Adam, FSAdaGrad"
    assert_same(values(made.model.network), before)


def test_damage_is_noticed(tmp_path):
    path = steps(make(), 0, 1).save(tmp_path / "net")
    (generation,) = (tmp_path / "net.checkpoints").iterdir()
    arrays = generation / "arrays.safetensors"
    data = bytearray(arrays.read_bytes())
    data[-1] ^= 1
    arrays.write_bytes(bytes(data))
    with pytest.raises(CheckpointError, match=r"is damaged: the SHA-256 of 'arrays\.safetensors' does not match$"):
        make().restore(path)
    shutil.rmtree(generation)
    with pytest.raises(CheckpointError, match=r"is damaged: its generation is missing$"):
        make().restore(path)
    with pytest.raises(CheckpointError, match=r"cannot be read: No such file or directory$"):
        make().restore(tmp_path / "other")


def test_what_cannot_be_saved(tmp_path):
    made = steps(make(), 0, 1)
    with pytest.raises(
        TrainingError, match="cannot be saved: Object of type object is not JSON serializable"
    ) as caught:
        made.save(tmp_path / "net", external=object())
    assert caught.value.hint == "What was there before is untouched."
    (tmp_path / "file").write_text("")
    with pytest.raises(TrainingError, match="cannot be saved: "):
        made.save(tmp_path / "file" / "net")
    assert not (tmp_path / "net.ckp").exists()


def test_an_engine_that_cannot_tell_its_state(tmp_path):
    made = steps(make(ReferenceEngine), 0, 1)
    made._stepper.program.state = lambda: None
    with pytest.raises(TrainingError) as caught:
        made.save(tmp_path / "net")
    assert caught.value.message == "this engine cannot be saved inside an epoch"
    made.end_epoch()
    assert made.save(tmp_path / "net").is_file()
    assert np.isfinite(values(made.model.network)["W0"]).all()
