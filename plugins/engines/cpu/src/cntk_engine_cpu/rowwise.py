"""Hand-written kernels that go row by row: softmax with cross entropy, and the count of errors."""

from __future__ import annotations

from pathlib import Path

from cntk_core.api import Node
from cntk_core.api.engines import GradientStep, Native, Step, elements_of
from cntk_engine_cpu.compiler import compile_file
from cntk_engine_cpu.parts import Cut
from cntk_engine_cpu.shared_calls import Sum, shared_calls
from cntk_engine_cpu.site import Array, Call, Site
from cntk_engine_cpu.sparse import ENTRIES, sparse_calls


def _plain(site: Site, node: Node) -> bool:
    """Whether both operands are framed matrices of the same width, in compiled mode; the labels may be sparse."""
    labels, scores = node.inputs[0], node.inputs[1]
    fits = labels.framed and scores.framed and elements_of(labels) == elements_of(scores) and scores not in site.sparse
    return bool(site.kernels.compiled and fits and labels is not scores)


def bind_cross_entropy(site: Site, step: Step) -> list[Call] | None:
    """Return the calls that compute CrossEntropyWithSoftmax and keep the softmax for the gradient."""
    (node,) = step.nodes
    if not _plain(site, node) or any(site.path.get(node, ())[:1]):  # the gradient by labels is not the kernel's
        return None
    logits = _matrix(site, node.inputs[1])
    softmax = site.scratch(node, logits, node.inputs[1].axis)
    inlet = site.sparse.get(node.inputs[0])
    total = Sum(site.values[node].reshape(1))
    rest: list[Cut] = ["rows", "rows", "whole"]
    if inlet is not None:
        kernel = _kernel(site, "sparse_cross_entropy")
        return sparse_calls(site, kernel, lambda: inlet.entries, (logits, softmax, total), [*ENTRIES, *rest], logits)
    arguments = (_matrix(site, node.inputs[0]), logits, softmax, total)
    return shared_calls(site, _kernel(site, "cross_entropy"), logits.shape, arguments, ["rows", *rest])


def bind_cross_entropy_gradient(site: Site, step: GradientStep) -> list[Call] | None:
    """Return the calls that compute the gradient by the logits, if that is all that is wanted."""
    (node,) = step.step.nodes
    wanted = [target.node for target in step.targets]
    if not _plain(site, node) or wanted != [node.inputs[1]]:
        return None
    out = site.gradients[node.inputs[1]].reshape(-1, elements_of(node.inputs[1]))
    softmax = site.scratch(node, out, node.inputs[1].axis)
    incoming = site.gradients[node].reshape(1)
    inlet = site.sparse.get(node.inputs[0])
    rest = (softmax, incoming, out, step.targets[0].accumulate)
    cuts: list[Cut] = ["rows", "whole", "rows", "whole"]
    if inlet is not None:
        kernel = _kernel(site, "sparse_cross_entropy_gradient")
        return sparse_calls(site, kernel, lambda: inlet.entries, rest, [*ENTRIES, *cuts], out)
    kernel = _kernel(site, "cross_entropy_gradient")
    return shared_calls(site, kernel, out.shape, (_matrix(site, node.inputs[0]), *rest), ["rows", *cuts])


def bind_classification_error(site: Site, step: Step) -> list[Call] | None:
    """Return the calls that count the rows whose best score is not the label's."""
    (node,) = step.nodes
    if len(node.inputs) != 2 or not _plain(site, node):
        return None
    scores = _matrix(site, node.inputs[1])
    inlet = site.sparse.get(node.inputs[0])
    total = Sum(site.values[node].reshape(1))
    cuts: list[Cut] = ["rows", "rows", "whole"]
    if inlet is not None:
        kernel = _kernel(site, "sparse_classification_error")
        return sparse_calls(site, kernel, lambda: (inlet.best,), (scores, total), cuts, scores)
    arguments = (_matrix(site, node.inputs[0]), scores, total)
    return shared_calls(site, _kernel(site, "classification_error"), scores.shape, arguments, cuts)


def _matrix(site: Site, node: Node) -> Array:
    return site.values[node].reshape(-1, elements_of(node))


_INTEGERS = "int64[::1]"
_MATRIX, _FLAT = "{dtype}[:, ::1]", "{dtype}[::1]"
_SIGNATURES = {
    "cross_entropy": f"void({_MATRIX}, {_MATRIX}, {_MATRIX}, {_FLAT})",
    "cross_entropy_gradient": f"void({_MATRIX}, {_MATRIX}, {_FLAT}, {_MATRIX}, boolean)",
    "classification_error": f"void({_MATRIX}, {_MATRIX}, {_FLAT})",
    "sparse_cross_entropy": f"void({_INTEGERS}, {_INTEGERS}, {_FLAT}, {_MATRIX}, {_MATRIX}, {_FLAT})",
    "sparse_cross_entropy_gradient": (
        f"void({_INTEGERS}, {_INTEGERS}, {_FLAT}, {_MATRIX}, {_FLAT}, {_MATRIX}, boolean)"
    ),
    "sparse_classification_error": f"void({_INTEGERS}, {_MATRIX}, {_FLAT})",
}


def _kernel(site: Site, name: str) -> Native:
    dtype = site.dtype.name
    return compile_file(
        Path(__file__).with_name("rowwise_kernels.py"), name, dtype, _SIGNATURES[name].format(dtype=dtype)
    )
