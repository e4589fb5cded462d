"""Reader for CNTK's text format (CTF), dense and sparse."""
