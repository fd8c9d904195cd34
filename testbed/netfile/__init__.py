"""Networks with any P4 program and without training jobs: a file, `ina FILE`, and checks.

`network_schema` says what such a file may hold, `load_network` reads it, `install_entries` fills
switches with its entries, `plain_network` is the Mininet network that it describes, `network_run`
brings that up and carries out the checks, and `p4_utils` makes such files from a p4app.json of
p4-utils. docs/networks.md is the page for users.
"""
