"""P4Runtime: a switch's tables, counters, registers and packets for controllers over gRPC.

`device` is the switch as a controller sees it, without any network: messages in, messages out.
`service` puts it behind gRPC. Everything follows version 1.4 of the P4Runtime specification;
docs/p4runtime.md of the distribution says what is not offered.
"""
