"""The computational network: named nodes with ordered inputs, roots by role, checks."""
