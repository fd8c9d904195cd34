"""Networks with anybody's P4 program and no training jobs: a file, `run.py FILE`, and what must
hold.

`schema` says what such a file may hold, `load` reads it, `install` fills switches with its
entries, `network` is the Mininet network it describes, `run` brings that up and checks what is to
be checked, `tutorials` makes such files out of the P4 tutorials' topologies. docs/networks.md is
the page for users.
"""
