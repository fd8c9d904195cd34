"""A class: one folder, from the list of its students to the marks that go back to them.

    CLASS/roster.csv        who is in the class: folder, id, name, e-mail, own deadlines (roster.py)
    CLASS/course.yaml       what labs count, deadlines, the class secret (grader/course.py)
    CLASS/questions.csv     points of the questions, by the teacher (questions.py)
    CLASS/overrides.csv     points that the teacher has changed, with reasons (overrides.py)
    CLASS/submissions/      STUDENT/LAB/ (handed_in.py)
    CLASS/results/          what `mark` makes: gradings.json, marks.csv, feedback/, ...

The roster is the source of truth: every student in it has a mark in each lab of the course, also
those who have handed in nothing, and nobody else has one. The tests of a submission are run once
and kept (gradings.py). A mark is then computed from what is kept and from the tables (marks.py), so
a change of a table needs no test to run again.
"""
