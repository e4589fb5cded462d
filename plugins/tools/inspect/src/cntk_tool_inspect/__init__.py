"""Looks at recipes, data and models: check-data, config, convert, convert-data, dump, explain, plot."""
