"""The words of the command that this wheel adds."""
