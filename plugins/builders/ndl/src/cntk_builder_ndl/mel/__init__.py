"""CNTK's model editing language (MEL)."""

from cntk_builder_ndl.mel.builder import MELBuilder
from cntk_builder_ndl.mel.parser import parse
from cntk_builder_ndl.mel.run import Script

__all__ = ["MELBuilder", "Script", "parse"]
