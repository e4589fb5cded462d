"""What a run has to do with the machine: processes, the console."""
