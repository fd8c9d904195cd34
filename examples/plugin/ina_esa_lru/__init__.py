"""ESA-LRU: a system in a package of its own, with a planner, a topology and a model."""
