"""The minibatch loop: sessions, runs, epochs, updates, evaluation."""
