"""A P4-16 compiler for v1model that generates C, and a native switch around the generated pipeline.

From text to code, in the order of the passes: lexer, preprocess, parse_expr and parser (syntax
tree: ast), check_expr, check_calls, check_stmt and check (types), instantiate (what exists at
run time), layout (where values live), emit_* and reroll (C), codegen (the C file), build (C
compiler and cache). diagnostics is what they all report through; runtime/ is the C side. The
package imports nothing from the rest of testbed.
"""

from p4engine.frontend.diagnostics import Diagnostic, P4Error

__all__ = ["Compiled", "Diagnostic", "P4Error", "compile_program"]


def __getattr__(name: str) -> object:
    if name in ("compile_program", "Compiled"):
        from p4engine.backend import build

        return getattr(build, name)
    raise AttributeError(name)
