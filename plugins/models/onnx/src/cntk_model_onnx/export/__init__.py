"""From a network to a graph of ONNX."""
