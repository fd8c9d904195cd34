"""The tables of a report: their columns, and their rows from the frames of `data`."""
