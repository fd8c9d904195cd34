"""The blocks of a pipeline to C functions, whatever the architecture."""

from __future__ import annotations

from p4engine.backend.context import Context, Frame
from p4engine.backend.emit_inline import InlineEmitter
from p4engine.backend.emit_parser import ParserEmitter
from p4engine.frontend import ast
from p4engine.middle.instantiate import BlockInstance


class StageEmitter:
    """Writes blocks whose parameters are bound to the packet's state."""

    def __init__(self, context: Context, inline: InlineEmitter, parsers: ParserEmitter) -> None:
        self.context, self.inline, self.parsers = context, inline, parsers

    def stage(self, name: str, block: BlockInstance, bindings: list[str], behind: str = "") -> str:
        """C statements of one block of the package, its parameters bound to the packet's state;
        `behind` are statements at its end."""
        context = self.context
        parser = isinstance(block.decl, ast.Parser)
        context.block = block
        for parameter, text in zip(block.decl.parameters, bindings, strict=True):
            context.names[id(parameter)] = text
        context.depth = context.temps = 0
        context.frame = Frame(f"{name}_done", None if parser else f"{name}_exit")
        with context.capture() as made:
            if parser:
                self.parsers.body(block)
            else:
                self.inline.control_body(block)
            for label in (context.frame.return_label, context.frame.exit_label):
                if label in context.used_labels:
                    made.append(f"{label}:;")
            if behind:
                made.append(behind)
        body = "{ " + "\n".join(made) + " }"
        with context.capture() as stage:
            context.trace.stage_begun(name, block.decl)
            stage.append(body)
            context.trace.stage_ended(name, block.decl)
        return body if len(stage) == 1 else "{ " + "\n".join(stage) + " }"

    def function(self, head: str, body: str) -> str:
        """A C function; pointers to the records that it uses come first."""
        used, self.context.used_records = self.context.used_records, set()
        self.context.prefetched.clear()
        pointers = "".join(
            f"rec_{g} *restrict R{g} = (rec_{g} *)I->records[{g}];\n" for g in sorted(used)
        )
        return f"{head} {{\n{pointers}{body}\n}}\n"
