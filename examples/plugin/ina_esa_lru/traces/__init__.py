"""Traces of models: every *.csv in this folder is a model of that name (docs/models.md)."""
