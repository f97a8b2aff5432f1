"""Gives this user another home folder in the password database, in every process that tests start.

Python imports it at its start. What deepwork reads from there no variable can change, and tests must neither read
nor write the files of the person who runs them.
"""

from __future__ import annotations

import os
import pwd

_get_entry = pwd.getpwuid


def get_entry(uid: int) -> pwd.struct_passwd:
    """Return the entry of this user, with the home folder of the tests."""
    entry, home = _get_entry(uid), os.environ.get("DEEPWORK_TESTS_ACCOUNT_HOME")
    return pwd.struct_passwd((*entry[:5], home, entry[6])) if home and uid == os.getuid() else entry


pwd.getpwuid = get_entry
