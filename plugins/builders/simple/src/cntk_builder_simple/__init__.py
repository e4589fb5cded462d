"""Network builder for CNTK's SimpleNetworkBuilder sections."""

from cntk_builder_simple.builder import SimpleNetworkBuilder

__all__ = ["SimpleNetworkBuilder"]
