"""Which switch aggregates whose gradient, and over which path it goes.

`network` is what a planner knows, `planners/` are the planners, `assemble` makes a `plan` of their
choices, and `plan_check` checks it without their code. `tree` and `paths` serve all systems.
"""
