"""CNTK's rules for the first values of parameters, and the words by which descriptions name them."""
