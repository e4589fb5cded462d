"""What a recipe can do: the driver that runs its actions in order, and the actions train, test and write."""
