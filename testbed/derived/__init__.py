"""What follows from an experiment: what every host is told (host_specs), timers, windows and bounds
in the units of its links, where its jobs' fragments meet (job_trees), and what a GRID plan means
for switches and hosts (plan_input, plan_entries).

The data plane, the hosts of both runtimes and the estimates of machine/ read the same numbers here.
"""
