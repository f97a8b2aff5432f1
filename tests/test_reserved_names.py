"""Names of people and of deepwork are reserved, and so are names that look like them."""

from __future__ import annotations

import pytest

from deepwork.kernel.errors import InvalidInput
from deepwork.kernel.reserved_names import is_reserved, require_unreserved

LOOK_ALIKES = [
    "human:owner", "HUMAN:Anna", "human:", "human", " human : anna", "human\u200b:anna", "hu\u00adman:anna",
    "\u202ehuman:anna", "ｈｕｍａｎ：ａｎｎａ", "humаn:anna", "hυman:anna", "һuman:anna", "ΗUMAN:anna", "𝐡𝐮𝐦𝐚𝐧:anna",
    "ⓗⓤⓜⓐⓝ:anna", "🅷🆄🅼🅰🅽:anna", "hümán:anna", "human꞉anna", "human∶anna", "hurnan:anna", "ʜᴜᴍᴀɴ:anna",
    "h\ufe0fuman:anna", "hu\U000e0041man:anna", "@human:anna", "(human:anna)", "humaո:anna", "human\n:anna",
    "ⲎUMAN:anna", "ᕼᑌᗰᗅᑎ:anna", "human\u2800:anna", "human⦂anna", "human︰anna", "hµman:anna",
    "owner", "Owner", "OWNER ", "оwner", "0wner", "ownеr", "ovvner", "owner.", "owner\u2800", "[owner]", "ｏｗｎｅｒ",
    "deepwork", "DeepWork", "dееpwork", "deepwоrk", "deepworκ", "deepwork:", "ᴅᴇᴇᴘᴡᴏʀᴋ",
]  # fmt: skip
ORDINARY = [
    "Ada", "builder-1", "Human resources", "humane", "owner-bot", "code owner", "deepworker", "Анна", "Ελένη",
    "名前", "Jürgen: Berlin", "superhuman", "agent:human", "агент: 5", "Μάνος", "Deepwork helper", "humanist", "", None, 3, "client:human",
]  # fmt: skip


@pytest.mark.parametrize("name", LOOK_ALIKES)
def test_a_name_that_looks_like_a_person_or_deepwork_is_reserved(name: str):
    assert is_reserved(name)
    with pytest.raises(InvalidInput, match="is reserved") as caught:
        require_unreserved("name", name, "local")
    assert "Choose a name" in (caught.value.suggestion or "")


@pytest.mark.parametrize("name", ORDINARY)
def test_other_names_are_not(name: object):
    assert not is_reserved(name)


def test_people_use_reserved_names_and_callers_their_own():
    require_unreserved("name", "owner", "human:owner")
    require_unreserved("resolved_by", "owner", "owner")
