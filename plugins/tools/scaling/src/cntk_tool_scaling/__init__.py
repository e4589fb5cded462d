"""How training scales: measuring this machine, and simulating many of them."""
