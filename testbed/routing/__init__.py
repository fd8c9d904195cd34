"""Planning: the switches that aggregate each worker's gradients, and the paths of gradients.

`network` is a planner's input, `planners/` has the planners, `assemble` turns their choices into a
`plan`, and `plan_check` checks it independently. All systems use `tree`, on the routes of `hops`,
and `paths`.
"""
