"""Tests in the simple test format (STF): packets in, packets expected."""
