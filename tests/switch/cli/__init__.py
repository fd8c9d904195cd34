"""The command line, where it runs something."""
