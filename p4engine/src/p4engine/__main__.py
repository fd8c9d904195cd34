"""python -m p4engine: the same as the command p4engine."""

from p4engine.cli.main import main
from p4engine.process_end import exit_with

if __name__ == "__main__":
    exit_with(main)
