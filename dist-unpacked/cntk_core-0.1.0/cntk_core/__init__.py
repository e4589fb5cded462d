"""cntk-core: a computational-network toolkit in which every part is a plugin."""

__version__ = "0.1.0"
