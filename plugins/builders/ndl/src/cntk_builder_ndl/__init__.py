"""Network builder for CNTK's network description language (NDL)."""

from cntk_builder_ndl.builder import NDLNetworkBuilder
from cntk_builder_ndl.files import macro_sources, snippet_sources
from cntk_builder_ndl.mel import MELBuilder
from cntk_builder_ndl.statements import Statements, add_statements

__all__ = ["MELBuilder", "NDLNetworkBuilder", "Statements", "add_statements", "macro_sources", "snippet_sources"]
