"""The file of an artifact: what comes out is what went in, and no bad file does harm."""

from __future__ import annotations

import json
import stat
import zipfile
from pathlib import Path

import pytest
from p4fabric.base.errors import UserError

from testbed.artifacts import archive
from testbed.cli.main import main
from testbed.results import read
from tests.support.synthetic_results import write_experiment_run, write_sweep

MANIFEST = {
    "format": archive.FORMAT,
    "kind": "run",
    "name": "x",
    "testbed": "0",
    "commit": None,
    "runs": [],
}


@pytest.fixture
def sound(tmp_path):
    """An artifact with the members a/b and c."""
    (tmp_path / "one").write_text("one\n" * 1000)
    (tmp_path / "two").write_text("two")
    path = tmp_path / "sound.ina.zip"
    archive.write(path, MANIFEST, {"a/b": tmp_path / "one", "c": tmp_path / "two"})
    return path


def members(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as file:
        return {name: file.read(name) for name in file.namelist()}


def rewritten(path: Path, inside: dict[str, bytes], **manifest) -> Path:
    """An artifact with these members, and other entries in its manifest."""
    told = json.loads(inside[archive.MANIFEST]) | manifest
    inside = inside | {archive.MANIFEST: json.dumps(told).encode()}
    return zipped(path, list(inside.items()))


def zipped(path: Path, content: list[tuple[str | zipfile.ZipInfo, bytes]]) -> Path:
    made = path.with_name("other.ina.zip")
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in content:
            file.writestr(name, data)
    return made


def refused(path: Path, folder: Path) -> str:
    """The message about a bad file, of which nothing may be left outside `folder`."""
    around = set(folder.parent.rglob("*"))
    folder.mkdir()
    with pytest.raises(UserError) as error:
        archive.unpack(path, folder)
    new = set(folder.parent.rglob("*")) - around
    assert all(each == folder or folder in each.parents for each in new)
    return str(error.value)


def test_members_come_out_as_they_went_in(sound, tmp_path):
    (tmp_path / "out").mkdir()
    manifest = archive.unpack(sound, tmp_path / "out")
    assert (tmp_path / "out" / "a" / "b").read_text() == "one\n" * 1000
    assert (tmp_path / "out" / "c").read_text() == "two"
    assert manifest["files"]["c"]["bytes"] == 3
    assert not (tmp_path / "out" / archive.MANIFEST).exists()
    # Equal contents make equal files, whatever they are called.
    again = tmp_path / "again.ina.zip"
    archive.write(again, MANIFEST, {"c": tmp_path / "two", "a/b": tmp_path / "one"})
    assert again.read_bytes() == sound.read_bytes()


@pytest.mark.parametrize(
    "name",
    ["../out", "/etc/out", "a/../../out", "a\\..\\out", "a//b", "./a", "a\nb", "x" * 300],
)
def test_a_member_that_leaves_the_folder_is_refused(sound, tmp_path, name):
    path = zipped(sound, [*members(sound).items(), (name, b"bad")])
    assert "would not stay inside a folder" in refused(path, tmp_path / "out")


def test_a_link_is_refused(sound, tmp_path):
    link = zipfile.ZipInfo("link")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    path = zipped(sound, [*members(sound).items(), (link, b"/etc/passwd")])
    assert "no plain file" in refused(path, tmp_path / "out")


def test_members_and_manifest_must_be_the_same(sound, tmp_path):
    content = members(sound)
    cases = {
        "missing": {key: value for key, value in content.items() if key != "c"},
        "is not in its manifest": content | {"d": b"more"},
        "not the size": content | {"c": b"longer"},
        "is not what its manifest.json says": content | {"c": b"owt"},
        "no manifest.json": {"c": b"two"},
        "not JSON": content | {archive.MANIFEST: b"{"},
    }
    for number, (words, changed) in enumerate(cases.items()):
        path = zipped(sound, list(changed.items()))
        assert words in refused(path, tmp_path / f"out{number}"), words


def test_a_manifest_that_lies_is_refused(sound, tmp_path):
    content = members(sound)
    files = json.loads(content[archive.MANIFEST])["files"]
    hashes = {name: each["sha256"] for name, each in files.items()}
    cases = {
        "its format is 99": {"format": 99},
        "runs: found": {"runs": {}},
        "does not say size and sha256": {"files": files | {"c": {"bytes": "3"}}},
        "hash of its content": {"content": archive.content_hash(hashes | {"c": "0" * 64})},
        "member '../c' is missing": {"files": files | {"../c": files["c"]}},
    }
    for number, (words, changed) in enumerate(cases.items()):
        path = rewritten(sound, content, **changed)
        assert words in refused(path, tmp_path / f"out{number}"), words


def test_sizes_are_limited_before_anything_is_unpacked(sound, tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "MAX_BYTES", 3000)
    assert "it unpacks to" in refused(sound, tmp_path / "out")
    monkeypatch.setattr(archive, "MAX_MEMBERS", 2)
    assert "3 members" in refused(sound, tmp_path / "out2")


def test_a_damaged_file_is_one_clear_error(sound, tmp_path, capsys):
    data = sound.read_bytes()
    cases = [b"", b"no zip", data[: len(data) // 2], data[:100] + b"\xff" * 40 + data[140:]]
    for number, content in enumerate(cases):
        path = tmp_path / f"bad{number}.zip"
        path.write_bytes(content)
        assert main(["verify", str(path), "--no-run"]) == 2
        said = capsys.readouterr().err
        assert said.startswith("error: ") and "artifact" in said and "Traceback" not in said
    assert main(["verify", str(tmp_path / "nowhere"), "--no-run"]) == 2
    assert "can't be read: No such file" in capsys.readouterr().err


def test_a_run_is_packed_whole_and_only_when_it_has_finished(tmp_path, capsys):
    folder = write_experiment_run(tmp_path / "runs").folder
    made = tmp_path / "done.ina.zip"
    assert main(["pack", str(folder), "-o", str(made), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    inside = members(made)
    assert told["content"] == json.loads(inside[archive.MANIFEST])["content"]
    assert {"run/status.json", "run/tables/jobs.parquet", "run/experiment.yaml"} <= set(inside)
    assert main(["verify", str(made), "--no-run", "--json"]) == 0
    checked = json.loads(capsys.readouterr().out)
    assert checked["agrees"] and [run["outcome"] for run in checked["runs"]] == ["as packed"]
    assert main(["pack", str(folder), "-o", str(made)]) == 2
    assert "is there already" in capsys.readouterr().err
    status = json.loads((folder / "status.json").read_text())
    (folder / "status.json").write_text(json.dumps(status | {"state": "failed"}))
    assert not read(folder).finished
    assert main(["pack", str(folder), "-o", str(tmp_path / "not.zip")]) == 2
    assert "only a finished run can be packed" in capsys.readouterr().err


def test_tables_that_were_exchanged_are_found(tmp_path, capsys):
    """Though every hash of a file is right."""
    folder, other = (
        write_experiment_run(tmp_path / "runs", stretch=stretch).folder for stretch in (1.0, 1.1)
    )
    made = tmp_path / "made.ina.zip"
    assert main(["pack", str(folder), "-o", str(made)]) == 0
    manifest = json.loads(members(made)[archive.MANIFEST])
    files = {name: folder / name.removeprefix("run/") for name in manifest["files"]}
    table = "run/tables/iterations.parquet"
    files[table] = other / table.removeprefix("run/")
    archive.write(made, manifest, files)
    capsys.readouterr()
    assert main(["verify", str(made), "--no-run"]) == 2
    assert "its tables have another digest" in capsys.readouterr().err


def test_a_sweep_is_packed_when_all_points_have_finished(tmp_path, capsys):
    folder = write_sweep(tmp_path)
    assert main(["pack", str(folder), "-o", str(tmp_path / "x.zip")]) == 2
    assert "points have not finished" in capsys.readouterr().err


def test_a_figure_that_was_not_run_says_how(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["pack", "headline"]) == 2
    said = capsys.readouterr().err
    assert "has not been run" in said and "figure headline" in said
