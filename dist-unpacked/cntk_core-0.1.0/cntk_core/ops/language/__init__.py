"""The language of operations: what an op is, how it is defined, shapes, and values with and without frames."""
