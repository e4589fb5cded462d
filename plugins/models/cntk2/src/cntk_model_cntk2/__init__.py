"""Model files of CNTK 2, and checkpoints of its Trainer."""
