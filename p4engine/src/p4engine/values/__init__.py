"""Values of the control plane: numbers as people write them, matches, names with short forms."""
