"""What authors of execution engines share: stages of a plan, streams, expression trees, programs, an interpreter."""
