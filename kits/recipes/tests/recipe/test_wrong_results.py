"""Ops and readers of other wheels that give what cannot be used: what the command says of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cntk_kit_recipes.cli import main

HEAD = "from cntk_core.api import *\nimport numpy as np\n"
READER = """
class Mine(DataReader):
    @classmethod
    def configure(cls, block, what): return NoOptions()
    streams = {}
    def minibatches(self, epoch):
        {}
"""
STREAMS = '(StreamInfo("features", (2,)), StreamInfo("labels", (2,)))'
OP = """
def shape(shapes, attributes):
    {infer}
def back(xp, g, y, inputs, attributes, context, needs):
    {back}
@define_op("Mine", infer=shape, gradient=back)
def mine(xp, inputs, attributes, context):
    {body}
"""
MEND = "    Mend the file. CNTK_TRACEBACK=1 shows how it was called."


def said_of(capsys: pytest.CaptureFixture[str], text: str, *arguments: str) -> tuple[str, int]:
    """Run the recipe with a plugin file; return what is said of it, and the line in the file that is named."""
    Path("p.py").write_text(HEAD + text, encoding="utf-8")
    assert main(["configFile=r.cntk", "--plugin", "p.py", "makeMode=false", *arguments]) == 1
    error = capsys.readouterr().err
    assert "Traceback" not in error
    first, second, third = error.partition("EXCEPTION occurred: ")[2].splitlines()
    place = re.fullmatch(r"    it is at .*/p\.py:(\d+)", second)
    assert place
    assert third == MEND
    return first, int(place[1])


def minibatch(data: str = "np.ones((2, 2))", layout: str = "SequenceLayout.of_frames(2)", samples: str = "2") -> str:
    return f"yield Minibatch({{name: StreamData({data}, {layout}) for name in ('features', 'labels')}}, {samples})"


class TestReaders:
    @pytest.mark.parametrize(
        ("body", "wrong"),
        [
            ("yield {'features': np.ones((2, 2)), 'labels': np.ones((2, 2))}", "a dict, not a Minibatch"),
            ("yield None", "None, not a Minibatch"),
            ("return [np.ones((2, 2))]", "an array of (2, 2), not a Minibatch"),
            (
                "yield Minibatch({'features': np.ones((2, 2))}, 2)",
                "a minibatch whose stream 'features' is an array of (2, 2), not a StreamData",
            ),
            ("yield Minibatch(None, 2)", "a minibatch whose streams are None, not a dict of StreamData by name"),
            ("yield Minibatch({}, 2)", "a minibatch without 'features', which is one of its streams"),
            (minibatch(samples="None"), "a minibatch whose samples are None, not a whole number"),
            (
                minibatch("[[1.0, 2.0]]"),
                "a minibatch whose stream 'features' has as its data 1 values, not an array with a row for each frame",
            ),
            (
                minibatch(layout="None"),
                "a minibatch whose stream 'features' has as its layout None, not a SequenceLayout",
            ),
            (
                minibatch("np.ones((3, 2))"),
                "a minibatch whose stream 'features' has data of (3, 2), but a layout of 2 frames",
            ),
        ],
    )
    def test_minibatches(self, recipe, capsys, body, wrong):
        said, line = said_of(capsys, READER.format(STREAMS, body), "Train=[reader=[readerType=Mine]]")
        assert said == f"Mine.minibatches of the plugin file 'p.py' gave {wrong}"
        assert line == 8

    @pytest.mark.parametrize(
        ("streams", "wrong", "at"),
        [
            ("None", "is None, not a tuple of StreamInfo", 4),
            ("('features', 'labels')", "has 'features' in it, which is no StreamInfo", 4),
            ("property(lambda self: None)", "is None, not a tuple of StreamInfo", 7),
        ],
    )
    def test_streams(self, recipe, capsys, streams, wrong, at):
        said, line = said_of(capsys, READER.format(streams, "yield None"), "Train=[reader=[readerType=Mine]]")
        assert said == f"Mine.streams of the plugin file 'p.py' {wrong}"
        assert line == at

    def test_sound_ones_train(self, recipe, capsys):
        Path("p.py").write_text(HEAD + READER.format(STREAMS, minibatch()), encoding="utf-8")
        assert main(["configFile=r.cntk", "--plugin", "p.py", "Train=[reader=[readerType=Mine]]"]) == 0


GOOD = {"infer": "return shapes[0]", "back": "return [2 * g]", "body": "return 2 * inputs[0]"}


class TestOps:
    @pytest.fixture(autouse=True)
    def network(self, recipe):
        text = recipe.read_text(encoding="utf-8").replace("z = Times(W, features)", "z = Mine(Times(W, features))")
        recipe.write_text(text, encoding="utf-8")

    @pytest.mark.parametrize(
        ("body", "shown"), [("pass", "None"), ("return 2", "2"), ("return (2.0,)", "(2.0,)"), ("return 'ab'", "'ab'")]
    )
    def test_no_shape(self, capsys, body, shown):
        said, line = said_of(capsys, OP.format(**{**GOOD, "infer": body}))
        assert said == (
            f"shape of the plugin file 'p.py' returned {shown} as the shape of Mine, not a tuple of whole numbers"
        )
        assert line == 4

    @pytest.mark.parametrize(
        ("body", "shown"),
        [
            ("pass", "None"),
            ("return 2 * g", "an array of (2, 2)"),
            ("return []", "0 values"),
            ("return [g, g]", "2 values"),
        ],
    )
    def test_no_list_of_gradients(self, capsys, body, shown):
        said, line = said_of(capsys, OP.format(**{**GOOD, "back": body}))
        assert said == (
            f"back of the plugin file 'p.py' returned {shown}, "
            "not a list with one gradient for each of the 1 inputs of Mine"
        )
        assert line == 6

    @pytest.mark.parametrize(
        ("body", "shown"),
        [
            ("return [g[:, :1]]", "an array of (2, 1)"),
            ("return [np.ones((3, 3))]", "an array of (3, 3)"),
            ("return ['a']", "'a'"),
            ("return [2.0]", "2.0"),
        ],
    )
    def test_a_gradient_of_another_shape(self, capsys, body, shown):
        said, line = said_of(capsys, OP.format(**{**GOOD, "back": body}))
        assert said == (
            f"back of the plugin file 'p.py' returned {shown} as the gradient of input 1 of Mine, not one of (2, 2)"
        )
        assert line == 6

    @pytest.mark.parametrize(
        ("body", "shown"),
        [
            ("return inputs[0][:, :1]", "an array of (2, 1)"),
            ("return inputs[0][0]", "an array of (2,)"),
            ("return np.sum(inputs[0])", "an array of ()"),
            ("return inputs[0][:, :, None]", "an array of (2, 2, 1)"),
            ("return inputs[0].reshape(-1)", "an array of (4,)"),
            ("return 1.0", "1.0"),
        ],
    )
    def test_a_value_of_another_shape(self, capsys, body, shown):
        said, line = said_of(capsys, OP.format(**{**GOOD, "body": body}), "engine=cpu")
        assert said == f"mine of the plugin file 'p.py' returned {shown}, not one of (2, 2)"
        assert line == 8

    def test_a_sound_one_trains(self):
        Path("p.py").write_text(HEAD + OP.format(**GOOD), encoding="utf-8")
        assert main(["configFile=r.cntk", "--plugin", "p.py"]) == 0
