"""Weights as smaller numbers, by the tools of onnx and onnxruntime. Such files are not read back as they were."""

from __future__ import annotations

import logging
import tempfile
from pathlib import Path

from onnx import ModelProto

from cntk_core.api import PluginUnavailableError
from cntk_core.api.builders import write_file
from cntk_model_onnx.export.exporter import Exported
from cntk_model_onnx.wire import write_model

INSTALL = "pip install 'cntk-model-onnx[check]'"


def write_quantized(exported: Exported, path: Path, how: str) -> None:
    """Write a file with weights of 8 bits, of which products are computed, or all numbers of 16 bits.

    Args:
        exported: the graph.
        path: the file.
        how: ``int8`` or ``fp16``.

    Raises:
        PluginUnavailableError: onnxruntime, whose tools these are, is not there.
        OSError: the file cannot be written.
    """
    with tempfile.TemporaryDirectory() as folder:
        whole, smaller = Path(folder) / "whole.onnx", Path(folder) / "smaller.onnx"
        write_model(whole, exported.model, exported.tensors)
        if how == "int8":
            _to_int8(whole, smaller)
        else:
            _to_fp16(whole, smaller)
        write_file(path, [smaller.read_bytes()])


def _to_int8(whole: Path, smaller: Path) -> None:
    try:
        from onnxruntime.quantization import QuantType, quantize_dynamic
    except ImportError as error:
        raise missing(str(error)) from None
    folded = whole.with_name("folded.onnx")
    _fold(whole, folded)
    logger = logging.getLogger()
    level = logger.level
    logger.setLevel(logging.ERROR)  # it recommends what was done
    try:
        quantize_dynamic(folded, smaller, weight_type=QuantType.QInt8, extra_options={"MatMulConstBOnly": True})
    finally:
        logger.setLevel(level)


def _fold(whole: Path, folded: Path) -> None:
    """Compute what depends on weights alone, so that the weights of all products are constant tensors."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = str(folded)
    onnxruntime.InferenceSession(str(whole), options, providers=["CPUExecutionProvider"])


def _to_fp16(whole: Path, smaller: Path) -> None:
    try:
        from onnxruntime.transformers.float16 import convert_float_to_float16
    except ImportError as error:
        raise missing(str(error)) from None
    model = ModelProto.FromString(whole.read_bytes())
    found = convert_float_to_float16(model, keep_io_types=True)
    smaller.write_bytes(found.SerializeToString())


def missing(why: str) -> PluginUnavailableError:
    """Return the error for onnxruntime, which is not there."""
    return PluginUnavailableError(f"onnxruntime cannot be imported: {why}", hint=INSTALL)
