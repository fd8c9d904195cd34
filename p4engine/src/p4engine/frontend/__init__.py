"""From P4 text to a checked syntax tree: preprocessor, lexer, parser, type checker, diagnostics."""
