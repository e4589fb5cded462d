"""What a release is made of, step by step; ``tools/release.py`` runs them."""
