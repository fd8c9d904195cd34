"""What several tests use; DEVELOPERS.md lists it. A test file imports this, and no other test."""
