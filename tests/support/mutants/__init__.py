"""Systematic mutation: every single change of some kinds in a source file must make a test fail.

It changes one operator, constant, statement or branch at a time in a P4 program (p4_changes.py) or
in a protocol (python_changes.py), and runs the tests that execute the line (coverage.py) until one
fails (campaign.py). What no test notices is a gap in the tests, or equal to the original in all
that can be observed; then equal.yaml says why.

    python -m tests.support.mutants p4/esa.p4 testbed/protocols/pool_server.py --results FOLDER

labs/tests/support/mutants.py does the same with the solutions of the labs, whose tests are the
checks.
"""
