"""Model files of CNTK 1, and DBN files."""
