"""Updates folded into the products that compute gradients of weights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from cntk_core.api import Parameter
from cntk_core.api.engines import (
    GradientStep,
    LoopGradient,
    is_product,
    is_transposed,
    product_matrices,
    product_results,
    reaches_open,
)
from cntk_engine_cpu import products
from cntk_engine_cpu.gemm import CompiledProduct, Product
from cntk_engine_cpu.kernels import BoundNumbers, SharedNumbers
from cntk_engine_cpu.passes import rows_alone
from cntk_engine_cpu.rows import Row
from cntk_engine_cpu.site import Call, Site
from cntk_engine_cpu.sparse import inlet_of
from cntk_engine_cpu.update import Numbers, Update

PANEL_ELEMENTS = 131072
"""Most weights in one panel of a folded update: they and their slot stay in the second-level cache."""

LONGEST_ROW = 4096
"""Columns from which rows are cut, too."""

BAND_WIDTH = 1024
"""About how many columns a band then has."""

PANEL_OPERAND = 262144
"""Most numbers of the operand that every band of rows reads again: more are not in the cache any more by then."""

FOLD_BY_PANELS = 196608
"""Weights from which the folded update goes panel by panel. For fewer a second product costs more than it saves."""


def foldable(site: Site, update: Update, index: int) -> Parameter | None:
    """The parameter whose update can be folded into the product of a gradient step."""
    step = site.plan.gradients[index]
    if (
        isinstance(step, LoopGradient)
        or update.fold is None
        or not is_product(step.step.nodes[0])
        or len(step.step.nodes) != 1
        or reaches_open(step.step)
    ):
        return None
    left = step.step.nodes[0].inputs[0]
    if inlet_of(site, step.step.nodes[0]) is not None or left in rows_alone(site.plan, update):
        return None
    if not isinstance(left, Parameter) or all(target.node is not left for target in step.targets):
        return None
    read_later = any(left in later.reads for later in site.plan.gradients[index + 1 :])
    return left if site.plan.sole_writer(left) and not read_later else None


def fold_call(
    site: Site,
    update: Update,
    step: GradientStep,
    parameter: Parameter,
    place: Mapping[Parameter, int],
    current: list[Numbers],
) -> Call | None:
    """The call that computes the gradient of a parameter and updates it; None if the product is no plain one.

    ``place`` is where the parameter's numbers stand among ``current``.
    """
    assert update.fold is not None
    slot = update.store.slot(update.fold.slot, parameter)
    first, end = update.store.range(parameter)
    index = place[parameter]
    panels = _panels(site, update, step, parameter) if end - first >= FOLD_BY_PANELS else None
    if panels is None:
        product = products.weight_product(site, step, slot, parameter)
        if product is None:
            return None
        panels = [(product, update.bind_band(first, 1, end - first, end - first))]
    return Call(FoldedUpdate(update, panels, index, current))


Panel = tuple[Product, BoundNumbers | SharedNumbers]


class FoldedUpdate:
    """Computes the gradient of a parameter into its slot and updates it, panel by panel.

    Args:
        update: the rule.
        panels: the products, each with what is left of the rule for its band.
        index: where the numbers of the parameter stand among the ``current`` ones.
        current: the numbers of the present step.
    """

    def __init__(self, update: Update, panels: Sequence[Panel], index: int, current: list[Numbers]) -> None:
        self._panels = panels
        self._factors = update.factors()
        self._index = index
        self._current = current
        self._last: Numbers | None = None

    def __call__(self) -> None:
        """Compute the gradient and update."""
        numbers = self._current[self._index]
        alpha, beta = self._factors(numbers)
        for product, rest in self._panels:
            product(alpha, beta)
            rest.run(numbers)

    def rows(self) -> list[Row] | None:
        """The compiled functions that do it, None if there are none."""
        found: list[Row] = []
        for product, rest in self._panels:
            rows = rest.rows()
            if rows is None or not isinstance(product, CompiledProduct):
                return None
            found += [*product.rows(1.0, 0.0), *rows]
        return found

    def prepare(self) -> None:
        """Write the numbers of the step into the blocks if they have changed."""
        numbers = self._current[self._index]
        if numbers == self._last:
            return
        self._last = numbers
        alpha, beta = self._factors(numbers)
        for product, rest in self._panels:
            assert isinstance(product, CompiledProduct)
            product.set(alpha, beta)
            rest.set(numbers)


def _panels(site: Site, update: Update, step: GradientStep, parameter: Parameter) -> list[Panel] | None:
    """Products and passes for bands of rows of the stored weights, each small enough for the cache."""
    assert update.fold is not None
    (node,) = step.step.nodes
    slot = update.store.slot(update.fold.slot, parameter)
    found = product_matrices(node, slot, site.values[node.inputs[1]])
    if found is None:
        return None
    stored, rows = found
    gradient = product_results(node, site.gradients[node], stored)
    left, right = (gradient, rows) if is_transposed(node) else (rows, gradient)
    start, _ = update.store.range(parameter)
    total_rows, length = stored.shape
    cut = list(bands(total_rows, length, split_rows=site.gemm.takes_bands(stored.dtype)))
    if right.shape[0] * (cut[0][1].stop - cut[0][1].start) > PANEL_OPERAND:
        return None
    panels = []
    for rows_of_band, columns_of_band in cut:
        product = site.gemm.bind(
            left[:, rows_of_band],
            right[:, columns_of_band],
            stored[rows_of_band, columns_of_band],
            transpose_a=True,
            ports=site.ports,
        )
        first = start + rows_of_band.start * length + columns_of_band.start
        height, width = rows_of_band.stop - rows_of_band.start, columns_of_band.stop - columns_of_band.start
        panels.append((product, update.bind_band(first, height, width, length)))
    return panels


def bands(rows: int, columns: int, *, split_rows: bool) -> Iterator[tuple[slice, slice]]:
    """Cut a matrix into bands of at most about :data:`PANEL_ELEMENTS`, of nearly equal size.

    Whole rows are cut only where they are long: a product of a few long rows would mostly copy its other operand.
    """
    width = columns
    if split_rows and columns > LONGEST_ROW:
        width = -(-columns // -(-columns // BAND_WIDTH))
    count = max(1, -(-rows * width // PANEL_ELEMENTS))
    height = -(-rows // count)
    for left in range(0, columns, width):
        for top in range(0, rows, height):
            yield slice(top, min(top + height, rows)), slice(left, min(left + width, columns))
