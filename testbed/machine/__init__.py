"""The abilities of this machine: doctor (installed and working tools), kernel_probe, preflight
(before a run), calibration (measured rates), capacity and memory_estimate (fit of an
experiment)."""
