"""The abilities of this machine: doctor (installed and working tools), kernel_probe, preflight
(before a run) and memory_estimate (fit of an experiment)."""
