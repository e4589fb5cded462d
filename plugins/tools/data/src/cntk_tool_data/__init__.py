"""``cntk data``: data sets that somebody has downloaded, as files that recipes read."""
