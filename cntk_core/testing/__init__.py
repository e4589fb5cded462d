"""What authors of plugins test with: the reference engine, gradient checks, contract suites."""
