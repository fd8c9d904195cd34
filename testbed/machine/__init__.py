"""The abilities of this machine: doctor (installed and working tools), kernel_probe,
network_needs and preflight (before a run) and memory_estimate (fit of an experiment)."""
