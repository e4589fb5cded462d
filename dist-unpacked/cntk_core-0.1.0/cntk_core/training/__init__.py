"""Training: the session, schedules, updates, checkpoints."""
