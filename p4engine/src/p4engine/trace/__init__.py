"""The path of one packet through a program, line by line."""
