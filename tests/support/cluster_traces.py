"""Small files in the published forms of public cluster traces."""

from __future__ import annotations


def attempt(start, end, *gpus):
    detail = [{"ip": f"m{n}", "gpus": [f"gpu{i}" for i in range(count)]}
              for n, count in enumerate(gpus)]  # fmt: skip
    return {"start_time": start, "end_time": end, "detail": detail}


def entry(submitted, *attempts, status="Pass"):
    return {"status": status, "vc": "a", "jobid": "application_1", "attempts": list(attempts),
            "submitted_time": submitted, "user": "b"}  # fmt: skip


PHILLY = [
    entry("2017-10-07 02:00:00", attempt("2017-10-07 02:00:10", "2017-10-07 02:01:10", 8, 8)),
    entry("2017-10-07 01:00:00", attempt("2017-10-07 01:00:00", "2017-10-07 01:00:30", 4),
          attempt("2017-10-07 01:02:00", "2017-10-07 01:02:15", 2), status="Killed"),
    entry("2017-10-07 01:30:00"),  # never ran
    entry("2017-10-07 01:31:00", attempt(None, "None", 2)),
]  # fmt: skip
HELIOS = """\
job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue
7,u,vc,4,16,1,FAILED,2020-06-09 18:41:27,2020-06-09 18:41:27,2020-06-09 18:45:36,249,0
8,u,vc,0,16,1,COMPLETED,2020-06-09 18:41:28,2020-06-09 18:41:28,2020-06-09 18:45:36,248,0
9,u,vc,16,1,1,COMPLETED,2020-06-09 18:41:01,2020-06-09 18:42:01,2020-06-10 04:55:09,36788,60
10,u,vc,2,1,1,CANCELLED,2020-06-09 18:41:40,None,None,0,0
"""
ALIBABA = """\
j1,ps,1.0,Terminated,100.0,400.0,600.0,29.3,,
j1,worker,4.0,Terminated,120.0,390.0,600.0,29.3,50.0,MISC
j2,tensorflow,1.0,Running,90.0,,600.0,29.3,100.0,V100
j1,evaluator,1.0,Terminated,110.0,410.0,600.0,29.3,25.0,MISC
j3,worker,3.0,Failed,50.0,60.0,600.0,29.3,100.0,V100
"""
