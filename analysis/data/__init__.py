"""Numbers from results: per run, per sweep, measures with units and intervals."""
