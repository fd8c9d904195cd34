"""Reading of configuration files of all kinds: YAML with line numbers, quantities
with units, the kinds of value that a key can have, and problems that name place and remedy.

The experiment file, network files, graph files and the options of systems are described with this.
"""
