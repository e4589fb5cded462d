"""Where the time of a step of training goes."""
