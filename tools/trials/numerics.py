"""Rates and inputs without measure: each run ends well, or says what is wrong and what may help.

``python tools/trials numerics``
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import attrs
import faulty
import kills
from figures import Figure, add_option, record

WELL = "__COMPLETED__"
DIVERGED = "Warning: training has diverged in epoch "
TOO_LOW = "is less than minLearningRatePerSample"
UNCHANGED = "has changed no parameter"
NOT_A_NUMBER = "is not a number"
_DATA = """\
|features {0} 0.25 |labels 0:1
|features 0.5 {0} |labels 1:1
|features -0.5 0.75 |labels 1:1
|features 0.125 -0.5 |labels 0:1
"""
_RECIPE = """
command = Train
precision = {precision}
deviceId = cpu
traceLevel = 1
modelPath = "net.dnn"
Train = [
    action = train
    SimpleNetworkBuilder = [
        layerSizes = 2:8:2 ; trainingCriterion = {criterion} ; layerTypes = {layers} ; initValueScale = {scale}
    ]
    SGD = [ maxEpochs=3 ; minibatchSize=2 ; learningRatesPerSample={rate} ; {sgd} ]
    reader = [ file="data.ctf" ; input=[ features=[ dim=2 ; format=dense ] ; labels=[ dim=2 ; format=sparse ] ] ]
]
"""


@attrs.frozen
class Case:
    """A training.

    Attributes:
        says: one of these words stands in its log.
        rate, sgd, criterion, layers, scale, precision: of its recipe.
        value: an input.
    """

    says: tuple[str, ...]
    rate: str = "0.1"
    value: str = "1"
    sgd: str = ""
    criterion: str = "CrossEntropyWithSoftmax"
    layers: str = "Sigmoid"
    scale: str = "1.0"
    precision: str = "float"


_LARGE = (DIVERGED, NOT_A_NUMBER)
CASES = {
    "rate 0": Case((TOO_LOW,), rate="0"),
    "rate 0, allowed": Case((UNCHANGED,), rate="0", sgd="minLearningRatePerSample=0"),
    "rate 1e-30": Case((TOO_LOW,), rate="1e-30"),
    "rate 1e-45, allowed": Case((UNCHANGED,), rate="1e-45", sgd="minLearningRatePerSample=0"),
    "rate 1e3": Case((WELL,), rate="1e3"),
    "rate 1e30": Case(_LARGE, rate="1e30"),
    "rate 1e30, double": Case(_LARGE, rate="1e30", precision="double"),
    "rate 1e38": Case(_LARGE, rate="1e38"),
    "rate 1e300": Case(_LARGE, rate="1e300"),
    "rate 1e400": Case((*_LARGE, "EXCEPTION occurred: "), rate="1e400"),
    "rate inf": Case(("EXCEPTION occurred: ",), rate="inf"),
    "rate nan": Case(("EXCEPTION occurred: ",), rate="nan"),
    "rate -1": Case(("EXCEPTION occurred: ", WELL), rate="-1"),
    "rate 1e30, adam": Case(_LARGE, rate="1e30", sgd="gradUpdateType=adam"),
    "rate 1e30, clipped": Case((*_LARGE, WELL), rate="1e30", sgd="clippingThresholdPerSample=1"),
    "square error, rate 1e20": Case(_LARGE, rate="1e20", criterion="SquareError", layers="RectifiedLinear"),
    "inputs 1e30": Case((WELL, *_LARGE), value="1e30"),
    "inputs 1e38, RectifiedLinear": Case((WELL, *_LARGE), value="1e38", layers="RectifiedLinear"),
    "inputs 1e-45": Case((WELL,), value="1e-45"),
    "inputs 1e39": Case(("EXCEPTION occurred: ", *_LARGE), value="1e39"),
    "inputs nan": Case(("EXCEPTION occurred: ", *_LARGE), value="nan"),
    "inputs -inf": Case(("EXCEPTION occurred: ", *_LARGE), value="-inf"),
    "saturated": Case((WELL,), scale="1e6", layers="Sigmoid"),
    "saturated, RectifiedLinear 1e20": Case((WELL, *_LARGE), scale="1e20", layers="RectifiedLinear"),
    "momentum 0.999999999": Case((WELL,), sgd="momentumPerMB=0.999999999"),
    "L2 1e30": Case(_LARGE, sgd="L2RegWeight=1e30"),
    "noise 1e30": Case(_LARGE, sgd="gaussianNoiseInjectStd=1e30"),
}


def run(folder: Path, case: Case) -> None:
    """Train, and see how it ends.

    Raises:
        RuntimeError: not as it must.
    """
    folder.mkdir()
    shown = {field.name: getattr(case, field.name) for field in attrs.fields(Case)}
    (folder / "r.cntk").write_text(_RECIPE.format(**shown), encoding="utf-8")
    (folder / "data.ctf").write_text(_DATA.format(case.value), encoding="utf-8")
    log = folder / "log.txt"
    status = kills.wait(kills.begin(folder, log), faulty.ENOUGH)
    faulty.check_said(status, log)
    said = log.read_text(encoding="utf-8")
    if not any(words in said for words in case.says):
        raise RuntimeError(f"it ended with {status} and did not say '{' or '.join(case.says)}':\n{said[-1200:]}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--case", choices=["all", *CASES], default="all")
    add_option(parser)
    options = parser.parse_args(arguments)
    kills.load(("sizes",))
    begun, failed = time.monotonic(), 0
    names = list(CASES) if options.case == "all" else [options.case]
    with tempfile.TemporaryDirectory(prefix="trials-", dir=kills.in_memory()) as temporary:
        for number, name in enumerate(names):
            try:
                run(Path(temporary) / str(number), CASES[name])
            except RuntimeError as error:
                failed += 1
                print(f"{name}: {error}", flush=True)
    print(f"{len(names)} trainings, {failed} failures")
    seen = "each ended well, or said what is wrong"
    record(options.record, Figure("numerics", len(names), failed, seen, time.monotonic() - begun))
    return 1 if failed else 0
