"""A P4-16 compiler that generates C, and a native switch around the generated pipeline.

From text to code, in the order of the passes: frontend (preprocessor, lexer, parser and type
checker; diagnostics is what all passes report through), middle (instantiate: what exists at run
time; layout: where values live), backend (emit_* and reroll: C; build: C compiler and cache).
runtime/ is the C side. switch/ runs the result, control/ and p4runtime/ control it, stf/ and trace/
test and show it. The package imports nothing of the testbed.
"""

from p4engine.frontend.diagnostics import Diagnostic, P4Error

__all__ = ["Compiled", "Diagnostic", "P4Error", "compile_program"]


def __getattr__(name: str) -> object:
    if name in ("compile_program", "Compiled"):
        from p4engine.backend import build

        return getattr(build, name)
    raise AttributeError(name)
