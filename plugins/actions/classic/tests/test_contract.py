"""The actions and the verb keep their contracts; the recipe of the README is run and resumed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from cntk_action_classic.adapt import AdaptAction
from cntk_action_classic.bnstat import BatchNormalizationStatisticsAction
from cntk_action_classic.cv import CrossValidationAction
from cntk_action_classic.devtest import DevtestAction
from cntk_action_classic.dump_nodes import DumpNodesAction
from cntk_action_classic.edit import EditAction
from cntk_action_classic.fail_action import FailAction
from cntk_action_classic.label_map import LabelMapAction
from cntk_action_classic.plot import PlotAction
from cntk_action_classic.print_action import PrintAction
from cntk_action_classic.svd import SvdAction
from cntk_action_classic.verb import Edit
from cntk_action_classic.word_class import WordClassAction

from cntk_kit_recipes.cli import main
from cntk_testing import README, ActionContract, PackagingContract, RecipeContract, VerbContract
from cntk_testing.recipes import inside, write_samples

READER = """
reader = [
    readerType = CNTKTextFormatReader
    file = "samples.txt"
    input = [ features = [ dim = 2 ; format = dense ] ; labels = [ dim = 3 ; format = dense ] ]
]
"""
NETWORK = """
BrainScriptNetworkBuilder = [
    features = Input {2}
    labels = Input {3}
    W = Parameter {3, 2, init = "fixedValue", value = 0.5}
    n = BatchNormalizationLayer {} (features)
    z = W * n
    p = Softmax (z)
    ce = CrossEntropyWithSoftmax (labels, z)
    criterionNodes = (ce)
    outputNodes = (p)
]
"""
TRAIN = f"""command = Train
Train = [
    action = train
    modelPath = "net.dnn"
    {NETWORK}{READER}
    SGD = [ maxEpochs = 1 ; minibatchSize = 16 ; learningRatesPerSample = 0.01 ]
]
"""
SGD = "SGD = [ maxEpochs = 1 ; minibatchSize = 16 ; learningRatesPerSample = 0.01 ]"


class OnAModel(ActionContract):
    """What the actions on a trained model need."""

    __test__ = False

    def prepare(self, folder: Path) -> None:
        write_samples(folder / "samples.txt")
        (folder / "train.cntk").write_text(TRAIN, encoding="utf-8")
        with inside(folder):
            assert main(["train", "train.cntk"]) == 0


class TestAdapt(OnAModel):
    __test__ = True
    action_class = AdaptAction
    recipe = (
        f'command = A\nA = [ action = "contract" ; modelPath = new.dnn ; origModelFileName = net.dnn\n{READER}\n'
        f"{SGD} ]\n"
    )
    broken_recipe = f'command = A\nA = [ action = "contract" ; modelPath = new.dnn\n{READER}\n{SGD} ]\n'

    def verify(self, folder: Path, log: str) -> None:
        assert (folder / "new.dnn").read_bytes() != (folder / "net.dnn").read_bytes()


class TestStatistics(OnAModel):
    __test__ = True
    action_class = BatchNormalizationStatisticsAction
    recipe = f'command = A\nA = [ action = "contract" ; modelPath = net.dnn ; itersPerNode = 2\n{READER} ]\n'
    broken_recipe = f'command = A\nA = [ action = "contract" ; modelPath = net.dnn ; itersPerNode = 0\n{READER} ]\n'

    def verify(self, folder: Path, log: str) -> None:
        assert (folder / "net.dnn.PBN").read_bytes() != (folder / "net.dnn").read_bytes()


class TestCrossValidation(OnAModel):
    __test__ = True
    action_class = CrossValidationAction
    recipe = (
        f'command = A\nA = [ action = "contract" ; modelPath = net.dnn ; crossValidationInterval = 1:1:1\n{READER} ]\n'
    )
    broken_recipe = f'command = A\nA = [ action = "contract" ; modelPath = net.dnn\n{READER} ]\n'

    def verify(self, folder: Path, log: str) -> None:
        assert "ce = " in log


class TestDevtest(ActionContract):
    action_class = DevtestAction
    recipe = 'command = A\nA = [ action = "contract" ]\n'

    def verify(self, folder: Path, log: str) -> None:
        assert "does nothing here" in log


class TestDumpNodes(OnAModel):
    __test__ = True
    action_class = DumpNodesAction
    recipe = 'command = A\nA = [ action = "contract" ; modelPath = net.dnn ; outputFile = nodes.txt ]\n'
    broken_recipe = (
        'command = A\nA = [ action = "contract" ; modelPath = net.dnn ; printValues = false ; printMetadata = false ]\n'
    )

    def verify(self, folder: Path, log: str) -> None:
        assert "W=LearnableParameter" in (folder / "nodes.txt").read_text(encoding="utf-8").replace(" ", "")


class TestEdit(OnAModel):
    __test__ = True
    action_class = EditAction
    recipe = (
        'command = A\nA = [ action = "contract" ; editPath = e.mel ; outputModelPath = edited.dnn\nmakeMode = false ]\n'
    )
    broken_recipe = 'command = A\nA = [ action = "contract" ; outputModelPath = edited.dnn ]\n'

    def prepare(self, folder: Path) -> None:
        super().prepare(folder)
        (folder / "e.mel").write_text('m = LoadModel("net.dnn")\nRename(m.p, m.q)\nSaveModel(m, "edited.dnn")\n')

    def verify(self, folder: Path, log: str) -> None:
        assert (folder / "edited.dnn").is_file()


class TestFailAction(ActionContract):
    """It ends each run, so that its recipe only fits as a broken one."""

    action_class = FailAction
    recipe = 'command = A\nA = [ action = "PrintAction" ; what = "not that one" ]\n'
    broken_recipe = 'command = A\nA = [ action = "contract" ; what = "it fails" ]\n'


class TestLabelMap(ActionContract):
    action_class = LabelMapAction
    recipe = """command = A
A = [ action = "contract" ; section = Train ]
Train = [
    reader = [
        readerType = UCIFastReader
        file = "t.txt"
        features = [ dim = 2 ; start = 1 ]
        labels = [ start = 0 ; dim = 1 ; labelDim = 3 ; labelType = Category ; labelMappingFile = "map.txt" ]
    ]
]
"""
    broken_recipe = 'command = A\nA = [ action = "contract" ; section = Nowhere ]\n'

    def prepare(self, folder: Path) -> None:
        (folder / "t.txt").write_text("red 1 2\nblue 3 4\nred 5 6\n", encoding="utf-8")

    def verify(self, folder: Path, log: str) -> None:
        assert (folder / "map.txt").read_text(encoding="utf-8").split() == ["red", "blue"]


class TestPlot(OnAModel):
    __test__ = True
    action_class = PlotAction
    recipe = 'command = A\nA = [ action = "contract" ; modelPath = net.dnn ; outputFile = net.svg ]\n'
    broken_recipe = 'command = A\nA = [ action = "contract" ; modelPath = net.dnn ; outputFile = net.png ]\n'

    def verify(self, folder: Path, log: str) -> None:
        assert "</svg>" in (folder / "net.svg").read_text(encoding="utf-8")


class TestPrintAction(ActionContract):
    action_class = PrintAction
    recipe = 'command = A\nA = [ action = "contract" ; what = "hello there" ]\n'

    def verify(self, folder: Path, log: str) -> None:
        assert "\nhello there\n" in log


class TestSvd(OnAModel):
    __test__ = True
    action_class = SvdAction
    recipe = (
        'command = A\nA = [ action = "contract" ; modelPath = net.dnn ; outputmodelPath = small.dnn\n'
        'NodeNameRegex = "W" ; KeepRatio = 0.5 ; AlignedSize = 1 ]\n'
    )
    broken_recipe = 'command = A\nA = [ action = "contract" ; modelPath = net.dnn ]\n'

    def verify(self, folder: Path, log: str) -> None:
        assert (folder / "small.dnn").read_bytes() != (folder / "net.dnn").read_bytes()


class TestWordClass(ActionContract):
    action_class = WordClassAction
    recipe = """command = A
A = [
    action = "contract" ; inputFile = t.txt ; outputVocabFile = v.txt ; outputWord2Cls = w.txt
    outputCls2Index = c.txt ; vocabSize = 4 ; nbrClass = 2 ; cutoff = 0
]
"""
    broken_recipe = 'command = A\nA = [ action = "contract" ; inputFile = t.txt ; outputVocabFile = v.txt ]\n'

    def prepare(self, folder: Path) -> None:
        (folder / "t.txt").write_text("a a a a b b\n  a b c  \n\nc\ta  d\n", encoding="utf-8")

    def verify(self, folder: Path, log: str) -> None:
        np.testing.assert_array_equal(np.loadtxt(folder / "w.txt"), [0, 1, 1, 1])


class TestEditVerb(VerbContract):
    verb_class = Edit
    command_lines = (("net.dnn", "-o", "edited.dnn", "-s", "e.mel"),)

    def prepare(self, folder: Path) -> None:
        OnAModel.prepare(OnAModel(), folder)
        (folder / "e.mel").write_text("Rename(p, q)\n", encoding="utf-8")


class TestReadme(RecipeContract):
    recipe = README


class TestPackaging(PackagingContract):
    distribution = "cntk-action-classic"
    kind = "action"
