"""The file of an artifact: a ZIP whose manifest lists every other member with its size and hash.

It may come from anybody. So nothing is written before the list of members is known to be harmless:
names that stay inside a folder, nothing but plain files, sizes within limits. Nothing larger than
its manifest says is ever unpacked.
"""

from __future__ import annotations

import hashlib
import json
import re
import stat
import zipfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from p4fabric.base.config.data_files import DAMAGED_ZIP, DataError, opened, require
from p4fabric.base.errors import UserError
from p4fabric.base.linux.whole_files import whole

FORMAT = 1  # raised when this version's verify would misread the file, or an older one this file
MANIFEST = "manifest.json"
SUFFIX = ".ina.zip"
MAX_MEMBERS = 100_000
MAX_BYTES = 4 << 30  # of all members together
MAX_MANIFEST = 32 << 20
MAX_NAME = 240
_PIECE = 1 << 20
_NAME = re.compile(r"[A-Za-z0-9._+=,@-]+(/[A-Za-z0-9._+=,@-]+)*")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_KINDS: dict[str, type | tuple[type, ...]] = {
    "format": int,
    "kind": str,
    "name": str,
    "testbed": str,
    "commit": (str, type(None)),
    "runs": list,
    "files": dict,
    "content": str,
}


def content_hash(files: Mapping[str, str]) -> str:
    """SHA-256 of all members: `files` is their hashes by name."""
    whole = hashlib.sha256()
    for name in sorted(files):
        whole.update(f"{files[name]}  {name}\n".encode())
    return whole.hexdigest()


def write(path: Path, manifest: dict[str, Any], files: Mapping[str, Path]) -> dict[str, Any]:
    """Write an artifact; returns its manifest, to which "files" and "content" are added. files:
    where each member is. Raises UserError."""
    listed: dict[str, dict[str, Any]] = {}
    try:
        with whole(path) as half, zipfile.ZipFile(half, "w", zipfile.ZIP_DEFLATED) as archive:
            for name in sorted(files):
                data = files[name].read_bytes()
                listed[name] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
                archive.writestr(_member(name), data, zipfile.ZIP_DEFLATED)
            hashes = {name: each["sha256"] for name, each in listed.items()}
            said = {**manifest, "files": listed, "content": content_hash(hashes)}
            archive.writestr(_member(MANIFEST), json.dumps(said, indent=1) + "\n")
        return said
    except OSError as error:
        raise UserError(f"{path} can't be written: {error.strerror}") from None


def _member(name: str) -> zipfile.ZipInfo:
    """The same for the same name: equal contents make equal files."""
    member = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
    member.external_attr = (stat.S_IFREG | 0o644) << 16
    member.compress_type = zipfile.ZIP_DEFLATED
    return member


def unpack(path: Path, folder: Path) -> dict[str, Any]:
    """Unpack an artifact into an empty folder; returns its manifest. Raises UserError for a file
    that is no artifact, is damaged, or might do harm."""
    try:
        with opened(path, MAX_BYTES) as file, zipfile.ZipFile(file) as archive:
            members = _members(path, archive)
            manifest = _manifest(path, archive, members)
            for name, listed in manifest["files"].items():
                _unpack_one(path, archive, members[name], listed, folder / PurePosixPath(name))
    except OSError as error:
        raise UserError(f"{path} can't be read: {error.strerror or error}") from None
    except DAMAGED_ZIP as error:
        raise UserError(f"{path} is no artifact, or is damaged: {str(error)[:200]}") from None
    return manifest


def _members(path: Path, archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    listed = archive.infolist()
    if len(listed) > MAX_MEMBERS:
        raise _bad(path, f"it has {len(listed)} members; at most {MAX_MEMBERS} are read")
    found: dict[str, zipfile.ZipInfo] = {}
    for member in listed:
        name = member.filename
        if not harmless(name):
            raise _bad(path, f"member {name[:80]!r} would not stay inside a folder")
        kind = stat.S_IFMT(member.external_attr >> 16)
        if kind not in (0, stat.S_IFREG):
            raise _bad(path, f"member {name!r} is no plain file")
        if name in found:
            raise _bad(path, f"member {name!r} is in it twice")
        found[name] = member
    # What is a file cannot be a folder, too.
    for name in found:
        for parent in PurePosixPath(name).parents:
            if str(parent) in found:
                raise _bad(path, f"member {str(parent)!r} is a file and a folder")
    total = sum(member.file_size for member in listed)
    if total > MAX_BYTES:
        raise _bad(path, f"it unpacks to {total >> 20} MiB; at most {MAX_BYTES >> 20} are read")
    return found


def harmless(name: str) -> bool:
    """True if a member's name is that of a file inside the folder that it is unpacked into."""
    if len(name) > MAX_NAME or not _NAME.fullmatch(name):
        return False
    return not any(part in (".", "..") for part in name.split("/"))


def _manifest(
    path: Path, archive: zipfile.ZipFile, members: Mapping[str, zipfile.ZipInfo]
) -> dict[str, Any]:
    if MANIFEST not in members:
        raise _bad(path, f"it has no {MANIFEST}, so it is no artifact of `pack`")
    if members[MANIFEST].file_size > MAX_MANIFEST:
        raise _bad(path, f"its {MANIFEST} is larger than {MAX_MANIFEST >> 20} MiB")
    with archive.open(MANIFEST) as file:
        text = file.read(MAX_MANIFEST + 1)
    try:
        manifest = json.loads(text)
    except (ValueError, RecursionError):
        raise _bad(path, f"its {MANIFEST} is not JSON") from None
    if isinstance(manifest, dict) and manifest.get("format") != FORMAT:
        found = manifest.get("format")
        raise _bad(path, f"its format is {found!r}; this version of the testbed reads {FORMAT}")
    try:
        require(manifest, _KINDS, Path(f"{path}:{MANIFEST}"))
    except DataError as error:
        raise UserError(str(error)) from None
    files = manifest["files"]
    for name, listed in files.items():
        if not (
            isinstance(listed, dict)
            and isinstance(listed.get("bytes"), int)
            and isinstance(listed.get("sha256"), str)
            and _SHA256.fullmatch(listed["sha256"])
        ):
            raise _bad(path, f"its {MANIFEST} does not say size and sha256 of {name[:80]!r}")
    if missing := sorted(set(files) - set(members)):
        raise _bad(path, f"member {missing[0][:80]!r} is missing")
    if more := sorted(set(members) - set(files) - {MANIFEST}):
        raise _bad(path, f"member {more[0]!r} is not in its {MANIFEST}")
    if content_hash({name: each["sha256"] for name, each in files.items()}) != manifest["content"]:
        raise _bad(path, f"the hash of its content is not the one of its {MANIFEST}")
    return manifest


def _unpack_one(
    path: Path, archive: zipfile.ZipFile, member: zipfile.ZipInfo, listed: dict[str, Any], to: Path
) -> None:
    if member.file_size != listed["bytes"]:
        raise _bad(path, f"member {member.filename!r} has not the size that its {MANIFEST} says")
    to.parent.mkdir(parents=True, exist_ok=True)
    found, size = hashlib.sha256(), 0
    with archive.open(member) as source, to.open("xb") as target:
        while piece := source.read(_PIECE):
            size += len(piece)
            if size > listed["bytes"]:
                raise _bad(path, f"member {member.filename!r} is larger than it says")
            found.update(piece)
            target.write(piece)
    if found.hexdigest() != listed["sha256"]:
        raise _bad(path, f"member {member.filename!r} is not what its {MANIFEST} says")


def _bad(path: Path, why: str) -> UserError:
    return UserError(f"{path} is no sound artifact: {why}")
