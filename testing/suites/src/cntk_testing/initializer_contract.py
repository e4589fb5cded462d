"""The contract of initializers.

A plugin's test file subclasses :class:`InitializerContract`::

    class TestOrthogonal(InitializerContract):
        initializer_class = Orthogonal
        shapes = ((4, 3), (2, 5, 5))
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray

from cntk_core.contract.initializer import InitializerSettings, ParameterInitializer
from cntk_testing.contract import Contract, check_component


class InitializerContract(Contract):
    """Tests of an initializer for pytest: subclass it.

    Attributes:
        initializer_class: what is tested.
        settings: what a description says beside the word.
        shapes: of parameters that it can fill, in memory order.
    """

    initializer_class: ClassVar[type[ParameterInitializer]]
    settings: ClassVar[InitializerSettings] = InitializerSettings()
    shapes: ClassVar[tuple[tuple[int, ...], ...]] = ((4, 3), (6,))

    def values(self, shape: tuple[int, ...], dtype: Any = np.float32, seed: int = 1) -> NDArray[Any]:
        """Return the first values of a parameter."""
        return self.initializer_class.make("contract", self.settings)(shape, np.dtype(dtype), seed)

    def test_component(self) -> None:
        """It is a complete class that says for which interface it was written."""
        check_component(self.initializer_class)

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_values(self, dtype: Any) -> None:
        """Values have the shape and the precision of the parameter, and are finite."""
        for shape in self.shapes:
            found = self.values(shape, dtype)
            assert found.shape == shape
            assert found.dtype == dtype

    def test_the_same_seed_gives_the_same_values(self) -> None:
        """A network that is built again, here or on another rank, begins with the same values."""
        for shape in self.shapes:
            first, second = self.values(shape, seed=7), self.values(shape, seed=7)
            assert np.array_equal(first, second), "the values depend on more than shape, precision, seed and settings"

    def test_seeds(self) -> None:
        """Another seed gives other values, unless the rule takes none."""
        same = all(np.array_equal(self.values(shape, seed=1), self.values(shape, seed=2)) for shape in self.shapes)
        name = self.initializer_class.__name__
        if self.initializer_class.takes_seed:
            assert not same, f"{name} does not look at the seed: say takes_seed = False"
        else:
            assert same, f"{name} says takes_seed = False, but its values differ from seed to seed"

    def test_it_leaves_no_trace(self) -> None:
        """NumPy's global random numbers are not touched: other parts of a run may use them."""
        before = np.random.get_state(legacy=False)
        self.values(self.shapes[0])
        after = np.random.get_state(legacy=False)
        assert repr(before) == repr(after), "the values come from NumPy's global random numbers: use the seed"
