"""Runs on Mininet: one experiment in real time, on network namespaces, host and switch processes.

mininet_run goes through one run in order. Beside it: session (what a run holds of the machine;
network_session: what any network does), switch_group and host_group (the processes of one
repetition), switch_backends (embedded or BMv2), watchdog, samplers, fault_injection, captures,
child_processes (what the forked processes call).
"""

from testbed import paths as paths  # says which program it is that the processes are of
