"""What is installed and why something is not usable; new wheels, and checks of what is there."""
