"""Network builder for CNTK's SimpleNetworkBuilder sections."""
