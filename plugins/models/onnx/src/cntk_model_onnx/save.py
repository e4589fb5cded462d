"""Writing a file: the graph, what reads it back, and its weights as smaller numbers."""

from __future__ import annotations

from pathlib import Path

from cntk_core.api import Network
from cntk_model_onnx.export.exporter import export
from cntk_model_onnx.own import describe
from cntk_model_onnx.settings import ExportSettings
from cntk_model_onnx.wire import write_model


def save(network: Network, path: Path, settings: ExportSettings) -> None:
    """Write a network as ONNX.

    Raises:
        CntkError: it cannot be written; all nodes are named.
        OSError: the file cannot be written.
    """
    exported = export(network, settings)
    if settings.quantize != "none":
        from cntk_model_onnx.quantize import write_quantized

        write_quantized(exported, path, settings.quantize)
        return
    describe(exported, network)
    write_model(path, exported.model, exported.tensors)
