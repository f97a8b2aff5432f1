"""Channels are the user's: who may change them, what is shown of them, and that no project has any."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from application import Clock
from dashboard.make import HOST, create_client, create_token, read
from deepwork.edge.server.application import Application
from deepwork.edge.server.notifying import FILE_NAME, has_channels_file
from deepwork.kernel.errors import StorageError
from deepwork.views.notifications import settings as channel_settings
from deepwork.views.notifications.settings import NotificationFile
from deepwork.views.notifications.store import NotificationStore
from notifications.make import Browser, Receiver, make_channel, save, verify_webhook

ORIGIN = f"http://{HOST}"


@pytest.fixture(autouse=True)
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> NotificationFile:
    """The file of this test's user."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return NotificationFile()


def act(client: TestClient, tool: str, status: int = 200, /, **given: Any) -> Any:
    answer = client.post(f"/api/v1/actions/{tool}", json=given, headers={"origin": ORIGIN})
    assert answer.status_code == status, answer.text
    return answer.json()


def subscribe(
    client: TestClient, endpoint: str = "https://fcm.googleapis.com/fcm/send/1", /, **more: Any
) -> Any:
    browser = Browser()
    act(client, "prepare_push")
    keys = {"public_key": browser.public_key, "auth": browser.auth}
    return act(client, "add_browser", endpoint=endpoint, **keys, **more)["channel"]


def test_a_webhook_is_added_tried_and_removed_and_its_secret_is_shown_once(
    app: Application, file: NotificationFile
):
    client = create_client(app)
    with Receiver() as receiver:
        url = f"{receiver.url}/hooks/a-secret-path"
        added = act(client, "add_channel", kind="webhook", url=url)
        tried = act(client, "test_channels")

    [got] = receiver.got
    verify_webhook(added["secret"], got.headers, got.body)
    assert got.said["kind"] == "test"
    id = added["channel"]["id"]
    assert tried["channels"] == [{"id": id, "name": "127.0.0.1", "is_told": True}]
    shown = read(client, "/notifications")
    assert [(each["id"], each["to"]) for each in shown["channels"]] == [(id, receiver.host)]
    assert "told_at" in shown["channels"][0]
    assert "a-secret-path" not in json.dumps(shown)
    assert added["secret"] not in json.dumps(shown)
    act(client, "remove_channel", channel_id=id)
    assert file.load().channels == ()
    act(client, "remove_channel", 404, channel_id=id)


def test_the_file_is_private_and_in_the_users_folder(
    app: Application, tmp_path: Path, file: NotificationFile
):
    assert not has_channels_file()
    act(create_client(app), "add_channel", kind="ntfy", url="https://ntfy.example.org/topic", token="tk_1")

    assert file.path == tmp_path / "config" / "deepwork" / FILE_NAME == file.path
    assert file.path.stat().st_mode & 0o777 == 0o600
    assert has_channels_file()
    assert channel_settings.FILE_NAME == FILE_NAME


def test_no_file_of_a_project_names_a_channel(app: Application, tmp_path: Path):
    text = json.dumps({"version": 1, "channels": [{"kind": "command", "id": "nc_1", "name": "x",
                                                   "added_at": 0, "argv": ["touch", "/tmp/x"]}]})  # fmt: skip
    for folder in (tmp_path, tmp_path / ".deepwork"):
        folder.mkdir(exist_ok=True)
        (folder / FILE_NAME).write_text(text)
    (tmp_path / ".deepwork" / "config.yml").write_text("notifications: {channels: [{kind: command}]}\n")

    assert read(create_client(app), "/notifications")["channels"] == []


def test_a_file_that_others_can_write_or_that_is_damaged_is_not_used(file: NotificationFile):
    save(file)
    file.path.write_text("{")
    with pytest.raises(StorageError):
        file.load()
    save_again = file.path
    save_again.write_text('{"version": 1, "channels": []}')
    save_again.chmod(0o666)
    with pytest.raises(StorageError):
        file.load()


def test_a_command_cannot_be_added_over_rest(app: Application):
    client = create_client(app)

    assert "add_command" not in read(client, "/me")["actions"]
    act(client, "add_command", 404, argv=["true"])
    act(client, "add_channel", 400, kind="command", url="https://example.org")


def test_agents_are_offered_nothing_of_it(app: Application):
    tools = {"get_notifications", "add_channel", "add_command", "add_browser", "remove_channel", "test_channels",
             "set_notifications", "prepare_push", "get_since", "note_visit"}  # fmt: skip

    assert tools <= set(app.operations)
    assert not tools & set(app.registry)


def test_a_person_without_the_scope_admin_has_only_their_own_browser(
    app: Application, file: NotificationFile
):
    owner = create_client(app)
    ada, grace = (
        create_client(app, create_token(app, each, "work", is_person=True)) for each in ("ada", "grace")
    )
    agent = create_client(app, create_token(app, "robot", "admin"))
    mine = subscribe(ada, name="Ada's phone")
    theirs = subscribe(grace, "https://web.push.apple.com/2")

    act(ada, "add_channel", 403, kind="webhook", url="https://example.org/x")
    act(ada, "set_notifications", 403, says_content=True)
    act(ada, "remove_channel", 409, channel_id=theirs["id"])
    act(agent, "remove_channel", 403, channel_id=theirs["id"])
    act(ada, "remove_channel", channel_id=mine["id"])
    act(owner, "remove_channel", channel_id=theirs["id"])

    assert mine["person"] == "ada"
    assert file.load().channels == ()


def test_a_browser_that_subscribes_again_stays_one_channel_and_its_page_becomes_the_link(
    app: Application, file: NotificationFile
):
    client = create_client(app)
    first = subscribe(client, name="Phone")
    again = subscribe(client, name="My phone")

    [channel] = file.load().channels
    assert first["id"] == again["id"] == channel.id
    assert (channel.name, channel.origin) == ("My phone", ORIGIN)
    assert read(client, "/notifications")["link"] == ORIGIN
    assert "push_key" not in json.dumps(read(client, "/notifications"))


def test_a_page_cannot_name_any_push_service(app: Application):
    client, browser = create_client(app), Browser()
    act(client, "prepare_push")
    for endpoint in ("http://127.0.0.1:1/", "https://example.org/"):
        act(client, "add_browser", 400, endpoint=endpoint, public_key=browser.public_key, auth=browser.auth)
    act(client, "set_notifications", push_hosts=["127.0.0.1:1"])
    act(
        client,
        "add_browser",
        endpoint="http://127.0.0.1:1/",
        public_key=browser.public_key,
        auth=browser.auth,
    )


def test_the_key_of_this_user_is_made_once(app: Application):
    client = create_client(app)

    first, second = act(client, "prepare_push"), act(client, "prepare_push")

    assert first == second
    assert re.fullmatch(r"[\w-]{87}", first["public_key"])


def test_quiet_hours_are_set_kept_and_ended(app: Application):
    client = create_client(app)
    set_both = act(
        client, "set_notifications", quiet_begins="22:00", quiet_ends="07:00", zone="Europe/Berlin"
    )
    one = act(client, "set_notifications", quiet_ends="08:30")
    other = act(
        client, "set_notifications", says_content=True, delay_seconds=0, link="https://box.example.org/"
    )
    act(client, "set_notifications", 400, quiet_begins="25:00")
    act(client, "set_notifications", 400, zone="Mars/Olympus")
    act(client, "set_notifications", 400, link="http://example.org")
    ended = act(client, "set_notifications", quiet_begins="", quiet_ends="")

    assert set_both["quiet"] == {"begins": "22:00", "ends": "07:00", "zone": "Europe/Berlin"}
    assert one["quiet"] == {"begins": "22:00", "ends": "08:30", "zone": "Europe/Berlin"}
    assert (other["says_content"], other["delay_seconds"], other["link"]) == (
        True,
        0,
        "https://box.example.org",
    )
    assert other["quiet"] == one["quiet"]
    assert "quiet" not in ended


def test_a_channel_that_fails_says_so(app: Application, clock: Clock, file: NotificationFile):
    with Receiver() as receiver:
        save(file, make_channel(receiver))
    with app.database.transaction() as tx:
        NotificationStore(tx).mark_failed("nc_webhook", "nm_1", "It answered 500.")

    [shown] = read(create_client(app), "/notifications")["channels"]

    assert shown["problem"] == "It answered 500."
    assert {"failing_since", "next_at"} <= set(shown)
