"""Plugin files of strangers say when they are meant: builders, a default reader, ranks of another launcher."""

from __future__ import annotations

from pathlib import Path

import pytest

from cntk_core.errors import BrokenPluginError, PluginError
from cntk_core.plugins.known import known
from cntk_core.plugins.manager import PluginManager
from cntk_core.plugins.precedence import Rank
from cntk_kit_recipes.cli import main
from cntk_kit_recipes.recipe import ranks
from cntk_kit_recipes.recipe.descriptions import languages, network_words, own_name
from cntk_kit_recipes.recipe.rank_variables import GROUP, RankVariables, all_rank_variables, take_from

BUILDER = '''
from cntk_core.api import Config, ConfigError, Input, Network, NetworkBuilder, Node, Parameter
from cntk_core.api.builders import FixedValue

class Arrow(NetworkBuilder):
    """Networks of one layer: { 2 -> 3 }, a language of its own."""

    requires_api = "1.0"
    PRIORITY
    recipe_suffixes = (".arrow",)

    def build(self, block, context):
        sizes = block.raw.text.strip("{} ").split("->")
        if len(sizes) != 2:
            raise ConfigError("an arrow is missing", where=block.where)
        fan_in, fan_out = map(int, sizes)
        network = Network(context.dtype)

        def node(name, op, *inputs):
            op = context.find_op("", op)
            return network.add(Node(name, op, list(inputs), op.attributes(), block.where))

        x = network.add(Input.make("features", (fan_in,)))
        y = network.add(Input.make("labels", (fan_out,)))
        z = node("z", "Times", network.add(Parameter.make("W", (fan_in, fan_out), FixedValue(0.5))), x)
        for one, role in ((x, "feature"), (y, "label"), (z, "output")):
            network.mark(one, role)
        network.mark(node("ce", "CrossEntropyWithSoftmax", y, z), "criterion")
        return network

    def read_recipe(self, document, context):
        raise ConfigError(f"read by Arrow: {document.files[0][0]}")
'''
READER = """
import numpy as np
from cntk_core.api import StreamInfo, options
from cntk_core.api.readers import Chunk, ChunkedReader, ChunkInfo, ChunkSource, Column, Window

class Two(ChunkSource):
    def __init__(self, dtype):
        self.x = np.eye(2, dtype=dtype)

    def index(self):
        return [ChunkInfo(2, 2)]

    def load(self, chunk):
        return Chunk({"features": Column(self.x), "labels": Column(self.x)})

    def close(self):
        pass

@options
class TwoOptions:
    pass

class TwoRows(ChunkedReader):
    options, requires_api, words = TwoOptions, "1.0", ("default", "two")

    def __init__(self, options, context):
        streams = (StreamInfo("features", (2,)), StreamInfo("labels", (2,)))
        super().__init__(options, context, source=Two(context.dtype), streams=streams, window=Window())
"""
COMMUNICATOR = """
import os, subprocess, sys
from cntk_core.api.parallel import Launcher, Mesh, MeshCommunicator, Rendezvous

START = '''
import os, subprocess, sys
runs = [subprocess.Popen(sys.argv[1:], env={**os.environ, "MY_RANK": str(rank), "MY_SIZE": "2"}) for rank in range(2)]
sys.exit(max([run.wait() for run in runs]))
'''

class Pigeons(MeshCommunicator):
    requires_api, priority, rank_variables = "1.0", 99, ("MY_RANK.MY_SIZE",)

    def __init__(self, mesh=None, members=None, channel=0):
        rank, size = int(os.environ["MY_RANK"]), int(os.environ["MY_SIZE"])
        port = int(os.environ["MY_PORT"])
        super().__init__(mesh or Mesh(Rendezvous(rank, size, "127.0.0.1", port, b"s")), members, channel)
        print("PIGEONS", rank, "of", size, flush=True)

    @classmethod
    def launcher(cls, ranks, *, elastic=False):
        return Launcher((sys.executable, "-c", START), {}, "pigeons")
"""
RECIPE = """\
command = Train
precision = double
modelPath = "m/net.dnn"
Train = [
    action = train
    NETWORK
    SGD = [ maxEpochs = 1 ; minibatchSize = 2 ; learningRatesPerSample = 0.1 ]
    reader = [ OF ]
]
"""
TEXT = "file = x.ctf ; input = [ features = [ dim = 2 ; format = dense ] ; labels = [ dim = 2 ; format = dense ] ]"
SIMPLE = "SimpleNetworkBuilder = [ layerSizes = 2:2 ; trainingCriterion = CrossEntropyWithSoftmax ]"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for each in all_rank_variables():
        monkeypatch.delenv(each.rank, raising=False)
    Path("x.ctf").write_text("|features 1 0 |labels 1 0\n|features 0 1 |labels 0 1\n", encoding="utf-8")
    Path("p.py").write_text(BUILDER.replace("PRIORITY", ""), encoding="utf-8")
    yield tmp_path
    take_from(None)


def write(network="Arrow = { 2 -> 2 }", reader=TEXT, more=""):
    text = RECIPE.replace("NETWORK", network).replace("OF", reader) + more
    Path("r.cntk").write_text(text, encoding="utf-8")


@pytest.fixture
def trained(capfd):
    """Train, and return what the log says."""

    def run(plugin="p.py"):
        assert main(["configFile=r.cntk", "--plugin", plugin, "makeMode=false"]) == 0
        return capfd.readouterr().err

    return run


def test_a_builder_of_a_language_of_its_own(trained):
    write()
    said = trained()
    assert "p.py (builder Arrow)" in said
    assert "Training 4 parameters in 1 parameter tensors." in said
    assert "Finished Epoch[ 1 of 1]" in said


def test_its_block_is_no_section(capfd):
    """An action is looked for in all sections; text of another language is none, whatever it looks like."""
    write(more="Arrow = [ action = test ; modelPath = nowhere ]\n")
    plugins = PluginManager(["p.py"])
    assert languages(plugins.registry, ["command", "ARROW", "SimpleNetworkBuilder", "NDLNetworkBuilder"]) == {
        "arrow",
        "ndlnetworkbuilder",
    }
    assert main(["test", "r.cntk", "--plugin", "p.py"]) == 1
    assert "no command of the recipe has the action 'test'" in capfd.readouterr().err
    assert main(["config", "show", "r.cntk", "--plugin", "p.py"]) == 0
    assert "\nArrow = [ action = test ; modelPath = nowhere ]" in capfd.readouterr().out


def test_the_builder_with_the_highest_priority(trained):
    write(f"Arrow = {{ 2 -> 2 }}\n    {SIMPLE}")
    assert "builder SimpleNetworkBuilder" in trained()
    Path("first.py").write_text(BUILDER.replace("PRIORITY", "priority = 31"), encoding="utf-8")
    assert "builder Arrow" in trained("first.py")


def test_the_builders_of_this_project(monkeypatch, capfd):
    order = ["createNetwork", "SimpleNetworkBuilder", "NDLNetworkBuilder", "BrainScriptNetworkBuilder"]
    assert network_words(PluginManager(load_hooks=False).registry)[:4] == order
    # One that is not installed comes first: which network is trained does not depend on it.
    write(f"{SIMPLE}\n    NDLNetworkBuilder = [ run = net ]")
    monkeypatch.setenv("CNTK_PLUGINS", "-cntk-builder-ndl")
    assert main(["configFile=r.cntk"]) == 1
    assert "builder 'NDLNetworkBuilder' is switched off" in capfd.readouterr().err


def test_a_language_of_whole_recipes(capfd):
    Path("r.arrow").touch()
    assert main(["-f", "r.arrow", "--plugin", "p.py"]) == 1
    assert "read by Arrow: r.arrow" in capfd.readouterr().err
    Path("r.other").write_text("actions = none", encoding="utf-8")
    assert main(["-f", "r.other", "--plugin", "p.py"]) == 1
    assert "read by Arrow" not in capfd.readouterr().err


def test_no_language_of_whole_recipes(monkeypatch, capfd):
    Path("r.bs").touch()
    monkeypatch.setenv("CNTK_PLUGINS", "cntk-builder-ndl")
    assert main(["-f", "r.bs"]) == 1
    assert "no builder that could be taken is installed: install one of ours" in capfd.readouterr().err


def test_a_default_reader(capfd):
    Path("two.py").write_text(READER, encoding="utf-8")
    for reader in ("randomize = false", "readerType = two", "readerType = TwoRows"):
        write(SIMPLE, reader)
        assert main(["configFile=r.cntk", "--plugin", "two.py", "makeMode=false"]) == 0
    write(SIMPLE, "randomise = false")
    assert main(["configFile=r.cntk", "--plugin", "two.py", "makeMode=false"]) == 1
    assert "reader 'TwoRows' has no option 'randomise'" in capfd.readouterr().err


def test_the_default_reader_of_this_project():
    readers = PluginManager(load_hooks=False).registry.readers
    assert own_name(readers, "default") == "CNTKTextFormatReader"
    assert readers.get("cntk.deserializers.textformat") is readers.get("default")
    assert own_name(readers, "MNISTReader") == "MNISTReader"
    with pytest.raises(PluginError, match=r"no reader named 'default'\. It lives in cntk-reader-cntk-text"):
        own_name(PluginManager(discover=False).registry.readers, "default")


def of(registry=None):
    take_from(registry)
    return [each for each in all_rank_variables() if each.communicator not in ("mpi", "sockets")]


def test_variables_of_a_launcher(monkeypatch):
    Path("c.py").write_text(COMMUNICATOR, encoding="utf-8")
    own = RankVariables("MY_RANK", "MY_SIZE", "Pigeons", standing=Rank.COMMAND_LINE)
    assert of(PluginManager(["c.py"]).registry) == [own]
    assert all_rank_variables()[0] == own
    variables = {"MY_RANK": "1", "MY_SIZE": "2", "PMI_RANK": "0", "PMI_SIZE": "1"}
    launch = ranks.Launch(1, 2, "a launcher that sets MY_RANK and MY_SIZE", "Pigeons")
    assert ranks.detect(variables) == launch
    assert of() == []
    assert ranks.detect(variables).communicator == "mpi"


def test_a_rank_of_a_serial_recipe_that_is_not_the_first(monkeypatch):
    """That it is one is known by the plugin file alone."""
    Path("c.py").write_text(COMMUNICATOR, encoding="utf-8")
    write(SIMPLE)
    monkeypatch.setenv("MY_RANK", "1")
    monkeypatch.setenv("MY_SIZE", "2")
    assert main(["configFile=r.cntk", "parallelTrain=false", "--plugin", "c.py"]) == 0
    assert not Path("m").exists()


@pytest.mark.parametrize("text", ["MY_RANK", "MY_RANK.", ".MY_SIZE", "A.B.other", "A.B.fallback.C", ""])
def test_variables_that_are_none(text):
    Path("c.py").write_text(COMMUNICATOR.replace("MY_RANK.MY_SIZE", text), encoding="utf-8")
    with pytest.raises(BrokenPluginError) as caught:
        of(PluginManager(["c.py"]).registry)
    assert str(caught.value) == (
        f"the communicator 'Pigeons' has rank_variables with {text!r}\n"
        '    It is written "MY_RANK.MY_SIZE", with ".fallback" behind where other launchers count first.'
    )


def test_which_variables_count_first():
    found = [(each.rank, each.communicator) for each in all_rank_variables()]
    assert found == [
        ("OMPI_COMM_WORLD_RANK", "mpi"),
        ("PMI_RANK", "mpi"),
        ("MPI_LOCALRANKID", "mpi"),
        ("RANK", "sockets"),
        ("SLURM_PROCID", "mpi"),
        ("SLURM_PROCID", "sockets"),
    ]
    assert len(known(GROUP)) == len(found)


def test_the_variables_of_wheels_that_are_not_installed_are_known(monkeypatch):
    """Else each rank would train alone."""
    monkeypatch.setenv("CNTK_PLUGINS", "off")
    launch = ranks.detect({"PMI_RANK": "1", "PMI_SIZE": "2"})
    assert (launch.rank, launch.size, launch.communicator) == (1, 2, "mpi")
    with pytest.raises(PluginError, match=r"no communicator named 'mpi'\. It lives in cntk-parallel-mpi"):
        ranks.connect(launch, PluginManager().registry)


@pytest.mark.slow
def test_ranks_of_another_launcher(monkeypatch, capfd):
    """``cntk -n`` takes it because its communicator comes first; each rank is known by its variables."""
    from cntk_testing.ports import free_port

    Path("c.py").write_text(COMMUNICATOR, encoding="utf-8")
    monkeypatch.setenv("MY_PORT", str(free_port()))
    write(SIMPLE)
    assert main(["train", "r.cntk", "-n", "2", "--plugin", "c.py"]) == 0
    said = capfd.readouterr()
    assert sorted(line for line in said.out.splitlines() if "PIGEONS" in line) == [
        "PIGEONS 0 of 2",
        "rank 1: PIGEONS 1 of 2",
    ]
    assert Path("m/net.dnn").is_file()
