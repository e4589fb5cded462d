"""``cntk explain --time``: what is measured, and how it is shown."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from cntk_tool_inspect.timing.flame import bars, flame_graph
from cntk_tool_inspect.timing.measure import BETWEEN, FORWARD, GRADIENTS, READER, UPDATE, WHOLE, Profile, Share, profile
from cntk_tool_inspect.timing.table import by_line, table
from cntk_tool_inspect.timing.work import moved, operations

from cntk_core.api import Location
from cntk_core.api.engines import RunTime, StepTime, core_op, describe_step, make_plan, trace
from cntk_core.api.recipes import open_recipe
from cntk_kit_recipes.cli import main
from cntk_testing.networks import Sketch, classifier
from cntk_testing.sparse_networks import SPARSE_SAMPLES


@pytest.fixture
def made(tmp_path: Path) -> Profile:
    """A profile of a product and its soft-max, of which every figure is known."""
    recipe = tmp_path / "r.cntk"
    recipe.write_text("x = Input{4}\nz = W * x   # <scores>\nce = CrossEntropyWithSoftmax(y, z)\n", encoding="utf-8")
    sample = classifier("float32")
    for node in sample.network:
        node.where = Location(str(recipe), 3 if node is sample.criterion else 2, 5)
    plan = make_plan(sample.network, sample.roots, sample.criterion, fuse=False)
    first, back = plan.steps[0], plan.gradients[-1]
    shares = (
        Share(READER, None, 0.001),
        Share(FORWARD, first, 0.002, operations=4e6, moved=1e6),
        Share(GRADIENTS, back, 0.004),
        Share(FORWARD, plan.steps[1], 0.00001),
        Share(UPDATE, None, 0.0005),
        Share(BETWEEN, None, 0.00249),
    )
    steps = (StepTime(first, 2_000, 4_000), StepTime(back, 4_000, 8_000), StepTime(None, 8_000, 8_500))
    runs = (RunTime(plan, "train_step", 1_500, 9_000, steps, {"": 32}),)
    return Profile("Train", "cpu", 50, 32.0, shares, 0.01, 0.009, runs, ((500, 1_500),))


def test_the_table(made: Profile, tmp_path: Path) -> None:
    first, back, small = (share.step for share in made.shares if share.step is not None)
    file = tmp_path / "r.cntk"
    place = f"{file}:2:5"
    assert table(made) == [
        "Train: a step of training with engine=cpu, 32 samples a minibatch (mean of 50 steps)",
        "",
        "  part               ms      %",
        "  reader          1.000   10.0   waiting for minibatches",
        "  forward         2.010   20.1",
        "  gradients       4.000   40.0",
        "  update          0.500    5.0   of what is not updated together with its gradient",
        "  between         2.490   24.9   inputs taken in, rates, sums of criteria",
        "  together       10.000  100.0   9.000 ms without a clock at each step",
        "",
        "        ms      %  GFLOP/s    GB/s  step of the plan",
        f"     4.000   40.0                   {describe_step(back):<60}  {place}",
        f"     2.000   20.0      2.0     0.5  {describe_step(first):<60}  {place}",
        "     0.010    0.1                   1 smaller ones",
        "",
        "        ms      %  line of the recipe",
        f"     6.010   60.1  {file}:2: z = W * x   # <scores>",
    ]
    assert describe_step(back).startswith("gradient of ")
    assert small is not None


def test_what_an_engine_cannot_tell_is_whole(made: Profile) -> None:
    plan = made.runs[0].plan
    whole = Profile("T", "cuda", 1, 8.0, (Share(WHOLE, None, 0.5),), 1.0, 1.0, (RunTime(plan, "x", 0, 1, (), {}),), ())
    assert "  whole step    500.000   50.0   the engine does not tell what its steps take" in table(whole)
    assert not by_line(whole)


def test_the_flame_graph(made: Profile) -> None:
    svg = ElementTree.fromstring(flame_graph(made))
    space = "{http://www.w3.org/2000/svg}"
    titles = [title.text or "" for title in svg.iter(f"{space}title")]
    assert "gradients: 4.000 ms, 40.0 %" in titles
    assert "r.cntk:2: z = W * x   # <scores>: 4.000 ms, 40.0 %" in titles
    drawn = {group.find(f"{space}title").text: group.find(f"{space}rect") for group in svg.iter(f"{space}g")}  # type: ignore[union-attr]
    widths = {text: float(rect.get("width", "0")) for text, rect in drawn.items() if rect is not None}
    whole = widths["a step of Train, engine=cpu: 10.000 ms, 100.0 %"]
    assert widths["reader: 1.000 ms, 10.0 %"] == pytest.approx(whole / 10, abs=0.01)
    root = bars(made)
    assert sum(bar.seconds for bar in root.inner.values()) == pytest.approx(root.seconds)


def test_the_trace(made: Profile, tmp_path: Path) -> None:
    events = trace("a run", made.runs, made.reads)["traceEvents"]
    assert [event["ph"] for event in events[:2]] == ["M", "M"]
    assert [(event["name"], event["ts"], event["dur"]) for event in events[2:4]] == [
        ("reader", 0.0, 1.0),
        ("train_step", 1.0, 7.5),
    ]
    assert [event["ts"] for event in events[4:]] == [1.5, 3.5, 7.5]
    assert events[3]["args"] == {"rows": {"": 32}}
    assert events[4]["args"] == {"recipe": [f"{tmp_path / 'r.cntk'}:2:5"]}


def test_operations_and_bytes() -> None:
    sample = classifier("float32")
    plan = make_plan(sample.network, sample.roots, sample.criterion, fuse=False)
    product = next(step for step in plan.steps if step.nodes[0].op.name == "Times")
    weights, features = product.nodes[0].inputs
    out, into = product.nodes[0].known_shape[0], features.known_shape[0]
    assert operations(product, {"": 10}) == 2 * out * into * 10
    assert moved(product, {"": 10}, 4) == 4 * (out * into + 10 * (out + into))
    back = next(step for step in plan.gradients if getattr(step, "step", None) is product)
    assert operations(back, {"": 10}) == len(back.targets) * 2 * out * into * 10
    rest = next(step for step in plan.steps if step.nodes[0].op.name not in ("Times", "TransposeTimes"))
    assert operations(rest, {"": 10}) is None
    assert weights.framed is False


def test_bytes_of_sparse_inputs_are_not_known() -> None:
    sample = SPARSE_SAMPLES["product"]("float32")
    plan = make_plan(sample.network, sample.roots, sample.criterion, fuse=False)
    product = next(step for step in plan.steps if step.nodes[0].op.name == "Times")
    assert moved(product, {"": 2}, 4) is None


def test_a_recipe_is_measured(recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["explain", str(recipe), "--time", "--steps", "3", "--flame", "f.svg", "--trace", "t.json"]
    assert main(arguments) == 0
    said = capsys.readouterr()
    assert said.out.startswith("Train: a step of training with engine=cpu, ")
    assert "z = Times(W, features)" in said.out
    assert said.out.endswith("\nFlame graph: f.svg\n\nTrace: t.json\n")
    assert said.err == ""
    assert not Path("run").exists(), "nothing of a training is written"
    assert ElementTree.parse("f.svg").getroot().tag.endswith("svg")
    events = json.loads(Path("t.json").read_text(encoding="utf-8"))["traceEvents"]
    assert sum(event["name"] == "train_step" for event in events) == 3


def test_all_of_a_step_is_somewhere(recipe: Path) -> None:
    context, sections = open_recipe((f"configFile={recipe}",), "Train", ())
    found = profile(context, sections[0], 4)
    assert sum(share.seconds for share in found.shares) == pytest.approx(found.seconds)
    assert {share.part for share in found.shares} == {READER, FORWARD, GRADIENTS, UPDATE, BETWEEN}
    told = [each.step for each in found.runs[0].steps if each.step is not None]
    plan = found.runs[0].plan
    assert told == [*plan.steps, *plan.gradients]
    assert len(found.runs) == len(found.reads) == 4


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--time", "--steps", "0"], "error: --steps 0 makes no sense: at least 1 must be measured\n"),
        (["--flame", "f.svg"], "error: --steps, --flame and --trace are for what is measured: add --time\n"),
        (["--steps", "3"], "error: --steps, --flame and --trace are for what is measured: add --time\n"),
        (
            ["--time", "--frames", "5"],
            "error: --frames and --depth are for the plan: --time measures the recipe's own minibatches\n"
            "    Their size is minibatchSize of the SGD block.\n",
        ),
        (
            ["--time", "--steps", "1", "--trace", "no/where.json"],
            "error: the trace 'no/where.json' cannot be written: No such file or directory\n",
        ),
        (["--time", "--section", "Test"], "error: {recipe}: no section of the recipe trains a network\n"),
    ],
)
def test_mistakes(recipe: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str) -> None:
    assert main(["explain", str(recipe), *words]) != 0
    assert capsys.readouterr().err == message.format(recipe=recipe)


@pytest.mark.parametrize(
    ("transpose", "weights", "image", "expected"),
    # 3 x 3 windows over 2 channels for 5 maps: each weight once for each place that the window has.
    [(False, (5, 2, 3, 3), (2, 8, 8), 2 * 90 * 36), (True, (2, 5, 3, 3), (2, 6, 6), 2 * 90 * 36)],
)
def test_operations_of_convolutions(
    transpose: bool, weights: tuple[int, ...], image: tuple[int, ...], expected: int
) -> None:
    made = Sketch("float32")
    kernel = (3, 3, 5) if transpose else (3, 3, 2)
    maps = (2,) if transpose else (5,)
    op = core_op("Convolution")
    attributes = op.attributes(kernel_shape=kernel, map_count=maps, transpose=transpose, auto_padding=(False,))
    node = made.op("Convolution", made.parameter("W", *weights), made.input("x", *image), attributes=attributes)
    network = made.finish(None, node).network
    plan = make_plan(network, [node])
    assert operations(plan.steps[0], {"": 3}) == 3 * expected
