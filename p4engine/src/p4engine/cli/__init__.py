"""The command `p4engine`: main.py, and a file for each command with output of its own."""
