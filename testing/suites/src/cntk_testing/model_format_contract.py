"""The contract of model formats.

A plugin's test file subclasses :class:`ModelFormatContract`::

    class TestListFormat(ModelFormatContract):
        format_class = ListFormat
        writes = True

        def model_file(self, folder: Path) -> Path:
            path = folder / "net.netlist"
            path.write_bytes(...)
            return path
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from cntk_core.contract.model_format import BEGIN, ModelFormat
from cntk_core.errors import CntkError, UnsupportedError
from cntk_core.network.network import Network
from cntk_core.ops.table import core_ops
from cntk_testing.contract import Contract, check_component
from cntk_testing.networks import classifier

_OTHERS = {
    "an empty file": b"",
    "a recipe": b"command = Train\nTrain = [ action = train ]\n",
    "text": b"|features 1 2 |labels 0 1\n",
    "zeros": bytes(256),
    "noise": bytes((37 * index + 11) % 256 for index in range(256)),
}


class ModelFormatContract(Contract):
    """Tests of a model format for pytest: subclass it.

    Attributes:
        format_class: what is tested.
        writes: whether it has a ``save``.
    """

    format_class: ClassVar[type[ModelFormat]]
    writes: ClassVar[bool] = False

    def model_file(self, folder: Path) -> Path:
        """Write a small model in this format, and return its file. By default ``save`` writes :meth:`network`."""
        suffix = next(iter(self.format_class.suffixes), "")
        path = folder / f"contract{suffix}"
        self.format_class().save(self.network(), path)
        return path

    def network(self) -> Network:
        """Return a network that the format can write."""
        return classifier("float32").network

    def load(self, path: Path, dtype: Any = None) -> Network:
        """Read a file with the operations that the plugin may rely on: the core's."""
        return self.format_class().load(path, core_ops().find, dtype)

    def test_component(self) -> None:
        """It is a complete class that says for which interface it was written; suffixes are lower case with a dot."""
        check_component(self.format_class)
        odd = [text for text in self.format_class().suffixes if not text.startswith(".") or text != text.lower()]
        assert not odd, f"a suffix is written with its dot and in lower case, not {odd[0]!r}"

    def test_it_recognizes_its_own_files(self, tmp_path: Path) -> None:
        """Its own file is recognized by its first bytes, under any name."""
        path = self.model_file(tmp_path)
        other = path.rename(tmp_path / "model-without-suffix") if not self.format_class.suffixes else path
        assert self._recognizes(other)

    @pytest.mark.parametrize("what", _OTHERS)
    def test_it_recognizes_no_others(self, what: str, tmp_path: Path) -> None:
        """Other files are not recognized, so that other formats read them."""
        path = tmp_path / "other"
        path.write_bytes(_OTHERS[what])
        assert not self._recognizes(path), f"{what} is taken for a model of this format"

    @pytest.mark.parametrize("dtype", [None, np.float32, np.float64])
    def test_loading(self, dtype: Any, tmp_path: Path) -> None:
        """A model has its shapes, and all parameters have values of the precision that is asked for."""
        network = self.load(self.model_file(tmp_path), dtype)
        assert dtype is None or network.dtype == np.dtype(dtype)
        assert len(network)
        for node in network:
            assert node.shape is not None, f"'{node.name}' has no shape: infer them (network.infer())"
        for parameter in network.parameters:
            assert parameter.value is not None, f"the parameter '{parameter.name}' has no value"
            assert parameter.value.shape == parameter.shape
            assert parameter.value.dtype == network.dtype

    def test_damaged_files_are_refused(self, tmp_path: Path) -> None:
        """A file that ends too early gives an error that names it, wherever it was cut."""
        path = self.model_file(tmp_path)
        whole = path.read_bytes()
        for part in range(1, 16):
            path.write_bytes(whole[: len(whole) * part // 16])
            with pytest.raises(CntkError) as caught:
                self.load(path)
            assert path.name in str(caught.value), f"the error does not name the file: {caught.value}"

    def test_saving(self, tmp_path: Path) -> None:
        """What is written is recognized and reads back as the same; a format that does not write says so."""
        new = tmp_path / f"new{next(iter(self.format_class.suffixes), '')}"
        old = self.load(self.model_file(tmp_path))
        if not self.writes:
            with pytest.raises(UnsupportedError):
                self.format_class().save(old, new)
            return
        self.format_class().save(old, new)
        assert self._recognizes(new)
        again = self.load(new)
        values = {parameter.name: parameter.value for parameter in again.parameters}
        for parameter in old.parameters:
            assert parameter.value is not None
            np.testing.assert_array_equal(values[parameter.name], parameter.value)
        assert [node.describe() for node in again] == [node.describe() for node in old]

    def _recognizes(self, path: Path) -> bool:
        with path.open("rb") as file:
            return self.format_class().recognizes(file.read(BEGIN), path)
