"""Broken files for every reader: each is read, or refused with one clear message.

    python -m tests.support.broken_files COUNT [--seed N] [--reader NAME]

changes sound files at random and reads them, COUNT for each reader. An input that ends in anything
but a result or a UserError, or takes too long, is kept in a folder and named. With `--guided` the
changes are led by what they reach in the reader; `--gather` keeps the best of what that has found
for the tests.

readers.py says what reads what, changes.py how files are changed, campaign.py does the work,
guided.py does it led by coverage, corpus.py has what is kept.
"""
