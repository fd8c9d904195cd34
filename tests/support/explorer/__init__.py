"""Every order of events of a small network: a model checker over the real programs.

Random histories (tests/support/histories) draw what happens to packets; what nobody draws, nobody
sees. Here a network is so small that everything can happen: two workers, two fragments, one or two
aggregators. The switch runs the compiled P4 program, the hosts are the real machines; nothing is
modelled a second time. Packets in flight arrive in every order. A *fault* is a loss, a copy that
arrives later, or a timer that fires although something is in flight; up to a given number of them
happen, everywhere they can.

    python -m tests.support.explorer [SYSTEM...] [--faults N]

nodes.py saves and restores nodes, explore.py walks through the states, cases.py has the networks.
"""
