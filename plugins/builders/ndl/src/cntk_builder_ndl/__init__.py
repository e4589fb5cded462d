"""Network builder for CNTK's network description language (NDL)."""
