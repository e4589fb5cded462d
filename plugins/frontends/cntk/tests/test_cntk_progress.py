"""What writers of progress are told, what printers print, walks through blocks, drawings, and first values."""

from __future__ import annotations

import re
import sys
from typing import Any

import cntk as C
import numpy as np
import pytest
from cntk.layers import Dense, Sequential
from cntk.logging import ProgressPrinter, TensorBoardProgressWriter
from cntk.logging.graph import depth_first_search, find_by_name, find_by_uid, plot
from cntk.logging.writers import ProgressWriter, average

writing = sys.modules["cntk.logging.progress_print"]


class Heard(ProgressWriter):
    """Keeps what it is told."""

    def __init__(self, *paces: int) -> None:
        super().__init__(*paces)
        self.told: list[Any] = []

    def on_write_training_update(self, *given: Any) -> None:
        self.told.append(("training", *given))

    def on_write_test_update(self, *given: Any) -> None:
        self.told.append(("test", *given))

    def on_write_distributed_sync_update(self, *given: Any) -> None:
        self.told.append(("sync", *given))

    def on_write_training_summary(self, *given: Any) -> None:
        self.told.append(("trained", *given[:-1]))

    def on_write_test_summary(self, *given: Any) -> None:
        self.told.append(("tested", *given[:-1]))


def test_windows_end_at_the_first_and_at_every_so_many() -> None:
    heard = Heard(3, 1, 2, 0, 1, 0)
    for number in range(1, 7):
        heard.update_training(10, lambda number=number: (2.0 * number, 1.0 * number))
    assert heard.told == [
        ("training", (0, 10), (0, 1), (0.0, 2.0), (0.0, 1.0)),
        ("training", (10, 30), (1, 3), (2.0, 6.0), (1.0, 3.0)),
        ("training", (30, 60), (3, 6), (6.0, 12.0), (3.0, 6.0)),
    ]
    heard.told.clear()
    heard.update_training(0, lambda: (9.0, 9.0))  # nothing was seen
    heard.write_training_summary(lambda: (14.0, None))
    heard.update_training(5, lambda: (1.0, 1.0))
    heard.write_training_summary(lambda: (1.5, 0.5))
    assert heard.told == [
        ("trained", 60, 6, 1, 14.0, 6.0),
        ("training", (0, 5), (0, 1), (0.0, 1.0), (0.0, 1.0)),
        ("trained", 5, 1, 2, 1.5, 0.5),
    ]
    assert (heard.total_training_updates(), heard.total_test_updates()) == (7, 0)


def test_tests_and_meetings_have_windows_of_their_own() -> None:
    heard = Heard(99, 0, 2, 0, 1, 0)
    for _ in range(3):
        heard.update_test(4, lambda: (None, 3.0))
        heard.update_distributed_sync(8)
    heard.write_test_summary(lambda: (None, 5.0))
    heard.write_test_summary(lambda: (None, 7.0))  # of no samples
    assert heard.told == [
        ("sync", (0, 8), (0, 1), (0.0, 0.0)),
        ("test", (0, 8), (0, 2), (0.0, 3.0)),
        ("sync", (8, 16), (1, 2), (0.0, 0.0)),
        ("sync", (16, 24), (2, 3), (0.0, 0.0)),
        ("tested", 12, 3, 1, 5.0),
        ("tested", 0, 0, 2, 0.0),
    ]
    assert (heard.total_training_updates(), heard.total_test_updates()) == (0, 3)


def test_windows_that_become_longer() -> None:
    heard = Heard(0)
    for _ in range(8):
        heard.update_training(1, lambda: (0.0, 0.0))
    assert [told[2] for told in heard.told] == [(0, 1), (1, 3), (3, 7)]


def test_averages() -> None:
    assert [average(6, 4), average((2, 6), 2), average((2, 6), (1, 3)), average(6, 0), average(6, -1)] == [
        1.5, 2.0, 2.0, 0.0, 0.0,
    ]  # fmt: skip


def test_printers_say_tests_meetings_and_the_end(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    printer = ProgressPrinter(test_freq=1, distributed_freq=1, distributed_first=0)
    printer.update_test(4, lambda: (None, 1.0))
    printer.update_distributed_sync(8)
    printer.end_progress_print("over")
    assert capsys.readouterr().out.splitlines() == [
        " Evaluation Minibatch[   1-   1]: metric = 25.00% * 4;",
        "Distributed training: #Syncs elapsed = 1, #Samples elapsed = 8",
        "CNTKCommandTrainEnd: train",
    ]
    filed = ProgressPrinter(log_to_file=str(tmp_path / "log"))
    filed.end_progress_print("over")
    filed.write("rate", 0.5)
    assert (tmp_path / "log").read_text().splitlines()[1:] == [
        "CNTKCommandTrainInfo: train : 300", "CNTKCommandTrainInfo: CNTKNoMoreCommands_Total : 300",
        "CNTKCommandTrainBegin: train", "CNTKCommandTrainEnd: train", "over", "rate: 0.5",
    ]  # fmt: skip


def test_printers_of_a_table_say_nothing_at_the_end_of_an_epoch(capsys: pytest.CaptureFixture[str]) -> None:
    printer = ProgressPrinter(0)
    capsys.readouterr()
    printer.on_write_training_summary(20, 4, 1, 10.0, 5.0, 1000)
    assert capsys.readouterr().out == ""
    plain = ProgressPrinter()
    plain.on_write_training_summary(20, 4, 1, 10.0, None, 2000)
    assert capsys.readouterr().out == "Finished Epoch[1]: loss = 0.500000 * 20 2.000s ( 10.0 samples/s);\n"


def test_heartbeats_come_every_ten_seconds(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    now = [100.0]
    monkeypatch.setattr(writing.time, "monotonic", lambda: now[0])
    printer = ProgressPrinter(gen_heartbeat=True)
    for seconds in (100.0, 105.0, 111.0):
        now[0] = seconds
        printer.on_training_update_end()
    assert capsys.readouterr().out == "PROGRESS: 0.00%\n" * 2
    ProgressPrinter().on_training_update_end()
    assert capsys.readouterr().out == ""


def test_a_printer_that_is_told_by_the_program_has_averages(capsys: pytest.CaptureFixture[str]) -> None:
    printer = ProgressPrinter(freq=10)
    with pytest.warns(DeprecationWarning, match="instead of calling update"):
        printer.update(4.0, 10, 0.5)
    printer.update(1.0, 0, 0.5)  # nothing was seen
    printer.update(2.0, 30, 0.25)
    assert (printer.avg_loss_since_start(), printer.avg_metric_since_start()) == (2.5, 0.3125)
    assert printer.reset_last() == (2.5, 0.3125, 40)
    printer.update(1.0, 10)
    assert (printer.avg_loss_since_last(), printer.avg_metric_since_last()) == (1.0, 0.0)
    assert printer.reset_start() == (2.2, 0.25, 50)
    assert printer.avg_loss_since_start() == 0
    with pytest.warns(DeprecationWarning, match="instead of epoch_summary"):
        assert printer.epoch_summary() == (0.0, 0.0, 0)
    printer.update(3.0, 10, 1.0)
    with pytest.warns(DeprecationWarning, match="instead of epoch_summary"):
        assert printer.epoch_summary(with_metric=True) == (3.0, 1.0, 10)
    lines = capsys.readouterr().out.splitlines()
    assert [re.sub(r" \d+\.\d{3}s .*", "", line) for line in lines] == [
        "Finished Epoch[1]: loss = 0.000000 * 0",
        "Finished Epoch[2]: loss = 3.000000 * 10, metric = 100.00% * 10",
    ]
    table = ProgressPrinter(freq=0)
    with pytest.warns(DeprecationWarning, match="instead of calling update"):
        table.update(4.0, 10)
    with pytest.warns(DeprecationWarning, match="instead of epoch_summary"):
        assert table.epoch_summary() is None


class Trained:
    """The numbers of a trainer."""

    previous_minibatch_loss_average, previous_minibatch_evaluation_average = 3.0, 0.5

    def __init__(self, count: int) -> None:
        self.previous_minibatch_sample_count = count


def test_a_printer_takes_the_last_minibatch_of_a_trainer(capsys: pytest.CaptureFixture[str]) -> None:
    printer = ProgressPrinter(freq=1)
    with pytest.warns(DeprecationWarning, match="instead of calling update"):
        printer.update_with_trainer(Trained(10), with_metric=True)
    for nothing in (None, Trained(0)):
        printer.update_with_trainer(nothing)
    printer.update_with_trainer(Trained(10))
    assert capsys.readouterr().out.splitlines() == [
        " Minibatch[   1-   1]: loss = 3.000000 * 10, metric = 50.00% * 10;",
        " Minibatch[   2-   2]: loss = 3.000000 * 10;",
    ]


def test_rank_0_alone_writes_for_tensorboard(tmp_path: Any) -> None:
    writer = TensorBoardProgressWriter(log_dir=str(tmp_path), rank=1)
    writer.write_value("loss", 1.0, 1)
    writer.write_image("seen", {"x": np.zeros((1, 3, 2, 2))}, 1)
    writer.flush()
    writer.close()
    writer.on_write_training_summary(1, 1, 1, 1.0, 1.0, 1)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(NotImplementedError, match=r"^TensorBoardProgressWriter writes summaries of tests, not their "):
        writer.on_write_test_update((0, 1), (0, 1), (0.0, 1.0))


WALKED = {
    0: "Dense LayerNormalization",
    1: "Dense LayerNormalization Softplus Plus Times",
    2: "Dense LayerNormalization Softplus Plus ElementTimes ElementDivide Minus ReduceElements Plus Sqrt "
       "ReduceElements ElementTimes Plus Times LogPlus",
    3: "Dense LayerNormalization Softplus Plus ElementTimes ElementDivide Plus Times LogPlus Minus ReduceElements Plus "
       "Sqrt ReduceElements ElementTimes ElementTimes Reciprocal",
    -1: "Dense LayerNormalization Softplus Plus ElementTimes ElementDivide Plus Times LogPlus Minus ReduceElements "
        "Plus Sqrt ReduceElements ElementTimes Reciprocal ReduceElements ElementTimes ReduceElements",
}  # fmt: skip
"""The original's walk, by depth."""


@pytest.mark.parametrize("depth", WALKED)
def test_blocks_are_entered_as_deep_as_is_said(depth: int) -> None:
    normalized = C.layers.LayerNormalization()(C.input_variable(2, name="x"))
    f = Dense(3, activation=C.softplus)(normalized)
    found = depth_first_search(f, lambda node: hasattr(node, "op_name"), depth)
    assert [each.op_name for each in found] == WALKED[depth].split()


@pytest.fixture
def blocks() -> C.Function:
    x = C.input_variable(2, name="x")
    return Sequential([Dense(3, name="hidden"), C.layers.ResNetBlock(Dense(3, name="inner")), C.relu])(x)


def test_what_is_found_in_a_graph_has_its_own_type(blocks: C.Function) -> None:
    hidden = find_by_name(blocks, "hidden")
    assert hidden.op_name == "Dense"
    assert find_by_uid(blocks, hidden.root_function.uid).uid == hidden.root_function.uid
    assert find_by_uid(blocks, "nobody") is None
    named = depth_first_search(blocks, lambda node: node.name == "W")
    assert [type(each) for each in named] == [C.Parameter] * 2
    with pytest.raises(ValueError, match=r"^2 nodes have the name 'W'; find_all_with_name returns all of them$"):
        find_by_name(blocks, "W")
    with pytest.raises(ValueError, match=r"^the uid of a node is a string, not <class 'int'>$"):
        find_by_uid(blocks, 3)


def test_a_drawing_has_each_leaf_once_and_an_arrow_for_each_input(tmp_path: Any) -> None:
    x, c = C.input_variable(2, name="x"), C.constant(3, name="c")
    f = C.plus(C.element_times(x, c), x, name='a "sum"')
    text = plot(f, str(tmp_path / "sum.dot"))
    assert [line.partition("(")[0] for line in text.splitlines() if line] == ["ElementTimes", "Plus"]
    drawn = (tmp_path / "sum.dot").read_text()
    nodes = re.findall(r'^"\S+" \[(?:shape=(\w+), )?(?:fillcolor=(\w+), )?label="((?:[^"\\]|\\.)*)"\];$', drawn, re.M)
    assert nodes == [
        ("", "", 'Plus\\na \\"sum\\"()'), ("egg", "yellow", "x\\n[#](2,)"), ("", "", "ElementTimes"),
        ("box", "lightblue", "c\\n()"), ("egg", "", 'a \\"sum\\"\\n[#](2,)'),
    ]  # fmt: skip
    assert len(re.findall("->", drawn)) == 5
    assert drawn.endswith("}\n")


RULES = {
    "uniform": (lambda seed: C.uniform(0.5, seed), "flat", 0.5),
    "normal": (lambda seed: C.normal(0.5, seed=seed), "bell", 0.5),
    "truncated_normal": (lambda seed: C.truncated_normal(0.5, seed), "bell", 0.5 * 0.88),
    "xavier": (lambda seed: C.xavier(seed=seed), "flat", np.sqrt(3 / 40)),
    "glorot_uniform": (lambda seed: C.glorot_uniform(2, seed=seed), "flat", 2 * np.sqrt(6 / 70)),
    "glorot_normal": (lambda seed: C.glorot_normal(seed=seed), "bell", np.sqrt(2 / 70)),
    "he_uniform": (lambda seed: C.he_uniform(seed=seed), "flat", np.sqrt(6 / 40)),
    "he_normal": (lambda seed: C.he_normal(seed=seed), "bell", np.sqrt(2 / 40)),
}


@pytest.mark.parametrize("name", RULES)
def test_first_values_are_spread_as_their_rule_says(name: str) -> None:
    rule, kind, size = RULES[name]
    found = C.parameter((40, 30), init=rule(3)).value
    expected = size / np.sqrt(3) if kind == "flat" else size
    assert found.std() == pytest.approx(expected, rel=0.06)
    assert abs(found.mean()) < 0.1 * size
    if kind == "flat":
        assert 0.9 * size < np.abs(found).max() <= size
    np.testing.assert_array_equal(C.parameter((40, 30), init=rule(3)).value, found)
    assert (C.parameter((40, 30), init=rule(4)).value != found).any()
    free = [C.parameter((40, 30), init=rule(None)).value for _ in range(2)]
    assert (free[0] != free[1]).any()


def test_first_values_are_scaled_by_the_axes_of_outputs_and_filters() -> None:
    init = C.he_normal(seed=3)
    deviations = [
        C.parameter((20, 30, 10), init=each).value.std()
        for each in (
            C.he_normal(output_rank=1, seed=3),
            C.he_normal(output_rank=2, seed=3),
            C.initializer.initializer_with_rank(init, output_rank=2),
            C.initializer.initializer_with_rank(C.he_normal(output_rank=1, seed=3), output_rank=2),
            C.initializer.initializer_with_rank(init),
        )
    ]
    one, two = np.sqrt(2 / 600), np.sqrt(2 / 20)
    assert deviations == pytest.approx([one, two, two, one, one], rel=0.05)
    ranks = C.initializer.initializer_with_rank(C.he_normal(filter_rank=1), output_rank=-1, filter_rank=2)
    assert (ranks.output_rank, ranks.filter_rank) == (-1, 1)
    assert C.initializer.initializer_with_rank(init, filter_rank=2).filter_rank == 2


def test_first_values_that_are_none() -> None:
    with pytest.raises(ValueError, match=r"^CreateInitializer: the scale of 'normal' has to be more than 0, and is 0$"):
        C.normal(0)
    for wrong in ("a", object, {}):
        with pytest.raises(ValueError, match=r"^a first value is a number, an array or an initializer, not "):
            C.parameter(2, init=wrong)


def test_kernels_of_linear_interpolation() -> None:
    found = C.parameter((1, 1, 4, 4), init=C.bilinear(4, 4)).value[0, 0]
    line = np.array([0.25, 0.75, 0.75, 0.25])
    np.testing.assert_allclose(found, np.outer(line, line), rtol=1e-6)
    half = C.parameter(3, init=C.uniform(1, seed=3), dtype=np.float16)
    np.testing.assert_array_equal(half.value, C.parameter(3, init=C.uniform(1, seed=3)).value.astype(np.float16))
