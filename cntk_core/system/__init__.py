"""What a run has to do with the machine: processes, locks, signals, the console."""
