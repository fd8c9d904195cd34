"""Reading of configuration files of all kinds: YAML with line numbers, quantities
with units, the kinds of value that a key can have, and problems that name place and remedy.

Network files and all others that users write are described with this.
"""
