"""Progress as it is printed, graphs as they are walked and drawn."""

from __future__ import annotations

import re

import cntk as C
import numpy as np
import pytest
from cntk.logging import (
    ProgressPrinter,
    TensorBoardProgressWriter,
    TraceLevel,
    TrainingSummaryProgressCallback,
    log_number_of_parameters,
)


def train(writers, count=4, metric=True):
    x, y = C.input_variable(2, name="x"), C.input_variable(3, name="y")
    w = C.parameter((2, 3), init=np.array([[0.1, 0.2, 0.3], [-0.1, 0.4, 0.05]], np.float32))
    z = C.times(x, w) + C.parameter(3)
    loss, error = C.cross_entropy_with_softmax(z, y), C.classification_error(z, y)
    learner = C.momentum_sgd(z.parameters, 0.1, C.momentum_schedule(0.9))
    trainer = C.Trainer(z, (loss, error) if metric else loss, learner, writers)
    data = {x: np.ones((5, 2), np.float32), y: np.eye(3, dtype=np.float32)[[0, 1, 2, 1, 0]]}
    for _ in range(count):
        trainer.train_minibatch(data)
    trainer.summarize_training_progress()
    if metric:
        trainer.test_minibatch(data)
        trainer.summarize_test_progress()
    return z


def check_line(found, expected):
    """Whether a line has these words and numbers; the original sums up in single precision, too, in another order."""
    number = r"\d+\.\d+"
    assert re.sub(number, "0.0", found) == re.sub(number, "0.0", expected)
    values = ([float(each) for each in re.findall(number, line)] for line in (found, expected))
    np.testing.assert_allclose(*values, rtol=2e-6)


def test_lines_are_those_of_the_original(capsys):
    train(ProgressPrinter(2, tag="Training", num_epochs=3))
    lines = capsys.readouterr().out.splitlines()
    assert re.fullmatch(
        r"Finished Epoch\[1 of 3\]: \[Training\] loss = 1\.131638 \* 20, metric = 60\.00% \* 20 \d+\.\d{3}s "
        r"\( *\d+\.\d samples/s\);",
        lines.pop(4),
    )
    check_line(lines.pop(2), " Minibatch[   1-   2]: loss = 1.134157 * 10, metric = 60.00% * 10;")
    assert lines == [
        "Learning rate per minibatch: 0.1",
        "Momentum per minibatch: 0.9",
        " Minibatch[   3-   4]: loss = 1.129119 * 10, metric = 60.00% * 10;",
        "Finished Evaluation [1]: Minibatch[1-1]: metric = 60.00% * 5;",
    ]


def test_a_table_has_a_row_for_one_three_and_seven_minibatches(capsys):
    train(ProgressPrinter(0), count=7)
    assert capsys.readouterr().out.splitlines() == [
        " average      since    average      since      examples",
        "    loss       last     metric       last              ",
        " ------------------------------------------------------",
        "Learning rate per minibatch: 0.1",
        "Momentum per minibatch: 0.9",
        "     1.13       1.13        0.6        0.6             5",
        "     1.13       1.13        0.6        0.6            15",
        "     1.13       1.12        0.6        0.6            35",
        "Finished Evaluation [1]: Minibatch[1-1]: metric = 60.00% * 5;",
    ]


def test_lines_go_into_a_file(tmp_path, capsys):
    file = tmp_path / "log"
    train(ProgressPrinter(freq=2, log_to_file=str(file), rank=1, num_epochs=2, metric_is_pct=False))
    assert capsys.readouterr().out == f"Redirecting log to file {file}rank1\n"
    lines = (tmp_path / "logrank1").read_text().splitlines()
    assert lines[:4] == [
        f"{file}rank1",
        "CNTKCommandTrainInfo: train : 2",
        "CNTKCommandTrainInfo: CNTKNoMoreCommands_Total : 2",
        "CNTKCommandTrainBegin: train",
    ]
    check_line(lines[6], " Minibatch[   1-   2]: loss = 1.134157 * 10, metric = 0.600000 * 10;")


def test_a_function_is_called_after_each_epoch():
    found = []
    train(TrainingSummaryProgressCallback(20, lambda *told: found.append(told)))
    ((epoch, loss, metric, samples),) = found
    assert (epoch, metric, samples) == (0, 12.0, 20)
    assert loss == pytest.approx(20 * 1.131638, rel=1e-5)


def test_a_printer_that_is_told_by_the_program(capsys):
    printer = ProgressPrinter(freq=2, first=1)
    with pytest.warns(DeprecationWarning, match="give the printer to the trainer instead of calling update"):
        printer.update(3.0, 10, 0.25)
    for loss in (2.0, 1.0, 0.5):
        printer.update(loss, 10, 0.25)
    with pytest.warns(DeprecationWarning, match="call summarize_training_progress"):
        assert printer.epoch_summary(with_metric=True) == (1.625, 0.25, 40)
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == [
        " Minibatch[   1-   1]: loss = 3.000000 * 10, metric = 25.00% * 10;",
        " Minibatch[   2-   2]: loss = 2.000000 * 10, metric = 25.00% * 10;",
        " Minibatch[   3-   4]: loss = 0.750000 * 20, metric = 25.00% * 20;",
    ]


def test_points_for_tensorboard(tmp_path):
    pytest.importorskip("tensorboardX")
    writer = TensorBoardProgressWriter(freq=2, log_dir=str(tmp_path), model=train([]))
    train(writer)
    writer.write_image("seen", {"x": np.full((1, 3, 4, 5), 128.0)}, 1)
    writer.close()
    (file,) = tmp_path.iterdir()
    content = file.read_bytes()
    for tag in (b"minibatch/avg_loss", b"summary/avg_metric", b"minibatch/test_avg_metric", b"seen/image/0", b"Times"):
        assert tag in content
    with pytest.raises(RuntimeError, match="this TensorBoardProgressWriter is closed"):
        writer.flush()


def test_trace_levels_compare_with_numbers():
    assert C.logging.get_trace_level() == TraceLevel.Warning == 1
    C.logging.set_trace_level(TraceLevel.Info)
    assert C.logging.get_trace_level() == 2
    C.logging.set_trace_level(1)


def test_parameters_are_counted(capsys):
    log_number_of_parameters(train([]), trace_level=1)
    assert capsys.readouterr().out == "Training 9 parameters in 2 parameter tensors.\n\n\t(2, 3)\n\t(3,)\n"


@pytest.fixture
def graph():
    x, w = C.input_variable((2, 3), name="x"), C.parameter((3, 2), init=7, name="w")
    inner = C.plus(x, C.constant(6, shape=(2, 3), name="c"), name="sum")
    return C.combine([C.times(inner, w, name="product"), C.minus(C.input_variable((), name="y"), 1, name="less")])


def test_a_graph_is_walked_depth_first(graph):
    found = C.logging.graph.depth_first_search(graph, lambda node: True)
    assert [node.name for node in found if node.name] == ["product", "sum", "x", "c", "w", "less", "y"]
    assert C.logging.graph.find_by_name(graph, "w").shape == (3, 2)
    assert C.logging.graph.find_by_name(graph, "nobody") is None
    assert len(C.logging.graph.get_node_outputs(graph)) == 5
    with pytest.raises(ValueError, match="the name of a node is a string, not <class 'int'>"):
        C.logging.graph.find_by_name(graph, 3)


def test_a_graph_is_written_and_drawn(graph, tmp_path):
    text = C.logging.graph.plot(graph, str(tmp_path / "graph.dot"))
    assert text.index("Plus(") < text.index("Times(")
    drawn = (tmp_path / "graph.dot").read_text()
    assert drawn.startswith("digraph network_graph {")
    assert '[label="Times\\nproduct()"]' in drawn
    assert "x\\n[#](2, 3)" in drawn
    with pytest.raises(ValueError, match=r"a graph is drawn into files \.svg, \.pdf, \.png, \.dot, not '\.gif'"):
        C.logging.graph.plot(graph, "graph.gif")


def test_a_function_is_dumped(graph, capsys):
    C.debugging.dump_function(graph)
    lines = capsys.readouterr().out.splitlines()
    assert any(
        re.match(r"  Times +product +\(sum:\[b\*\]\(2, 3\), w:\(3, 2\)\) -> \(product:\[b\*\]\(2, 2\)\)", line)
        for line in lines
    )
    assert any(line.startswith("  Parameter            w") for line in lines)
