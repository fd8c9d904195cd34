"""python -m p4engine: the same as the command p4engine."""

import sys

from p4engine.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
