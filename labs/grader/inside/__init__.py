"""The part of the grader that runs inside of the sandbox (sandbox.py), beside a submission.

A submission can read these files and change what they do in its own process. So there is nothing in
them but the protocol, and they import the standard library, the P4 engine and numpy alone.
"""
