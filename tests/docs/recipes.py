"""Pieces of recipes and of networks, which have no name on a page: put into a recipe that is otherwise complete.

A reader reads all its data (``cntk check-data``). A network is built and planned (``cntk explain``). Anything else,
such as keys of ``SGD``, is added to a recipe for handwritten digits, which two ranks train.
"""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

from cntk_core.config import SourceText, parse_text
from cntk_kit_recipes.cli import main
from tests.docs.commands import train_on_threads

ACTION = 'command = Train\nmodelPath = "{model}"\nTrain = [ action = train ]\n'
LEARNING = "SGD = [ minibatchSize = 32 ; learningRatesPerSample = 0.01 ; momentumPerMB = 0.9 ]\n"
NETWORK = "SimpleNetworkBuilder = [ layerSizes = 64:8:10 ]\n"
READER = """\
reader = [
    readerType = CNTKTextFormatReader
    file = "train.ctf"
    input = [ features = [ dim = 64 ; format = dense ] ; labels = [ dim = 10 ; format = sparse ] ]
]
"""
SHORT = ["SGD=[maxEpochs=2;epochSize=128]", "cpuKernels=numpy"]


class PieceError(Exception):
    """A piece of a recipe does not work."""


def is_whole(text: str) -> bool:
    """Whether it is a recipe that could be run, and no piece of one."""
    return bool(_keys(text) & {"command", "train"})


def try_piece(text: str, line: int, folder: Path) -> None:
    """Complete a piece of a recipe and run it.

    Raises:
        PieceError: it fails.
        CntkError: it cannot be read.
    """
    keys = _keys(text)
    builds = any(key.endswith("networkbuilder") for key in keys)
    reads = bool(keys & {"reader", "deserializers"})
    parts = [ACTION.format(model=f"piece-{line}.dnn"), LEARNING]
    parts += [] if builds else [NETWORK]
    parts += [] if reads else [READER]
    if "deserializers" in keys:
        text = f"reader = [\n{text}\n]"
    base, piece = Path(f"base-{line}.cntk"), Path(f"piece-{line}.cntk")
    with contextlib.chdir(folder):
        base.write_text("".join(parts), encoding="utf-8")
        piece.write_text(text, encoding="utf-8")
        files = f"{base}+{piece}"
        if reads:
            _run(["check-data", files])
        if builds:
            _run(["explain", files])
        if not reads and not builds:
            _train(files)


def _keys(text: str) -> set[str]:
    return set(map(str.lower, parse_text(text).keys()))


def check_brainscript(text: str) -> None:
    """Read definitions, or an expression, of BrainScript.

    Raises:
        BuildError: what is wrong with the text.
    """
    from cntk_builder_brainscript.parser import parse

    parse(SourceText.of(text))


def _run(arguments: list[str]) -> None:
    output = io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        status = main(arguments)
    if status:
        raise PieceError(f"cntk {' '.join(arguments)}: exit status {status}\n{output.getvalue()}")


def _train(files: str) -> None:
    arguments = [f"configFile={files}", *SHORT]
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        train_on_threads(arguments, 2)
