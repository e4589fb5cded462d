"""Starting the ranks of a run, and watching their processes."""
