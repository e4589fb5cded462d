"""Network builder for BrainScript."""

from cntk_builder_brainscript.builder import BrainScriptNetworkBuilder

__all__ = ["BrainScriptNetworkBuilder"]
