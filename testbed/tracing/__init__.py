"""The path of a fragment through a run: every hop of every packet of it, and where it waited.

`fragments` (how a fragment is named), `packets` (the header in a frame), `watch` (what switches do
with it), `rerun` (a run in virtual time once more), `replay` (the captures of a run on Mininet),
`path` (steps in order, linked to each other, and the way along which the result came late),
`lanes` (the picture), `trace_text` (the text).
"""
