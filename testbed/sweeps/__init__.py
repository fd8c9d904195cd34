"""Many runs: the points of a sweep, side by side or one by one, the figures of experiments/figures,
and the comparison of planners."""
