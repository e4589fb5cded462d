"""The contract: abstract bases of the kinds of plugins, and the records that cross them."""
