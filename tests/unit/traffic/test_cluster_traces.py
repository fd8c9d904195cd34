"""Public cluster traces: small files in their published forms, and what is wrong with others."""

from __future__ import annotations

import json

import pytest
from p4fabric.base.errors import UserError

from testbed.traffic.cluster_traces import read_cluster_trace, sampled
from tests.support.cluster_traces import ALIBABA, HELIOS, PHILLY, attempt, entry


def read(tmp_path, form, text):
    path = tmp_path / "trace"
    path.write_text(text)
    return path, read_cluster_trace(path, form)


def found(jobs):
    """(number, seconds since the first submission, seconds, GPUs)"""
    first = jobs[0].submit_ns
    return [
        (job.number, (job.submit_ns - first) / 1e9, job.duration_ns / 1e9, job.gpus) for job in jobs
    ]


def test_philly(tmp_path):
    _, jobs = read(tmp_path, "philly", json.dumps(PHILLY, indent=4))
    assert found(jobs) == [(2, 0, 45, 2), (1, 3600, 60, 16)]


def test_helios(tmp_path):
    _, jobs = read(tmp_path, "helios", HELIOS)
    assert found(jobs) == [(4, 0, 36788, 16), (2, 26, 249, 4)]


def test_alibaba_with_and_without_its_header(tmp_path):
    _, jobs = read(tmp_path, "alibaba", ALIBABA)
    assert found(jobs) == [(5, 0, 10, 3), (2, 60, 300, 3)]  # 4 x 0.5 + 1 x 0.25 GPUs, rounded up
    header = "job_name,task_name,inst_num,status,start_time,end_time,plan_cpu,plan_mem,plan_gpu,"
    _, named = read(tmp_path, "alibaba", f"{header}gpu_type\n{ALIBABA}")
    assert [job.gpus for job in named] == [3, 3] and named[0].number == 6


@pytest.mark.parametrize(
    ("form", "text", "place", "said"),
    [
        ("helios", HELIOS.replace(",4,16", ",four,16"), "line 2, column gpu_num: found 'four'",
         "a number of at least 0; correct it, or take the job out of the file"),
        ("helios", HELIOS.replace("2020-06-09 18:41:27,2", "9 June,2", 1),
         "line 2, column submit_time: found '9 June'", "a time such as"),
        ("helios", HELIOS.replace("249,0", "249"), "line 2, column 12: found 11 cells", "12 ("),
        ("helios", HELIOS.replace("gpu_num", "gpus"), "line 1, column gpu_num: missing among",
         "name a file cluster_log.csv of the Helios traces, or another `format`"),
        ("helios", ALIBABA, "line 1, column gpu_num", "another `format`"),
        ("helios", HELIOS[: HELIOS.index("7,u")], "there is no job with a GPU", "helios"),
        ("alibaba", ALIBABA.replace("50.0,MISC", "half,MISC"), "line 2, column plan_gpu",
         "found 'half'"),
        ("alibaba", ALIBABA.replace("50.0,60.0", "50.0,40.0"), "line 5, column end_time: found",
         "at least 50"),
        ("philly", "[{]", "line 1, column 3: not JSON", "download the file again"),
        ("philly", "{}", "line 1, column 1: found no list of jobs", "cluster_job_log"),
        ("philly", json.dumps([*PHILLY, {"jobid": "x"}]), "column attempts: found 'jobid'",
         "the keys attempts and submitted_time"),
    ],
)  # fmt: skip
def test_a_bad_file(tmp_path, form, text, place, said):
    with pytest.raises(UserError) as error:
        read(tmp_path, form, text)
    message = str(error.value)
    assert message.startswith(str(tmp_path / "trace")) and place in message and said in message


def test_an_error_of_philly_names_the_line_on_which_the_job_begins(tmp_path):
    bad = [*PHILLY, entry("2017-10-07 01:00:00", attempt("yesterday", "2017-10-07 01:00:30", 4))]
    text = json.dumps(bad, indent=1)
    line = text[: text.rindex(' {\n  "status"')].count("\n") + 1
    with pytest.raises(UserError, match=rf"line {line}, column attempts\[0\].start_time: found"):
        read(tmp_path, "philly", text)


def test_samples_have_no_job_twice_and_every_job_sometimes():
    drawn = [sampled(seed, 10, 4) for seed in range(300)]
    assert all(len(set(each)) == 4 and each == sorted(each) for each in drawn)
    counts = [sum(number in each for each in drawn) for number in range(10)]
    assert all(80 <= count <= 160 for count in counts)  # 120 expected
    assert sampled(3, 5, 5) == [0, 1, 2, 3, 4]
