"""The core's operations, each whole in one place."""
