"""Which switch aggregates whose gradients, and over which paths they go.

`network` is a planner's input, `planners/` has the planners, `assemble` turns their choices into a
`plan`, and `plan_check` checks it independently. All systems use `tree` and `paths`.
"""
