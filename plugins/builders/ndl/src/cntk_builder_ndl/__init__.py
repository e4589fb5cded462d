"""Network builder for CNTK's network description language (NDL)."""

from cntk_builder_ndl.builder import NDLNetworkBuilder

__all__ = ["NDLNetworkBuilder"]
