"""A results folder's life: finished, failed, interrupted, killed, damaged."""

import json
import os
import re
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from p4fabric.base.errors import UserError

from testbed.analysis.data.sweep_data import is_sweep
from testbed.results import SWEEP_FILE, SchemaError, Writer, find, read
from testbed.results.reader import by_age
from testbed.results.writer import LONGEST
from tests.support.paths import ROOT
from tests.support.synthetic_results import ENVIRONMENT, FRAME, tables, write_run


def new(parent: Path) -> Writer:
    return Writer.create(parent, "a run/1", "name: a\nsystem: {name: esa}\n", ENVIRONMENT)


def test_a_finished_run_reads_as_it_was_written(tmp_path):
    results = read(write_run(tmp_path, stretches=(1.0, 2.0)))
    assert (results.state, results.fidelity, results.notice) == ("finished", "ok", "")
    assert results.finished
    assert results.experiment == {"name": "synthetic", "system": "esa"}
    assert results.environment == ENVIRONMENT
    assert results.jobs["jct_ns"].tolist() == [100_000_000, 60_000_000, 200_000_000, 120_000_000]
    assert results.jobs["ps_link_bytes_in"].tolist() == [28 * FRAME, 33 * FRAME] * 2
    assert results.jobs["communication_bound_ns"].isna().all()
    assert [str(results.jobs[name].dtype) for name in ("job", "values", "exact", "jct_ns")] == [
        "int32",
        "int64",
        "bool",
        "Int64",
    ]
    assert str(results.jobs["name"].dtype) != "category"  # as the file is read, to save memory
    assert len(results.iterations) == 2 * 10
    assert {path.name for path in results.folder.iterdir()} == {
        "status.json",
        "experiment.yaml",
        "environment.json",
        "tables",
        "logs",
        "figures",
    }
    assert not list(results.folder.rglob("*.part"))


def test_the_folder_is_named_after_run_time_and_id(tmp_path):
    first, second = new(tmp_path), new(tmp_path)
    assert first.folder.name.startswith("a-run-1-2")
    assert first.folder != second.folder


def test_a_writer_knows_its_folders(tmp_path):
    writer = new(tmp_path)
    for path in (writer.logs, writer.tables, writer.figures):
        assert path.is_dir() and path.parent == writer.folder


@pytest.mark.parametrize("length, cut", [(LONGEST, False), (LONGEST + 1, True)])
def test_a_long_reason_is_cut(tmp_path, length, cut):
    writer = new(tmp_path)
    writer.write("fidelity", tables()["fidelity"], repetition=0)
    writer.fail("x" * length)
    results = read(writer.folder)
    assert results.error == "x" * LONGEST + (" ..." if cut else "")
    assert results.fidelity == "ok"


def test_running_is_written_before_anything_else(tmp_path):
    writer = new(tmp_path)
    results = read(writer.folder)
    assert (results.state, results.finished) == ("running", False)
    assert "still going on" in results.notice
    assert results.jobs.empty and "jct_ns" in results.jobs
    assert str(results.jobs["workers"].dtype) == "int32"
    with pytest.raises(AttributeError, match="no attribute 'job'"):
        _ = results.job


def test_a_killed_run_leaves_a_readable_unfinished_folder(tmp_path):
    script = (
        "import sys, time, pathlib\n"
        "from tests.support.synthetic_results import tables\n"
        "from testbed.results import Writer\n"
        "writer = Writer.create(pathlib.Path(sys.argv[1]), 'killed', 'name: k', {})\n"
        "writer.write('iterations', tables()['iterations'], repetition=0)\n"
        "(writer.tables / '.jobs.parquet.part').write_bytes(b'half a fi')\n"
        "print('ready', flush=True)\n"
        "time.sleep(60)\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE
    )
    try:
        assert child.stdout.readline() == b"ready\n"
        (folder,) = find(tmp_path)
        assert read(folder).state == "running"
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()
        child.stdout.close()
    results = read(folder)
    assert (results.state, results.finished, results.fidelity) == ("killed", False, None)
    assert "was killed" in results.notice
    assert len(results.iterations) == 10
    assert results.jobs.empty


@pytest.mark.parametrize("part", ["_reserve", "_save"])
def test_an_interrupt_while_the_folder_is_made_is_written_down(tmp_path, monkeypatch, part):
    whole = getattr(Writer, part)

    def interrupted(writer, *arguments):
        if arguments[:1] in ((), ("experiment.yaml",)):
            raise KeyboardInterrupt
        return whole(writer, *arguments)

    monkeypatch.setattr(Writer, part, interrupted)
    with pytest.raises(KeyboardInterrupt):
        Writer.create(tmp_path, "soon", "system: esa", ENVIRONMENT)
    (folder,) = tmp_path.iterdir()
    assert read(folder).state == "interrupted"


def test_a_reused_process_id_does_not_bring_a_killed_run_back(tmp_path):
    writer = new(tmp_path)
    status = json.loads((writer.folder / "status.json").read_text())
    for change in ({"start_ticks": 1}, {"boot": "another"}):
        changed = status | {"process": status["process"] | change}
        (writer.folder / "status.json").write_text(json.dumps(changed))
        assert read(writer.folder).state == "killed"


@pytest.mark.parametrize(
    ("error", "state", "notice"),
    [
        (KeyboardInterrupt(), "interrupted", "INTERRUPTED: stopped before its end"),
        (RuntimeError("host h3 died"), "failed", "FAILED: host h3 died"),
    ],
)
def test_the_way_a_block_is_left_decides_the_state(tmp_path, error, state, notice):
    with pytest.raises(type(error)), new(tmp_path) as writer:
        raise error
    results = read(writer.folder)
    assert (results.state, results.notice) == (state, notice)


def test_a_block_that_does_not_say_how_it_ended_has_failed(tmp_path):
    with new(tmp_path) as writer:
        writer.write("jobs", tables()["jobs"], repetition=0)
    assert read(writer.folder).state == "failed"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"exact": False}, "wrong values"),
        ({"values_checked": 2559}, "2559 of 2560 values were checked"),
        ({"end_ns": None, "jct_ns": None}, "did not end"),
    ],
)
def test_a_run_with_unchecked_or_wrong_values_cannot_finish(tmp_path, changes, message):
    jobs = tables()["jobs"]
    jobs[0] |= changes
    with pytest.raises(SchemaError, match=message), new(tmp_path) as writer:
        writer.write("jobs", jobs, repetition=0)
        writer.finish()
    assert read(writer.folder).state == "failed"
    with pytest.raises(SchemaError, match="without a row in table jobs"):
        new(tmp_path).finish()


def test_ranks_of_a_program_may_get_different_numbers_of_values(tmp_path):
    jobs = tables()["jobs"]
    jobs[0]["values_checked"] += jobs[0]["workers"] - 1
    with new(tmp_path) as writer:
        writer.write("jobs", jobs, repetition=0)
        writer.finish()
    assert read(writer.folder).state == "finished"


def test_writing_adds_rows_and_a_refused_write_changes_nothing(tmp_path):
    writer = new(tmp_path)
    writer.write("jobs", tables()["jobs"], repetition=0)
    writer.write("jobs", tables()["jobs"], repetition=1)
    for again in (0, 1):
        with pytest.raises(SchemaError, match=f"more than one row with repetition={again}"):
            writer.write("jobs", tables()["jobs"], repetition=again)
    with pytest.raises(SchemaError, match="no table job; there are jobs"):
        writer.write("job", [])
    assert read(writer.folder).jobs["repetition"].tolist() == [0, 0, 1, 1]


def test_units_stand_in_the_files(tmp_path):
    folder = write_run(tmp_path)
    schema = parquet.read_schema(folder / "tables" / "hosts.parquet")
    assert schema.field("lag_p99_ns").metadata[b"unit"] == b"ns"
    assert schema.field("pss_bytes").metadata[b"unit"] == b"bytes"
    assert not schema.field("host").nullable


def test_columns_that_were_added_since_are_null(tmp_path):
    """Results of an earlier version are read: numbers and words."""
    folder = write_run(tmp_path)
    path = folder / "tables" / "jobs.parquet"
    stored = parquet.read_table(path)
    parquet.write_table(stored.drop_columns(["fallback", "gpu", "batch"]), path)
    jobs = read(folder).jobs
    assert jobs[["fallback", "gpu", "batch"]].isna().all(axis=None)
    parquet.write_table(stored.drop_columns(["name"]), path)
    with pytest.raises(UserError, match="has no column name: it is from another version"):
        _ = read(folder).jobs


def test_a_table_for_which_there_is_no_memory_is_not_damaged(tmp_path, monkeypatch):
    results = read(write_run(tmp_path))

    def refuse(*_, **__):
        raise pa.ArrowMemoryError("malloc of size 32768 failed")

    monkeypatch.setattr(parquet, "ParquetFile", refuse)
    with pytest.raises(MemoryError):
        _ = results.jobs


def test_other_folders_are_a_user_error(tmp_path):
    folder = write_run(tmp_path)
    with pytest.raises(UserError, match="no such results folder; the newest one there is"):
        read(tmp_path / "missing")
    with pytest.raises(UserError, match="(?s)holds results folders.*" + folder.name):
        read(tmp_path)
    with pytest.raises(UserError, match="is not a results folder"):
        read(folder / "tables")
    (folder / "tables" / "jobs.parquet").write_bytes(b"PAR1 but not really")
    with pytest.raises(UserError, match=r"jobs.parquet is damaged"):
        _ = read(folder).jobs
    write_run(tmp_path / "other")
    other = next((tmp_path / "other").iterdir()) / "tables" / "jobs.parquet"
    names = other.read_bytes().replace(b"jct_ns", b"\xf3ct_ns")
    (folder / "tables" / "jobs.parquet").write_bytes(names)
    with pytest.raises(UserError, match=r"jobs.parquet is damaged"):
        _ = read(folder).jobs
    status = json.loads((folder / "status.json").read_text())
    (folder / "tables").rename(tmp_path / "elsewhere")
    with pytest.raises(UserError, match="has finished, but its tables are not here; copy the who"):
        read(folder)
    (folder / "status.json").write_text(json.dumps(status | {"format": 99}))
    with pytest.raises(UserError, match="results of format 99, this version reads 1"):
        read(folder)
    for key in ("name", "fidelity"):
        less = {other: value for other, value in status.items() if other != key}
        (folder / "status.json").write_text(json.dumps(less))
        with pytest.raises(UserError, match=f"status.json can.t be read: {key} is missing"):
            read(folder)
    (folder / "status.json").write_text("[]")
    with pytest.raises(UserError, match="status.json can.t be read: found no keys and values"):
        read(folder)
    (folder / "status.json").write_text('{"form')
    with pytest.raises(UserError, match="status.json can't be read"):
        read(folder)


def test_a_folder_whose_files_have_another_shape_is_a_user_error_or_does_without(tmp_path):
    folder = write_run(tmp_path)
    status = json.loads((folder / "status.json").read_text())
    for key, value in (("name", 7), ("fidelity", ["ok"]), ("reasons", "none"), ("error", {})):
        (folder / "status.json").write_text(json.dumps(status | {key: value}))
        with pytest.raises(UserError, match=f"status.json can't be read: {key}: found"):
            read(folder)
    (folder / "status.json").write_text(json.dumps(status))
    for name in ("environment.json", "experiment.yaml"):
        kept = (folder / name).read_text()
        (folder / name).write_text("[1, 2]")
        assert read(folder).finished
        (folder / name).write_text("[" * 200 + "]" * 200)
        with pytest.raises(UserError, match=f"{name} can't be read: it is nested deeper"):
            read(folder)
        (folder / name).write_text(kept)
    (folder / "status.json").write_text(json.dumps(status | {"state": "running", "process": 5}))
    assert read(folder).state == "killed"


def test_a_folder_of_another_user_is_a_user_error(tmp_path):
    folder = write_run(tmp_path)
    folder.chmod(0)
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)  # root may read everything
    try:
        with pytest.raises(UserError) as error:
            read(folder)
        assert not is_sweep(folder)
    finally:
        os.seteuid(user)
        folder.chmod(0o700)
    assert re.fullmatch(r"\S+ can't be read: Permission denied", str(error.value))


def test_a_folder_that_cannot_be_made_is_a_user_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="can't make a results folder in"):
        new(tmp_path / "file")


def test_a_name_that_is_not_utf_8_is_a_user_error(tmp_path):
    folder = tmp_path / os.fsdecode(b"r\xff")
    for use in (new, read):
        with pytest.raises(UserError, match=r"results folder .*\\udcff' is not UTF-8, .* rename"):
            use(folder)
    assert not folder.exists()


def test_find_lists_the_oldest_first(tmp_path):
    first, second = new(tmp_path).folder, new(tmp_path).folder
    now = time.time()
    os.utime(second / "status.json", (now - 100, now - 100))
    assert find(tmp_path) == [second, first]
    assert find(tmp_path / "missing") == []
    assert stat.S_ISDIR(first.stat().st_mode)


def test_a_sweep_is_as_new_as_its_newest_run(tmp_path):
    ages = {"sweep/point/first": 10, "run": 20, "sweep/other/second": 30}
    for run, seconds in ages.items():
        (tmp_path / run).mkdir(parents=True)
        (tmp_path / run / "status.json").write_text("{}")
        os.utime(tmp_path / run / "status.json", (seconds, seconds))
    (tmp_path / "sweep" / SWEEP_FILE).write_text("")
    assert by_age(tmp_path) == [tmp_path / "run", tmp_path / "sweep"]
    assert by_age(tmp_path / "sweep") == [
        tmp_path / f"sweep/{each}" for each in ("point/first", "other/second")
    ]
