"""Teaching labs with their graders; README.md is the way in, TEACHERS.md the teacher's."""
