"""The files that a training leaves and goes on from: models, checkpoints, positions."""
