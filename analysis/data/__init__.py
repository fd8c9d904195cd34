"""From results to numbers: per run, per sweep, measures with units and intervals."""
