"""Records that all rooms speak in: the layout of sequences, and minibatches. They know nothing of anybody else."""
