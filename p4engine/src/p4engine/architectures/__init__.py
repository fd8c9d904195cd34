"""The architectures that programs are written for, a folder each (middle/architecture.py)."""
