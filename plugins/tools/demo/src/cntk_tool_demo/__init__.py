"""``cntk demo``: a recipe and real data in a folder, trained, tested, drawn, and what to try next."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path

from cntk_core.api import CntkError, MissingPluginError, TrainingError
from cntk_core.api.recipes import Log, run_recipe
from cntk_tool_demo.listener import Recorder

RECIPE = "digits.cntk"
_INSTALL = "pip install cntk-tool-demo"
NEXT = (
    (f"cntk configFile={RECIPE}", "the same again, with CNTK's log"),
    (f"cntk configFile={RECIPE} 'Train=[SGD=[maxEpochs=12]]'", "replace one value"),
    (f"cntk train {RECIPE}", "only the training"),
    (f"cntk explain {RECIPE}", "how the network is computed"),
    ("python ask.py", "the trained network in Python, to read and to change"),
    ("cntk plugins", "what is installed"),
    ("cntk plugins new reader my_format", "write a reader for your own data"),
)
"""Commands for the folder of the demo, and what they do. Its README has them, too."""


def run_demo(folder: str) -> int:
    """Write recipe and data into a folder, run the recipe there, and leave pictures of what happened.

    Raises:
        CntkError: something that the demo needs is not installed, or the folder cannot be written.
    """
    _check_installed()
    target = Path(folder)
    started = time.perf_counter()
    _say(f"cntk demo: real handwritten digits, learned from a CNTK recipe in {_shown(target)}\n")
    _prepare(target)
    bar = sys.stderr.isatty()
    recorder = Recorder(tell=not bar)
    log = Log(quiet=True)
    try:
        with _inside(target):
            run_recipe([f"configFile={RECIPE}", "stderr=run/log.txt"], log, listeners=[recorder], progress=bar)
            _draw(recorder)
            right, total = _count_right()
    finally:
        log.close()
    _summary(target, right, total, time.perf_counter() - started)
    return 0


def _say(text: str) -> None:
    print(text, flush=True)


def _shown(folder: Path) -> str:
    return f"{folder}{os.sep}" if folder.is_absolute() else f".{os.sep}{folder}{os.sep}"


def _check_installed() -> None:
    from importlib.util import find_spec

    if find_spec("matplotlib") is None:
        raise MissingPluginError("the demo needs matplotlib", hint=_INSTALL)


def _prepare(folder: Path) -> None:
    from cntk_tool_demo.data import write_digits

    try:
        (folder / "run").mkdir(parents=True, exist_ok=True)
        train, test = write_digits(folder)
        for name in (RECIPE, "ask.py", "README.md"):
            _write_once(folder / name, files(__package__).joinpath(name).read_text(encoding="utf-8"))
    except OSError as error:
        raise TrainingError(
            f"the folder '{folder}' cannot be written: {error.strerror}",
            hint="Give another one: cntk demo --folder DIR",
        ) from None
    _say(f"  {train} digits to learn from, {test} held out, each 8 x 8 pixels")
    _say(f"  recipe: {folder / RECIPE}\n")


def _write_once(path: Path, text: str) -> None:
    """Write a file unless it is there: the user may have changed it."""
    if not path.exists():
        path.write_text(text, encoding="utf-8")
    elif path.read_text(encoding="utf-8") != text:
        _say(f"  {path} was changed and stays as it is; remove it to get the original back")


@contextmanager
def _inside(folder: Path) -> Iterator[None]:
    """The recipe's paths count from its folder."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def _draw(recorder: Recorder) -> None:
    from cntk_core.api.builders import to_svg
    from cntk_tool_demo.curve import draw_curve

    if recorder.network is not None:
        Path("network.svg").write_text(to_svg(recorder.network), encoding="utf-8")
    if recorder.epochs:
        draw_curve(recorder.epochs, [Path("learning-curve.png"), Path("learning-curve.svg")])


def _count_right() -> tuple[int, int]:
    """Compare what the write action wrote with the labels of the test set."""
    from cntk_tool_demo.data import labels_of

    outputs = sorted(Path("run").glob("digits.*"))
    written = [path for path in outputs if not path.name.startswith("digits.dnn") and path.is_file()]
    labels = labels_of(Path("test.ctf"))
    for path in written:
        seen = path.read_text(encoding="utf-8").split()
        if len(seen) == len(labels):
            return sum(int(digit) == label for digit, label in zip(seen, labels, strict=True)), len(labels)
    raise CntkError("the write action of the recipe wrote no digits", hint=f"Remove {RECIPE} to get the original back.")


def _summary(folder: Path, right: int, total: int, seconds: float) -> None:
    _say(f"\n{right} of {total} held-out digits are right: {100 * right / total:.1f} %  ({seconds:.0f} seconds)\n")
    for name, what in (
        ("learning-curve.png", "how the errors fell (also .svg)"),
        ("network.svg", "the network; open it in a browser"),
        ("run/log.txt", "the log, as CNTK writes it"),
        ("README.md", "what is where, and what to try"),
    ):
        _say(f"  {folder / name!s:32} {what}")
    _say("\nWhat to try next:")
    for command, what in ((_activation(), ""), (f"cd {folder}", ""), *NEXT):
        if command:
            _say(f"  {command:57} {what}".rstrip())


def _activation() -> str:
    """The command after which a terminal finds ``cntk`` and this Python; empty where it finds them already."""
    own = Path(sys.executable).parent
    found = shutil.which("cntk")
    script = own / "activate"
    if (found is not None and Path(found).parent == own) or not script.is_file():
        return ""
    shown = script.relative_to(Path.cwd()) if script.is_relative_to(Path.cwd()) else script
    return str(shown) if os.name == "nt" else f". {shown}"
