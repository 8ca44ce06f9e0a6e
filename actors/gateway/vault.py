"""Vault keeps the SCRAM credentials that are read from ZooKeeper, and gives the actors a seal in place of each.

Rule 1: a seal replaces one text during one run: equal texts have equal seals, and a seal does not disclose its text.
        A replay meets the recorded seals and needs no credential.
Rule 2: values are sealed by their position (a SCRAM mechanism in a znode below /config/users), never by their looks.
        Data that cannot be read is replaced by a mask.
Rule 3: a credential is current if it was in the last data that was read of its user's znode. A torn credential leaves
        the previous one.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import os
import re
from typing import Any

from actors.core.client_quotas import desanitized
from actors.core.security.scram import HASHES, ScramCredential, parse_credential
from messages.security import Secret
from messages.sensitive_configs import MASK

USERS = "/config/users"
"""The path below which znodes contain credentials."""

_log = logging.getLogger("kafka_actors.vault")


class Vault:
    """The credentials of one node."""

    def __init__(self) -> None:
        self.key = Secret(os.urandom(32))
        """A key of this run."""
        self.credentials: dict[str, dict[str, ScramCredential]] = {mechanism: {} for mechanism in HASHES}
        """Mechanism -> user -> credential."""
        self._texts: dict[str, str] = {}
        """Seal -> text."""

    def seal(self, text: str) -> str:
        """Return the seal of a credential, which also says the number of iterations."""
        mac = hmac.new(self.key.value, text.encode(), hashlib.sha256).hexdigest()[:32]
        seal = f"sealed={mac},iterations={text.rpartition('iterations=')[2] if _ITERATIONS.search(text) else 0}"
        self._texts[seal] = text
        return seal

    def sealed(self, path: str, data: bytes | None) -> bytes | None:
        """Return the data of a znode below USERS without credentials, and use these credentials from now on."""
        name = path.removeprefix(f"{USERS}/")
        is_user = "/" not in name
        if not data:
            self._use(name, {}, is_user)
            return data
        try:
            content = json.loads(data)
            config = content["config"]
            credentials = {mechanism: config[mechanism] for mechanism in HASHES if mechanism in config}
            config |= {mechanism: self.seal(str(text)) for mechanism, text in credentials.items()}
        except KeyError:
            credentials = {}
        except (ValueError, TypeError):
            return MASK.encode()
        self._use(name, credentials, is_user)
        return json.dumps(content, separators=(",", ":")).encode() if credentials else data

    def opened(self, data: bytes | None) -> bytes | None:
        """Return the data of a znode below USERS with the credentials in place of their seals."""
        if not data or b"sealed=" not in data:
            return data
        content: dict[str, Any] = json.loads(data)
        config = content["config"]
        config |= {each: self._texts.get(config[each], config[each]) for each in HASHES if each in config}
        return json.dumps(content, separators=(",", ":")).encode()

    def _use(self, sanitized: str, credentials: dict[str, Any], is_user: bool) -> None:
        """Set the credentials of a user (rule 3)."""
        if not is_user:
            return
        user = desanitized(sanitized)
        for mechanism, current in self.credentials.items():
            if mechanism not in credentials:
                current.pop(user, None)
                continue
            try:
                current[user] = parse_credential(str(credentials[mechanism]))
            except ValueError as error:
                _log.error("Ignoring the %s credential of user %.100r: %s", mechanism, user, error)


_ITERATIONS = re.compile(r"(^|,)iterations=[0-9]{1,9}$")
