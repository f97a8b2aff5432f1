"""Detects network file systems, on which SQLite is not reliable."""

from __future__ import annotations

import re
from pathlib import Path

_NETWORK_FILE_SYSTEM_PATTERN = re.compile(
    r"^(nfs\d?|cifs|smb\w*|9p|afs|ceph|glusterfs|lustre|beegfs|ocfs2|gfs2?|gpfs|virtiofs|vboxsf|juicefs"
    r"|fuse\.(sshfs|s3fs|rclone|glusterfs|gcsfuse|curlftpfs|davfs\w*|ceph\w*|juicefs))$"
)


def find_network_file_system(path: Path, mounts: str | None = None) -> str | None:
    """Return the type of the network file system that holds the path; None for a local one."""
    if mounts is None:
        try:
            mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace")
        except OSError:  # not Linux: no list of mounts
            return None
    kind = _find_mount_type(path.parent.resolve(), mounts)
    return kind if kind and _NETWORK_FILE_SYSTEM_PATTERN.match(kind) else None


def _find_mount_type(folder: Path, mounts: str) -> str | None:
    longest, kind = -1, None
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        fields = before.split(" ")
        if len(fields) < 5 or not after:
            continue
        point = Path(fields[4].replace("\\040", " "))
        # The longest mount point wins; of equal ones, the later hides the earlier.
        if folder.is_relative_to(point) and len(point.parts) >= longest:
            longest, kind = len(point.parts), after.split(" ")[0]
    return kind
