"""One module for each way to train: ours and the peers."""
