"""``cntk init``: looks at data, and writes a recipe that trains on them."""
