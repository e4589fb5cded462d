"""What a recipe says about training: the SGD block and what stands in it."""
