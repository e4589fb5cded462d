"""The front end of recipes: the command ``cntk``, the way through a recipe, ranks, and what authors of plugins need."""
