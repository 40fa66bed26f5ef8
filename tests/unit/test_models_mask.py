"""Secrets in memory texts are masked, and nothing else is."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rcll.models.mask import PLACEHOLDER, mask_secrets, masked_head

KEY_BLOCK = "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA7\nq2w3e4r5t6\n-----END RSA PRIVATE KEY-----"

SECRETS = [
    # (text, what must be gone)
    ("password=hunter2", "hunter2"),
    ("The admin password is hunter2, ask Yuki.", "hunter2"),
    ("Password: swordfish", "swordfish"),
    ("DB_PASSWORD_PROD = 'correct horse battery'", "correct horse"),
    ("Server=x;Uid=sa;Pwd=z123;", "z123"),
    ("host=db user=x password='my pass' dbname=y", "my pass"),
    ("Passwort: geheim", "geheim"),
    ("mot de passe : soleil99", "soleil99"),
    ("пароль: qwerty12", "qwerty12"),
    ("密码\N{FULLWIDTH COLON}abc12345", "abc12345"),
    ("api key is 'blue-42-fish'", "blue-42-fish"),
    ('{"client_secret": "abcd1234efgh"}', "abcd1234efgh"),
    ("mysql --password letmein22 -h db", "letmein22"),
    ("curl -u admin:letmein https://x", "letmein"),
    ("postgresql://bob:s3cr:et@db.local:5432/app", "s3cr"),
    ("amqp://guest:gu/est@mq", "guest"),
    ("https://ghp_abcdefghijklmnopqrstuvwxyz0123456789@github.com/a/b", "ghp_"),
    ("Authorization: Bearer abc.def-123456789", "abc.def"),
    ("GET /x?user=1&sig=abcdef%2Fgh&y=2", "abcdef"),
    (f"the old key {KEY_BLOCK} was revoked", "MIIEowIBAAKCAQEA7"),
    ("-----BEGIN PRIVATE KEY-----\nMIIEcut off", "MIIEcut"),
    ("AKIAIOSFODNN7EXAMPLE", "AKIA"),
    ("export AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "wJalr"),
    ("AccountKey=" + "a1B2" * 22, "a1B2"),
    ("token ghp_" + "a1" * 18, "ghp_"),
    ("glpat-abcdefghij0123456789", "glpat"),
    ("github_pat_11ABCDEFG0abcdefghij", "github_pat"),
    ("sk-proj-abcdefghijklmnopqrstuv", "sk-proj"),
    ("sk-ant-api03-abcdefghijklmnop", "sk-ant"),
    ("xoxb-123456789012-abcdefabcdef", "xoxb"),
    ("AIzaSyA1234567890abcdefghijklmnopqrstuv", "AIza"),
    ("hf_abcdefghijklmnopqrstuvwxyz", "hf_abc"),
    ("//registry/:_authToken=npm_abcdefg", "npm_abc"),
    ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N", "eyJ"),
    ("the value Zk3vP9qL0xWb7RtY2mNc8HdJ5sGf1aUe works", "Zk3vP9"),
]

HARMLESS = [
    "Password: must be at least 12 characters long",
    "The token is refreshed hourly; the secret to success is patience.",
    "tokens: 1000 used per call, max_tokens=2000",
    "The primary key: id_2 is used in the api_key column.",
    "Commit 9fceb02d0ae598e95dc970b74767f19372d61af8 broke the carousel token.",
    "Unit 123e4567-e89b-12d3-a456-426614174000 was retained at 12:30:15.",
    "See src/main/java/com/example/portal/session/TokenConsumptionService.java",
    "HINDSIGHT_API_OPERATION_VALIDATOR_EXTENSION names the class.",
    "https://db.local:5432/app and mailto:bob@example.org",
    "Yuki authored the passport check at host 10.0.0.1",
    "",
]


@pytest.mark.parametrize(("text", "secret"), SECRETS)
def test_masks(text, secret):
    """The secret is gone, a placeholder stands in its place, and masking again changes nothing."""
    masked = mask_secrets(text)
    assert secret not in masked
    assert PLACEHOLDER in masked
    assert mask_secrets(masked) == masked


@pytest.mark.parametrize("text", HARMLESS)
def test_leaves_prose_alone(text):
    """Words about secrets, hashes of commits, ids, paths and addresses are no secrets."""
    assert mask_secrets(text) == text


def test_keeps_what_surrounds_a_secret():
    """Host and database of a connection string stay readable, and so does the sentence."""
    masked = mask_secrets("Portal uses postgresql://bob:pw1@db.local/app since May.")
    assert masked == "Portal uses postgresql://[secret]@db.local/app since May."


@given(st.text(max_size=300), st.sampled_from([text for text, _ in SECRETS]), st.text(max_size=300))
def test_is_idempotent(before, secret, after):
    """A masked text stays as it is, whatever stands round the secret."""
    masked = mask_secrets(f"{before} {secret} {after}")
    assert mask_secrets(masked) == masked


def test_secret_across_the_cut():
    """A key that the cut would halve is masked as a whole, not shown by half."""
    text = "x" * 90 + " AKIAIOSFODNN7EXAMPLE"
    assert "AKIA" not in masked_head(text, 100)


@pytest.mark.parametrize(
    "unit", ["://", "//", "password:", "key-", "eyJ", "A1b", '"', " ", "-", "pwd ", "AC", "x.token", "-----BEGIN "]
)
def test_time_is_linear(unit):
    """Text made to upset regular expressions costs a few microseconds a character, not a minute."""
    text = "pwd" + unit * (20_000 // len(unit))
    start = time.process_time()
    mask_secrets(text)
    assert time.process_time() - start < 0.5


def test_megabytes_are_cut_first():
    """Of 5 MB only the head is scanned."""
    start = time.process_time()
    assert len(masked_head("password=hunter2 " * 300_000, 2_000)) == 2_000
    assert time.process_time() - start < 0.5


def test_thousands_of_texts():
    """A thousand memories are masked within a second of processor time."""
    text = "Dispatch console sessions end after 30 minutes without activity; see the portal's auth page."
    mask_secrets(text)
    start = time.process_time()
    for number in range(1_000):
        mask_secrets(f"{number} {text}")
    assert time.process_time() - start < 1
