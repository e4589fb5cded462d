"""What is said of a model file without reading the model."""

from __future__ import annotations

import pytest
from model_files import make_network, rewrite

from cntk_core.errors import ModelFormatError
from cntk_core.network.model_file import (
    ModelInfo,
    is_own_format,
    read_model_info,
    read_model_origins,
    save_model,
)
from cntk_core.network.tensor_file import MAX_HEADER


@pytest.fixture
def path(tmp_path):
    save_model(make_network(), tmp_path / "net.dnn", ModelInfo(3, 129))
    return tmp_path / "net.dnn"


def test_what_begins_like_a_file_of_ours(path, tmp_path):
    assert is_own_format(path.read_bytes()[:9])
    assert is_own_format(MAX_HEADER.to_bytes(8, "little") + b"{")
    for begin in (b"", b"{" * 9, (MAX_HEADER + 1).to_bytes(8, "little") + b"{", bytes(9), b"\2" + bytes(7)):
        assert not is_own_format(begin)
    (tmp_path / "recipe").write_bytes(b"{" * 20)
    assert read_model_info(tmp_path / "recipe") == ModelInfo()
    assert read_model_origins(tmp_path / "recipe") == ()


@pytest.mark.parametrize("read", [read_model_info, read_model_origins])
def test_what_is_said_of_a_model_is_of_this_version(path, read):
    rewrite(path, lambda graph, metadata, arrays: metadata.update(version="7"))
    with pytest.raises(ModelFormatError, match="has format version 7; this program reads version 1"):
        read(path)
