"""A BERT by its name on the hub: its cache, one question to the hub, and one line where neither has it."""

import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

import huggingface_hub
import pytest
from huggingface_hub import constants

from flexray.core.errors import ConfigError
from flexray.data.sentiment.tokens import check_bert
from helpers.sentiment_files import arrays

NAME = "somebody/some-bert"


@pytest.fixture(autouse=True)
def hub(tmp_path, monkeypatch):
    """Return a function that sets the hub's address; at first nobody answers there, and the cache is empty."""

    def at(address):
        monkeypatch.setattr(constants, "ENDPOINT", address)
        monkeypatch.setattr(
            constants, "HUGGINGFACE_CO_URL_TEMPLATE", address + "/{repo_id}/resolve/{revision}/{filename}"
        )

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    at("http://127.0.0.1:9")
    return at


def told(tmp_path, reason):
    return (
        f"dataset.bert: looked for '{NAME}' in the cache {tmp_path}/hub and on the hub http://127.0.0.1:9,"
        f" which {reason}; expected a folder with config.json, weights and tokenizer,"
        " or HF_HUB_OFFLINE=1 and a cache that has it"
    )


def test_without_a_network_the_two_ways_out_are_told_at_once(tmp_path, compose_job):
    data = arrays(tmp_path / "data")
    words = (f"dataset.path={data}", f"dataset.cache={tmp_path}", f"dataset.bert={NAME}", "dataset.batch_size=3")
    started_s = time.monotonic()
    with pytest.raises(ConfigError) as caught:
        compose_job("dataset=mosei", *words)
    assert time.monotonic() - started_s < 10  # the hub's own library would try for about 25 s
    assert str(caught.value) == told(tmp_path, "does not answer ([Errno 111] Connection refused)")


def test_offline_nobody_is_asked(tmp_path, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(huggingface_hub, "get_hf_file_metadata", None)
    with pytest.raises(ConfigError) as caught:
        check_bert(NAME)
    assert str(caught.value) == told(tmp_path, "HF_HUB_OFFLINE=1 forbids to ask")


def test_what_is_in_the_cache_is_not_asked_for(tmp_path):
    snapshot = tmp_path / "hub" / "models--somebody--some-bert" / "snapshots" / "1f"
    snapshot.mkdir(parents=True)
    (snapshot.parents[1] / "refs").mkdir()
    (snapshot.parents[1] / "refs" / "main").write_text("1f")
    for file in ("config.json", "model.safetensors"):
        (snapshot / file).touch()
    with pytest.raises(ConfigError, match="which does not answer"):  # the tokenizer is missing
        check_bert(NAME)
    (snapshot / "vocab.txt").touch()
    check_bert(NAME)


@pytest.mark.parametrize("status", [200, 404])
def test_what_the_hub_answers_is_the_loaders_to_tell(status, hub):
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self):
            asked.append(self.path)
            self.send_response(status)
            self.send_header("X-Repo-Commit", "1f")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *args):
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        hub(f"http://127.0.0.1:{server.server_port}")
        check_bert(NAME)
        server.shutdown()
    assert asked == [f"/{NAME}/resolve/main/config.json"]
