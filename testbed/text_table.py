"""The one look of printed tables: a title at the left, thin lines, words left and numbers right.

Results and plans are printed by different packages (analysis/text/text_tables.py,
testbed/cli/plan_text.py) in the same terminal, so what their tables look like is said once."""

from __future__ import annotations

from rich import box
from rich.table import Table


def new_table(title: str, *columns: str, left: int = 1) -> Table:
    """A table without rows; its first `left` columns hold words, the others numbers."""
    table = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number < left else "right", vertical="top")
    return table
