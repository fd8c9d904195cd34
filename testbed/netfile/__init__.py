"""Networks with anybody's P4 program and no training jobs: a file, `run.py FILE`, and what must
hold.

`network_schema` says what such a file may hold, `load_network` reads it, `install_entries` fills
switches with its entries, `plain_network` is the Mininet network that it describes, `network_run`
brings that up and carries out the checks, and `tutorials` makes such files from the topologies of
the P4 tutorials. docs/networks.md is the page for users.
"""
