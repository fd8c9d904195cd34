"""Objects that a network file names as FILE.py:NAME."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

from p4fabric.base.config.fields import user_file
from p4fabric.base.config.units import FieldError
from p4fabric.base.errors import UserError, did_you_mean, sentence

_loaded: dict[Path, Any] = {}


def load_object(text: str, folder: Path, where: str) -> Any:
    """The object; `folder` is that of the network file, `where` the place in it. A file is run
    once. Raises UserError."""
    name, _, wanted = text.rpartition(":")
    try:
        path = user_file(name, folder)
    except FieldError as error:
        raise UserError(f"{where}: {error}") from None
    if path not in _loaded:
        spec = importlib.util.spec_from_file_location(f"network_file_{path.stem}", path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        try:
            spec.loader.exec_module(module)
        except Exception as error:
            raise UserError(f"{where}: {path.name} cannot be run: {place_of(error)}") from None
        _loaded[path] = module
    module = _loaded[path]
    if not hasattr(module, wanted):
        near = did_you_mean(wanted, [each for each in vars(module) if each[0] != "_"])
        raise UserError(sentence(f"{where}: {path.name} has no {wanted}", near))
    return getattr(module, wanted)


def place_of(error: BaseException) -> str:
    """An exception in one line, with the file and line where it was raised."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    what = f"{type(error).__name__}: {error}"
    if isinstance(error, SyntaxError):
        return (
            f"{Path(error.filename or '').name}:{error.lineno}: {type(error).__name__}: {error.msg}"
        )
    if trace is None:
        return what
    return f"{Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}: {what}"
