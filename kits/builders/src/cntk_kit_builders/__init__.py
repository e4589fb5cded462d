"""What authors of network builders share: editing, cloning, patterns of names, dumps."""
