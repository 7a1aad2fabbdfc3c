"""Archives as the traces are published in."""

from __future__ import annotations

import io
import tarfile


def archive(**members: bytes) -> bytes:
    """Return a tar archive; a name says ``_csv`` for ``.csv`` and ``__`` for ``/``."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as packed:
        for name, data in members.items():
            info = tarfile.TarInfo(name.replace("__", "/").replace("_csv", ".csv"))
            info.size = len(data)
            packed.addfile(info, io.BytesIO(data))
    return content.getvalue()
