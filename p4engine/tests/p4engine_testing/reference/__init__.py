"""A slow evaluator of a part of P4-16, against which the compiler is checked.

It shares nothing with the compiler, not even a parser: `generate` makes random programs as trees
of plain tuples (see `tree`), `text` prints them as P4, and `evaluate` runs them on Python's
integers, as the specification words it. What the specification leaves undefined (a field of an
invalid header) raises `Undefined`, and that packet is not compared. `campaign` compares several
builds of such programs, `fuzz` runs them under the sanitizers.
"""
