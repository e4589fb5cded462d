"""What the original's tests lend to its tutorials."""
