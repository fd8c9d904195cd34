"""Reports as text for terminals and files."""
