"""C code for a checked program, its compilation, and the cache of compiled programs."""
