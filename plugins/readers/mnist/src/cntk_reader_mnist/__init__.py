"""Reader for IDX files, the format of the MNIST digits, plain or gzipped."""
