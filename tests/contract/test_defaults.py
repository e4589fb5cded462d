"""What components are that override nothing, and what contexts give where nothing was said."""

from __future__ import annotations

import pytest

from cntk_core.contract.builder import BuildContext, Document, NetworkBuilder, SeedNumbers, installed_initializer
from cntk_core.contract.engine import no_gradients
from cntk_core.contract.initializer import InitializerSettings
from cntk_core.errors import BuildError, Location, UnsupportedError
from cntk_core.network.network import Network
from cntk_core.training.loop.alone import OneRank

WHERE = Location("r.cntk", 3, 5)


class Builder(NetworkBuilder):
    """Builds an empty network."""

    requires_api = "1.0"

    def build(self, block, context):
        return Network()


def context() -> BuildContext:
    return BuildContext(lambda language, name: None, lambda language: [])


def test_a_context_gives_and_takes_no_models():
    made = context()
    with pytest.raises(BuildError) as caught:
        made.load_model("m.dnn", WHERE)
    assert str(caught.value) == "r.cntk:3:5: the model 'm.dnn' cannot be loaded here: this context gives no models"
    with pytest.raises(BuildError) as caught:
        made.save_model(Network(), "m.dnn", WHERE)
    assert str(caught.value) == "r.cntk:3:5: the model 'm.dnn' cannot be saved here: this context takes no models"


def test_numbers_of_random_parameters_count_on_for_each_kind():
    numbers = SeedNumbers()
    assert [numbers.take(kind) for kind in ("ndl", "ndl", "brainscript", "ndl")] == [1, 2, 1, 3]


def test_a_word_that_is_no_initializer():
    with pytest.raises(BuildError) as caught:
        installed_initializer("unifrom", InitializerSettings(where=WHERE))
    first, _, hint = str(caught.value).partition("\n")
    assert first == "r.cntk:3:5: there is no initializer 'unifrom'; did you mean 'uniform'?"
    assert hint.startswith("    Initializers: ")
    assert "uniform, " in hint


def test_a_builder_checks_nothing_and_reads_no_recipes():
    builder = Builder()
    builder.check(None, context())
    for files, where in (((), ""), ((("r.cntk", WHERE),), "r.cntk:3:5: ")):
        with pytest.raises(UnsupportedError) as caught:
            builder.read_recipe(Document(files), context())
        assert str(caught.value) == f"{where}Builder reads no whole recipes"


def test_programs_and_communicators_that_offer_less():
    class Program:
        pass

    assert no_gradients(Program()).message == "Program computes the gradients of training alone"
    with pytest.raises(UnsupportedError, match=r"^the communicator OneRank simulates nothing$"):
        OneRank.simulation(None)
