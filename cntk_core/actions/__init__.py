"""What a recipe can do: one file per action, the driver that runs them in order, and the tools around recipes."""
