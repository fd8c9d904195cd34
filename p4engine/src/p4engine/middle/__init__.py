"""The program at run time: instances of controls, tables and externs, and the layout of values."""
