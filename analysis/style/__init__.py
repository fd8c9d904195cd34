"""The look of systems, states and quantities in every report: colours, markers, units."""
