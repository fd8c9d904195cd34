"""Which switch aggregates whose gradient, and over which path it goes."""
