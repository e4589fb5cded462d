"""Network builder for networks that a Python function describes with composable layers."""
