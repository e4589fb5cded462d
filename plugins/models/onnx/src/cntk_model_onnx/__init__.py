"""ONNX files: networks written for other programs, and those of others read."""
