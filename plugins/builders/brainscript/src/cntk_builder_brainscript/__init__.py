"""Network builder for BrainScript."""

from cntk_builder_brainscript.builder import BrainScriptNetworkBuilder, CreateNetwork

__all__ = ["BrainScriptNetworkBuilder", "CreateNetwork"]
