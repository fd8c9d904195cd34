"""How systems, states and quantities look in every report: colours, markers, units."""
