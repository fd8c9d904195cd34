"""Cost profiles: data with sources about what hosts and switches cost (docs/costs.md)."""
