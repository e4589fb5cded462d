"""Learning rates and sizes of minibatches: schedules, adjustment, search."""
