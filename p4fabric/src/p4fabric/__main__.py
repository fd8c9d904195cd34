"""`python -m p4fabric`."""

from p4fabric.cli import entry

if __name__ == "__main__":
    entry()
