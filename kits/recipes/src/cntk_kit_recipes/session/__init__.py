"""A training as a recipe asks for it: epochs, rates that are given, adjusted or searched, validation, files."""
