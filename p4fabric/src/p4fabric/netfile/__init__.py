"""Networks with any P4 program, described by a file: on Mininet or in virtual time, with checks.

`network_schema` says what such a file may hold, `load_network` reads it, `install_entries` fills
switches with its entries, `plain_network` is the Mininet network that it describes, and
`network_run` brings that up and carries out the checks. `virtual_schema` has the keys of virtual
time, and the other `virtual_*` modules plan, build, run and judge it. `p4_utils`, `p4lang` and
`import_topology` make such files from those of others.
"""
