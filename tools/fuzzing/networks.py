"""Whole trainings: recipes whose networks come out of a grammar, on the CPU engine and on the reference engine.

An input is a recipe and, behind a line of dashes, its data. Both engines compute in double precision; they have to end
alike, and where they train, with the same figures. That an input got as far is counted: see :data:`TRAINED`.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import warnings
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

from cntk_core.api import DataError
from cntk_kit_recipes.cli import main
from fuzzing.engine import Finding
from fuzzing.files import folder
from fuzzing.grammar import Writer

_CUT = b"\n-----\n"
_REFERENCE = str(Path(__file__).with_name("reference_engine.py"))
_CLOSE = 1e-4
"""Relative difference of figures: ties and kinks apart, both engines compute the same."""
_DEFECT = re.compile("defect of the program|Traceback|[A-Za-z]Warning: ")
"""What no log may have; a line that begins with ``Warning:`` is our own, as of a training that has diverged."""
_MISTAKES = (
    (r"\(\d", "(0"), (r"\{\d", "{7"), ("n[0-9]+", "n1"), ("Plus", "Times"), ("Tanh", "Tahn"), (r"\)", ""), ("=", ""),
    ("dim = [0-9]", "dim = 6"), ("timeStep=1", "timeStep=0"), (r"\{", "{-"), ("Sigmoid", "ClassificationError"),
    ("maxEpochs = [0-9]", "maxEpochs = -1"), ("minibatchSize = [0-9]+", "minibatchSize = 0"), (r"\d\n", "1e999\n"),
)  # fmt: skip
SECONDS = 60.0
TRAINED = [0, 0]
"""How many of how many inputs have reached training."""


def make(pick: random.Random) -> bytes:
    features, classes = pick.choice((1, 2, 4)), pick.choice((2, 3))
    sequences = pick.random() < 0.5
    kind = pick.choice(("brainscript", "brainscript", "ndl", "ndl", "simple"))
    text = _recipe(pick, kind, features, classes, sequences)
    if pick.random() < 0.2:
        old, new = pick.choice(_MISTAKES)
        places = list(re.finditer(old, text))
        if places:
            place = pick.choice(places)
            text = text[: place.start()] + new + text[place.end() :]
    return text.encode() + _CUT + _data(pick, features, classes, sequences).encode()


def _recipe(pick: random.Random, kind: str, features: int, classes: int, sequences: bool) -> str:
    network = (
        _simple(pick, features, classes) if kind == "simple" else _written(pick, kind, features, classes, sequences)
    )
    rate = pick.choice(("0.01", "0.1", "0.5", "0.01", "0.001:0.1", "1e-7", "3"))
    return f"""command = Train ; modelPath = "m/net" ; precision = double
Train = [
    action = train
    {network}
    SGD = [
        minibatchSize = {pick.choice((1, 2, 7, 64))} ; maxEpochs = {pick.choice((1, 1, 2))}
        {pick.choice(("learningRatesPerSample", "learningRatesPerMB"))} = {rate}
        {pick.choice(("", "momentumPerMB = 0.9", "L2RegWeight = 0.01", "gradUpdateType = adagrad", "dropoutRate = 0"))}
        {pick.choice(("", "epochSize = 64", "clippingThresholdPerSample = 1", "gradUpdateType = rmsProp"))}
    ]
    reader = [
        readerType = CNTKTextFormatReader ; file = "d.ctf" ; randomize = {pick.choice(("none", "auto"))}
        input = [ features = [ dim = {features} ; format = dense ] ; labels = [ dim = {classes} ; format = sparse ] ]
    ]
]
"""


def _simple(pick: random.Random, features: int, classes: int) -> str:
    hidden = "".join(f":{pick.choice((1, 3, '2*2'))}" for _ in range(pick.randrange(3)))
    types = ":".join(pick.choice(("Sigmoid", "Tanh", "RectifiedLinear", "None")) for _ in range(pick.choice((1, 2))))
    return f"""SimpleNetworkBuilder = [
        layerSizes = {features}{hidden}:{classes} ; layerTypes = {types}
        trainingCriterion = {pick.choice(("CrossEntropyWithSoftmax", "SquareError"))}
        evalCriterion = {pick.choice(("ClassificationError", "SquareError"))}
        applyMeanVarNorm = {pick.choice(("true", "false"))} ; needPrior = {pick.choice(("true", "false"))}
    ]"""


def _written(pick: random.Random, kind: str, features: int, classes: int, sequences: bool) -> str:
    brainscript = kind == "brainscript"
    writer = Writer(pick, brainscript=brainscript, sequences=sequences)
    writer.input("features", features)
    writer.input("labels", classes, label=True)
    out = writer.of_dim(writer.vector(pick.choice((1, 2, 3, 4))), classes)
    loss = pick.choice(("CrossEntropyWithSoftmax", "SquareError"))
    lines = [*writer.lines, f"ce = {loss} (labels, {out.name})", f"err = ClassificationError (labels, {out.name})"]
    if brainscript:
        roots = "featureNodes = (features) ; labelNodes = (labels) ; criterionNodes = (ce) ; evaluationNodes = (err)"
        body = "\n        ".join([*lines, f"{roots} ; outputNodes = ({out.name})"])
        return f"BrainScriptNetworkBuilder = [\n        {body}\n    ]"
    sections = ["FeatureNodes=(features)", "LabelNodes=(labels)", "CriterionNodes=(ce)", "EvalNodes=(err)"]
    body = "\n            ".join([*lines, *sections, f"OutputNodes=({out.name})"])
    return f"NDLNetworkBuilder = [\n        run = net\n        net = [\n            {body}\n        ]\n    ]"


def _data(pick: random.Random, features: int, classes: int, sequences: bool) -> str:
    lines = []
    for number in range(pick.choice((3, 8))):
        for _ in range(pick.choice((1, 2, 4)) if sequences else 1):
            values = " ".join(f"{pick.uniform(-2, 2):.3f}" for _ in range(features))
            lines.append(f"{f'{number} ' if sequences else ''}|features {values} |labels {pick.randrange(classes)}:1\n")
    return "".join(lines)


def check(data: bytes) -> None:
    recipe, _, rows = data.partition(_CUT)
    found = [_run(recipe, rows, engine) for engine in ("cpu", "reference")]
    TRAINED[1] += 1
    for status, text, _ in found:
        wrong = next((line for line in text.splitlines() if _DEFECT.search(line)), None)
        if wrong is not None:
            raise Finding(f"defect text: {wrong}\n{text[-3000:]}")
        if status not in (0, 1, 2):
            raise Finding(f"exit status: {status}\n{text[-3000:]}")
    (status, text, figures), (other, other_text, others) = found
    TRAINED[0] += bool(figures)
    if status != other:
        raise Finding(f"engines end otherwise: {status} and {other}\n{text[-1500:]}\n{other_text[-1500:]}")
    if len(figures) != len(others) or not all(map(_close, figures, others)):
        raise Finding(f"engines differ: {figures}\n    {others}")
    if status:
        raise DataError("refused")


def _close(one: float, other: float) -> bool:
    return abs(one - other) <= _CLOSE * max(abs(one), abs(other), 1e-3) or not (abs(one) < 1e6 and abs(other) < 1e6)


def _run(recipe: bytes, rows: bytes, engine: str) -> tuple[int, str, list[float]]:
    """Return the exit status, what the run said, and the figures of its epochs."""
    place = folder() / "run"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    (place / "r.cntk").write_bytes(recipe)
    (place / "d.ctf").write_bytes(rows)
    before = Path.cwd()
    os.chdir(place)
    told = StringIO()
    arguments = ["configFile=r.cntk", f"engine={engine}", "Train=[cpuKernels=numpy]", "--plugin", _REFERENCE]
    try:
        with redirect_stdout(told), redirect_stderr(told), warnings.catch_warnings():
            if engine == "reference":  # it computes with NumPy as it is, and nobody uses it but tests
                warnings.simplefilter("ignore", RuntimeWarning)
            status = main(arguments)
    finally:
        os.chdir(before)
    text = told.getvalue()
    epochs = re.findall(r"Finished Epoch.*?\[Training\](.*?)totalSamplesSeen", text)
    return status, text, [float(x) for line in epochs for x in re.findall(r"= ([-+.\deE]+)", line)]


def summary() -> str:
    """Return how many inputs have reached training."""
    trained, tried = TRAINED
    return f"{trained} of {tried} trained ({100 * trained / max(tried, 1):.0f} %)"
