"""The folder of compiled code, if the home folder is not writable."""

import os
import stat
import tempfile
from pathlib import Path

from bayes_gpx.system.warning import warn

FLAGS = "PYTENSOR_FLAGS"


def use_writable_folder() -> None:
    """Keep PyTensor's compiled code in a temporary folder, and warn, if its own is not writable."""
    # PyTensor reads this folder once, when it is imported. Call this function before that.
    home, flags = os.path.expanduser("~/.pytensor"), os.environ.get(FLAGS, "")
    configured = "PYTENSORRC" in os.environ or os.path.isfile(os.path.expanduser("~/.pytensorrc"))
    if os.name != "posix" or "base_compiledir" in flags or configured or _writable(home):
        return
    folder = _own_folder()
    os.environ[FLAGS] = ",".join(filter(None, (flags, f"base_compiledir={folder}")))
    warn(
        f"{home} cannot be written, so compiled code is kept in {folder}. For another place set "
        f"the environment variable {FLAGS}=base_compiledir=/a/folder/of/yours."
    )


def _writable(path: str) -> bool:
    """Whether a folder can be written, or made; its path begins with ~ if there is no home."""
    while not os.path.exists(path) and path != os.path.dirname(path):
        path = os.path.dirname(path)
    return os.path.isdir(path) and os.access(path, os.W_OK | os.X_OK)


def _own_folder() -> Path:
    """A temporary folder that stays for the next time, and that nobody else can write to."""
    folder = Path(tempfile.gettempdir()) / f"bayes_gpx-{os.getuid()}"
    if not os.path.lexists(folder):
        folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    private = stat.S_ISDIR(found.st_mode) and not found.st_mode & 0o077
    if private and found.st_uid == os.getuid():
        return folder
    return Path(tempfile.mkdtemp(prefix="bayes_gpx-"))
