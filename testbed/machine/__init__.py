"""The abilities of this machine: doctor (what is installed and works), kernel_probe, preflight
(before a run), calibration (what it measured), capacity and memory_estimate (whether an experiment
fits)."""
