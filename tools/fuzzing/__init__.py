"""Fuzzers of everything that reads what somebody else has written; `tools/fuzz.py` is the command."""
