"""The adders of gradients in host code; testbed/number_formats.py lists them."""
