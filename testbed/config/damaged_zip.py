"""What tells that a zip archive (also an .npz file) is damaged."""

from __future__ import annotations

import lzma
import struct
import zipfile
import zlib

# What reading one raises, beside OSError. `zipfile` says itself only that some of it is wrong.
DAMAGED_ZIP = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error),
    *(EOFError, RuntimeError, ValueError),
)
