"""What all parts of p4fabric use: errors and their words, quantities and tables of them, steps that
name themselves, topologies, configuration files, and Linux calls."""
