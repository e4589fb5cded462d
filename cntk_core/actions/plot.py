"""The action plot: the network of a model as DOT text, and beside it as a picture that needs no other program."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

from cntk_core.config import Config
from cntk_core.errors import ConfigError, TrainingError
from cntk_core.network.dot import to_dot
from cntk_core.network.draw import to_svg
from cntk_core.network.files import write_file
from cntk_core.recipe.context import ActionContext

PICTURE = ".svg"
"""Suffix of the pictures that we draw ourselves."""


def check(context: ActionContext, section: Config) -> None:
    """Raise what is wrong with the section before anything runs."""
    section.require("modelPath")
    target = section.string("outputFile", "")
    if target and not section.string("renderCmd", "") and Path(target).suffix.lower() != PICTURE:
        raise ConfigError(
            "plot: If you specify an outputFile, you also need a renderCmd.",
            where=section.location("outputFile"),
            hint=f"Without one an outputFile that ends in {PICTURE} is drawn; with one, for example: "
            'renderCmd="dot -Tpng <IN> -o<OUT>"',
        )


def run(context: ActionContext, section: Config) -> None:
    """Write ``outputDotFile``, the picture beside it, and what ``renderCmd`` makes of it.

    Raises:
        CntkError: the model cannot be read, a file cannot be written, or the command failed.
    """
    model = section.string("modelPath")
    network = context.load_model(model, section.location("modelPath"))
    dot = section.string("outputDotFile", "") or f"{model}.dot"
    target, command = section.string("outputFile", ""), section.string("renderCmd", "")
    write_text(dot, to_dot(network))
    context.log.plain(f"Created network description in dot format: {dot}")
    picture = str(Path(dot).with_suffix(PICTURE)) if command or not target else target
    write_text(picture, to_svg(network))
    context.log.plain(f"Created picture: {picture}")
    if command:
        _render(context, section, command.replace("<IN>", shlex.quote(dot)).replace("<OUT>", shlex.quote(target)))
    context.log.plain("Done.")


def _render(context: ActionContext, section: Config, command: str) -> None:
    context.log.plain(f"Executing third-party tool for rendering dot:\n{command}")
    status = subprocess.run(command, shell=True, check=False).returncode
    if status:
        raise TrainingError(
            f"plot: the renderCmd ended with exit status {status}: {command}", where=section.location("renderCmd")
        )


def write_text(path: str, text: str) -> None:
    """Write a file; missing folders are made.

    Raises:
        TrainingError: it cannot be written.
    """
    try:
        write_file(Path(path), [text.encode("utf-8", "surrogateescape")])
    except OSError as error:
        raise TrainingError(f"the file '{path}' cannot be written: {error.strerror}") from None
