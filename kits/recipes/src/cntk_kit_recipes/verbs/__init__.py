"""The verbs of the core, one file each. What is heavy is imported when one runs."""
