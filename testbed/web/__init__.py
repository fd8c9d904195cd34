"""A run that goes on, as a page in a browser of this machine.

The page is made and served by a process of its own (`page_process`), so that charts cost the run
nothing but what it says of itself (`live_page`). It shows the tables of the terminal's live view,
and the report's charts as far as they have grown (`live_charts`). `page_server` is its web server.
"""
