"""The files that ``cntk init`` writes beside data: a recipe, a check, a README."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from cntk_tool_init.found import LANGUAGE_MODEL, TASKS, Data, Prepared
from cntk_tool_init.networks import Choice

RECIPE, CHECK, README = "recipe.cntk", "check.py", "README.md"
MODEL = "run/model.dnn"
_PATIENCE = 3

_CHECK = '''\
"""See whether the recipe fits the data: python check.py

What it names, what is wrong with the data files, and a few minibatches of a training, whose model is thrown away.
"""

import subprocess
import sys
import tempfile

with tempfile.TemporaryDirectory() as folder:
    for words in (
        ["config", "check", "recipe.cntk"],
        ["check-data", "recipe.cntk"],
        ["train", "recipe.cntk", f"modelPath={folder}/model.dnn", "Train=[SGD=[maxEpochs=1 ; epochSize=256]]"],
    ):
        print("$ cntk", *words, flush=True)
        if subprocess.run([sys.executable, "-m", "cntk_core", *words], check=False).returncode:
            sys.exit(f"cntk {words[0]} found something wrong")
print("all is well")
'''


def recipe_text(title: str, task: str, data: Prepared, choice: Choice) -> str:
    """Return the recipe."""
    lines = [
        f"# {title[0].upper()}{title[1:]}: {TASKS[task]}.",
        "#",
        f"#   cntk check-data {RECIPE}                         what is wrong with the data",
        f"#   cntk train {RECIPE}                              {choice.says}",
        *([f"#   cntk test {RECIPE}"] if data.held_out else ()),
        f"#   cntk train {RECIPE} makeMode=false Train=[SGD=[maxEpochs=2]]    anew, with another value",
        "",
        f"command = {'Train:Test' if data.held_out else 'Train'}",
        "precision = float",
        f'modelPath = "{MODEL}"',
        "",
        *([*data.before, ""] if data.before else ()),
        "Train = [",
        "    action = train",
        "",
        *_within(choice.network),
        "",
        *_within(_block("SGD", _sgd(data, choice))),
        "",
        *_within(_block("reader", data.reader)),
    ]
    if data.held_out:
        held = _held_out(data.held_out)
        lines += [
            "",
            "    # Data that are not learned from, looked at after each epoch.",
            *_within(_block("cvReader", held)),
        ]
    lines += ["]"]
    if data.held_out:
        size = 10 if data.words else 1024
        lines += [
            "",
            "Test = [",
            "    action = test",
            f"    minibatchSize = {size}",
            *_within(_block("reader", held)),
            "]",
        ]
    return "\n".join(lines) + "\n"


def _held_out(reader: Sequence[str]) -> list[str]:
    return list(reader) if any(line.startswith("randomize") for line in reader) else [*reader, "randomize = none"]


def _sgd(data: Prepared, choice: Choice) -> Iterator[str]:
    yield "epochSize = 0                            # an epoch is one sweep over the data"
    yield from choice.rates
    yield f"maxEpochs = {choice.epochs}"
    if data.held_out:
        yield f"earlyStopping = [ patience = {_PATIENCE} ]         # ends where held out data get no better"


def _block(name: str, lines: Sequence[str] | Iterator[str]) -> list[str]:
    return [f"{name} = [", *_within(lines), "]"]


def _within(lines: Sequence[str] | Iterator[str]) -> list[str]:
    return [f"    {line}" if line else "" for line in lines]


def readme_text(where: Sequence[Path], task: str, data: Data, prepared: Prepared, choice: Choice) -> str:
    """Return the page that says what is where."""
    named = ", ".join(f"`{path}`" for path in where)
    lines = [
        f"# {TASKS[task][0].upper()}{TASKS[task][1:]}",
        "",
        f"Written by `cntk init` for {named}: {data.title}.",
        "",
        "```text",
        *data.seen(),
        *(f"note: {line}" for line in data.odd),
        "```",
        "",
        "| file | |",
        "| --- | --- |",
        f"| `{RECIPE}` | the recipe: {choice.says} |",
        f"| `{CHECK}` | sees whether the recipe fits the data |",
        *(f"| `{name}` | {what} |" for name, what in prepared.files),
        "",
        "```sh",
        *commands(prepared),
        "```",
        "",
        f"The model is `{MODEL}`. `cntk dump {MODEL} --no-values` lists its nodes, `cntk plot {MODEL}` draws it,",
        "and `cntk sweep recipe.cntk Train.SGD.minibatchSize=16,64` tries other values.",
    ]
    if task == LANGUAGE_MODEL:
        lines += [
            "",
            "The perplexity in the log is the exponential of the criterion: as many words seem equally likely.",
        ]
    return "\n".join(lines) + "\n"


def commands(data: Prepared) -> list[str]:
    """Return what a user types next, in the folder of the recipe."""
    test = [f"cntk test {RECIPE}"] if data.held_out else []
    return [f"cntk check-data {RECIPE}", f"cntk train {RECIPE}", *test]


def check_text() -> str:
    """Return the check."""
    return _CHECK
