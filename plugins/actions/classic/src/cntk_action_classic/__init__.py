"""Actions beside train, test and write: adapt, cv, edit, plot, SVD, statistics and dumps."""
