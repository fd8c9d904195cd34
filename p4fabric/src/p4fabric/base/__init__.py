"""The parts that all of p4fabric uses: errors and their words, quantities and tables of them, steps
that name themselves, topologies, configuration files, and Linux calls."""
