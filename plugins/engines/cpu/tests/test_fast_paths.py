"""What is quick is used where it can be: nothing but the time would show that it is not."""

from __future__ import annotations

import pytest
from cntk_engine_cpu import convolution, layer_norm, primitives, rowwise
from cntk_engine_cpu.libraries import load_onednn
from cpu_networks import OPS, Net, compile_on, engine, minibatch, momentum_rule, train


def watch(monkeypatch, owner, name, said):
    """Have a function add to a list what ``said`` makes of its arguments; return the list."""
    found, original = [], getattr(owner, name)

    def called(*given, **named):
        found.append(said(*given))
        return original(*given, **named)

    monkeypatch.setattr(owner, name, called)
    return found


def trained(net, criterion, streams, *roots):
    _, program = compile_on(engine("compiled+onednn"), net.plan(criterion, *roots), momentum_rule())
    train(program, [minibatch(net.rng, 6, streams)], folded=False)


@pytest.mark.parametrize("outputs", [3, 1])
def test_rows_of_scores(monkeypatch, outputs):
    """Cross entropy and errors have kernels of their own where there is a score for every label."""
    pytest.importorskip("llvmlite")
    found = watch(monkeypatch, rowwise, "_kernel", lambda site, name: name)
    net = Net()
    scores = net.node("Times", net.parameter(4, outputs), net.input("x", 4))
    labels = net.input("l", outputs)
    errors = net.node("ClassificationError", labels, scores)
    trained(net, net.node("CrossEntropyWithSoftmax", labels, scores), {"x": (4,), "l": (outputs,)}, errors)
    assert set(found) == {"cross_entropy", "cross_entropy_gradient", "classification_error"}


@pytest.mark.skipif(load_onednn() is None, reason="oneDNN is not installed")
@pytest.mark.parametrize("functions", [("Plus", "RectifiedLinear"), ("RectifiedLinear",), ("Plus",)])
def test_convolutions_with_bias_and_rectification(monkeypatch, functions):
    """What follows a convolution is done with it, when nothing is learned."""
    tails = []
    original = convolution._tail_of
    monkeypatch.setattr(convolution, "_tail_of", lambda *given: tails.append(original(*given)) or tails[-1])
    net = Net()
    attributes = OPS["Convolution"].attributes(kernel_shape=(3, 3, 4), map_count=(8,), stride=(1, 1, 4))
    made = net.node("Convolution", net.parameter(8, 4, 3, 3), net.input("x", 4, 6, 6), attributes=attributes)
    for function in functions:
        made = net.node(function, made, *([net.parameter(8, 1, 1)] if function == "Plus" else []))
    pooled = net.node("Pooling", made, attributes=OPS["Pooling"].attributes(kernel_shape=(2, 2), stride=(2, 2)))
    _, program = compile_on(engine("compiled+onednn"), net.plan(None, pooled))
    program.evaluate(minibatch(net.rng, 6, {"x": (4, 6, 6)}))
    (tail,) = tails
    assert tail is not None
    assert (tail.bias is not None, tail.relu) == ("Plus" in functions, "RectifiedLinear" in functions)


@pytest.mark.skipif(load_onednn() is None, reason="oneDNN is not installed")
@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize(("groups", "dilation"), [(1, 2), (2, 1), (4, 1), (4, 2)])
def test_groups_and_dilation(monkeypatch, groups, dilation, transpose):
    """Value and gradients are primitives'."""
    names = ("forward", "backward_data", "backward_weights")
    found = [
        watch(monkeypatch, primitives.Primitives, f"convolution_{name}", lambda self, shape, *rest: shape.weights.dims)
        for name in names
    ]
    net = Net()
    attributes = OPS["Convolution"].attributes(
        kernel_shape=(3, 3, 4 // groups),
        map_count=(4,),
        auto_padding=(True, True, False),
        dilation=(dilation, dilation, 1),
        groups=groups,
        transpose=transpose,
    )
    scaled = net.node("ElementTimes", net.input("x", 4, 6, 6), net.parameter(4, 6, 6))
    made = net.node("Convolution", net.parameter(4, 4 // groups, 3, 3), scaled, attributes=attributes)
    trained(net, net.node("SumElements", net.node("ElementTimes", made, made)), {"x": (4, 6, 6)})
    each = 4 // groups
    assert [set(own) for own in found] == [{(4, 4, 3, 3) if groups == 1 else (groups, each, each, 3, 3)}] * 3


@pytest.mark.parametrize("axes", [1, 2])
def test_layer_normalization(monkeypatch, axes):
    """Samples, or lines of them, with a scale and a bias for each element have kernels of their own."""
    pytest.importorskip("llvmlite")
    found = watch(monkeypatch, layer_norm, "_kernel", lambda site, name: name)
    net = Net()
    shape = (3, 4)[-axes:]
    scaled = net.node("ElementTimes", net.input("x", 3, 4), net.parameter(3, 4))
    attributes = OPS["LayerNormalization"].attributes(axes=axes)
    made = net.node("LayerNormalization", scaled, net.parameter(*shape), net.parameter(*shape), attributes=attributes)
    trained(net, net.node("SumElements", net.node("ElementTimes", made, made)), {"x": (3, 4)})
    assert found == ["layer_norm", "layer_norm_sums", "layer_norm_gradient"]


@pytest.mark.skipif(load_onednn() is None, reason="oneDNN is not installed")
def test_pooling(monkeypatch):
    found = watch(monkeypatch, primitives.Primitives, "pooling", lambda *given: "forward")
    back = watch(monkeypatch, primitives.Primitives, "pooling_backward", lambda *given: "backward")
    net = Net()
    attributes = OPS["Pooling"].attributes(kernel_shape=(2, 2), pool_kind="max", stride=(2, 2))
    scaled = net.node("ElementTimes", net.input("x", 3, 6, 6), net.parameter(3, 6, 6))
    pooled = net.node("Pooling", scaled, attributes=attributes)
    trained(net, net.node("SumElements", pooled), {"x": (3, 6, 6)})
    assert (found, back) == (["forward"], ["backward"])


@pytest.mark.skipif(load_onednn() is None, reason="oneDNN is not installed")
@pytest.mark.parametrize(
    ("channels", "passed_over"), [(16, primitives.SLOW_DATA_GRADIENTS), (17, primitives.SLOW_DATA_GRADIENTS[:1])]
)
def test_implementations_that_are_slow_with_few_channels_are_passed_over(monkeypatch, channels, passed_over):
    found = watch(monkeypatch, primitives.Primitives, "_primitive", lambda own, key, *rest: (key[0], *rest[2:]))
    net = Net()
    attributes = OPS["Convolution"].attributes(
        kernel_shape=(3, 3, channels), map_count=(4,), auto_padding=(True, True, False)
    )
    scaled = net.node("ElementTimes", net.input("x", channels, 6, 6), net.parameter(channels, 6, 6))
    made = net.node("Convolution", net.parameter(4, channels, 3, 3), scaled, attributes=attributes)
    trained(net, net.node("SumElements", net.node("ElementTimes", made, made)), {"x": (channels, 6, 6)})
    assert {given[1:] for given in found if given[0] == "data"} == {(passed_over,)}
