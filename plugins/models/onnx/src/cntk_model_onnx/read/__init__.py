"""From a graph of ONNX to a network."""
