"""Vault keeps the credentials of users and the secrets of delegation tokens, which no actor sees.

In place of a SCRAM credential in ZooKeeper, the actors get a seal. They know a delegation token by its id.

Rule 1: a seal replaces one text during one run: equal texts have equal seals, and a seal does not disclose its text.
        A replay meets the recorded seals and needs no credential.
Rule 2: values are sealed by their position (a SCRAM mechanism in a znode below /config/users, a config with the name
        of a secret in a request or below /config/brokers), never by their looks. Data that cannot be read is replaced
        by a mask.
Rule 3: a credential is current if it was in the last data that was read of its user's znode. A torn credential leaves
        the previous one.
Rule 4: the secret of a delegation token is computed from its id and the cluster's key. A token authenticates its owner
        until it expires.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import logging
import os
import re
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from actors.core.security import scram
from actors.core.security.sasl_exchange import SaslIdentity
from messages.apis import API_BY_REQUEST, delegation_tokens
from messages.apis.alter_configs import AlterConfigsRequest, ChangedResource
from messages.apis.incremental_alter_configs import IncrementalAlterConfigsRequest
from messages.apis.user_scram_credentials import (
    MECHANISMS,
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from messages.client_quotas import desanitize
from messages.delegation_tokens import DelegationToken, DelegationTokensChanged
from messages.parts import Part
from messages.security import Secret
from messages.sensitive_configs import MASK, is_secret
from messages.vocabulary import AnyMessage, Message, evolve

USERS, BROKERS = "/config/users", "/config/brokers"
"""The paths below which znodes contain credentials and passwords."""

OF_TOKENS = (
    delegation_tokens.CreateDelegationTokenRequest,
    delegation_tokens.RenewDelegationTokenRequest,
    delegation_tokens.ExpireDelegationTokenRequest,
    delegation_tokens.DescribeDelegationTokenRequest,
)
"""The requests that only some clients may send, because they or the responses contain secrets of tokens."""
WITH_SECRETS = frozenset(
    API_BY_REQUEST[request].key
    for request in (
        *OF_TOKENS,
        AlterUserScramCredentialsRequest,
        AlterConfigsRequest,
        IncrementalAlterConfigsRequest,
    )
)
"""Keys of the APIs whose messages contain secrets."""

_log = logging.getLogger("kafka_actors.vault")


class PasswordCipher(Protocol):
    """What encrypts passwords."""

    def encode(self, password: str) -> str:
        """Return the encrypted form of a password."""

    def decode(self, text: str) -> tuple[str, bool]:
        """Return the password in an encrypted form, and whether `encode` still makes such forms. Raises ValueError."""


class Vault:
    """The credentials of one node.

    Args:
        token_key: The key of delegation tokens; None if there are none.
        now_ms: Returns the time (ms since 1970).
        encoder: Encrypts the passwords in ZooKeeper; None if there are none.
    """

    def __init__(
        self,
        token_key: Secret | None = None,
        now_ms: Callable[[], int] = lambda: 0,
        encoder: PasswordCipher | None = None,
    ) -> None:
        self._token_key, self._now_ms, self._encoder = token_key, now_ms, encoder
        self._tokens: dict[str, DelegationToken] = {}
        """The valid delegation tokens by id."""
        self._token_ids: dict[bytes, str] = {}
        """HMAC -> id of a valid delegation token."""
        self._of_tokens: dict[tuple[str, str], scram.ScramCredential] = {}
        """Mechanism, id -> the credential of a delegation token that was used."""
        self.key = Secret(os.urandom(32))
        """A key of this run."""
        self.credentials: dict[str, dict[str, scram.ScramCredential]] = {mechanism: {} for mechanism in scram.HASHES}
        """Mechanism -> user -> credential."""
        self._texts: dict[str, str] = {}
        """Seal -> text."""
        self._encoded: dict[str, str] = {}
        """Seal -> what ZooKeeper has in place of a broker's password."""

    def credential(
        self, mechanism: str, name: str, is_token: bool
    ) -> tuple[scram.ScramCredential, SaslIdentity] | None:
        """Return the credential with this name, and whom it authenticates; None if there is none."""
        if not is_token:
            found = self.credentials[mechanism].get(name)
            return None if found is None else (found, SaslIdentity(name))
        token, now = self._tokens.get(name), self._now_ms()
        if token is None or token.expires_ms <= now or not token.owner.startswith("User:"):
            return None
        kept = self._of_tokens.get((mechanism, name))
        if kept is None:
            salt = hmac.new(self.key.value, name.encode(), hashlib.sha256).digest()[:20]
            password = Secret(base64.b64encode(self._token_hmac(name).value))
            kept = scram.credential_of(
                mechanism,
                scram.salt_password(mechanism, password, salt, scram.MIN_ITERATIONS),
                salt,
                scram.MIN_ITERATIONS,
            )
            self._of_tokens[mechanism, name] = kept
        return kept, SaslIdentity(token.owner.partition(":")[2], token.expires_ms - now, by_token=True)

    # ------------------------------------------------------------------------------------------------ delegation tokens

    def change_tokens(self, changes: DelegationTokensChanged) -> None:
        """Use these delegation tokens from now on."""
        for id in [*self._tokens] if changes.all else changes.removed:
            self._tokens.pop(id, None)
            self._token_ids.pop(self._token_hmac(id).value, None)
            for mechanism in scram.HASHES:
                self._of_tokens.pop((mechanism, id), None)
        for token in changes.tokens:
            self._tokens[token.id] = token
            self._token_ids[self._token_hmac(token.id).value] = token.id

    def _token_hmac(self, id: str) -> Secret:
        key = b"" if self._token_key is None else self._token_key.value
        return Secret(hmac.new(key, id.encode(), hashlib.sha512).digest())

    def conceal(self, request: Message, principal: str) -> Message:
        """Return a client's request as actors may see it: without secrets."""
        match request:
            case delegation_tokens.RenewDelegationTokenRequest() | delegation_tokens.ExpireDelegationTokenRequest():
                return evolve(request, hmac=Secret(b""), token_id=self._token_ids.get(request.hmac.value, ""))
            case delegation_tokens.CreateDelegationTokenRequest() if request.owner == principal:
                return evolve(request, owner_principal_type=None, owner_principal_name=None)
            case AlterUserScramCredentialsRequest(upsertions=upsertions):
                return evolve(request, upsertions=tuple(map(self._sealed_upsertion, upsertions)))
            case AlterConfigsRequest(resources=resources) | IncrementalAlterConfigsRequest(resources=resources):
                return evolve(request, resources=tuple(map(self._sealed_resource, resources)))
        return request

    def _sealed_upsertion(self, new: ScramCredentialUpsertion) -> ScramCredentialUpsertion:
        if new.mechanism not in MECHANISMS:
            return new
        mechanism = MECHANISMS[new.mechanism]
        credential = scram.credential_of(mechanism, new.salted_password, new.salt.value, new.iterations)
        sealed = self.seal(scram.format_credential(credential))
        return evolve(new, salt=Secret(b""), salted_password=Secret(b""), sealed=sealed)

    def _sealed_resource(self, resource: ChangedResource) -> ChangedResource:
        configs = [
            evolve(each, value=self.seal(each.value)) if each.value and is_secret(each.name) else each
            for each in resource.configs
        ]
        return evolve(resource, configs=tuple(configs))

    def reveal(self, principal: str, response: Message, parts: Sequence[Part]) -> tuple[AnyMessage, Sequence[Part]]:
        """Return the response to a client's request with the secrets that it is to get."""
        match response:
            case delegation_tokens.CreateDelegationTokenResponse(token_id=""):  # a refusal names the client
                who = delegation_tokens.token_principal(principal)
                response = evolve(response, principal_type=who.principal_type, principal_name=who.principal_name)
            case delegation_tokens.CreateDelegationTokenResponse(token_id=id):
                response = evolve(response, hmac=self._token_hmac(id))
            case delegation_tokens.DescribeDelegationTokenResponse(tokens=tokens):
                with_secrets = [evolve(each, hmac=self._token_hmac(each.token_id)) for each in tokens]
                response = evolve(response, tokens=tuple(with_secrets))
        return response, parts

    # ------------------------------------------------------------------------------------------------ users

    def seal(self, text: str) -> str:
        """Return the seal of a credential, which also says the number of iterations."""
        mac = hmac.new(self.key.value, text.encode(), hashlib.sha256).hexdigest()[:32]
        seal = f"sealed={mac},iterations={text.rpartition('iterations=')[2] if _ITERATIONS.search(text) else 0}"
        self._texts[seal] = text
        return seal

    def seal_znode(self, path: str, data: bytes | None) -> bytes | None:
        """Return the data of a znode below USERS or BROKERS without secrets, and use its credentials from now on."""
        parent, _, name = path.rpartition("/")
        is_user = parent == USERS
        if not data:
            self._use(name, {}, is_user)
            return data
        try:
            content = json.loads(data)
            config = content["config"]
            hidden = {key: str(text) for key, text in config.items() if _hides(path, key)}
        except KeyError:
            hidden = {}
        except (ValueError, TypeError, AttributeError):
            return MASK.encode()
        self._use(name, hidden, is_user)
        if not hidden:
            return data
        config |= {
            key: self.seal(text) if path.startswith(USERS) else self._read(path, text) for key, text in hidden.items()
        }
        return json.dumps(content, separators=(",", ":")).encode()

    def _read(self, path: str, encoded: str) -> str:
        """Return the seal of a broker's password, which ZooKeeper has in encrypted form."""
        password, is_current = encoded, True
        try:
            if self._encoder is not None:
                password, is_current = self._encoder.decode(encoded)
        except ValueError as error:
            _log.error("A password in %s cannot be used: %s", path, error)
        seal = self.seal(password)
        if is_current:
            self._encoded[seal] = encoded
        return seal

    def unseal_znode(self, path: str, data: bytes | None) -> bytes | None:
        """Return the data of a znode below USERS or BROKERS with the secrets in place of their seals."""
        if not data or b"sealed=" not in data:
            return data
        content: dict[str, Any] = json.loads(data)
        config = content["config"]
        config |= {key: self._written(path, seal) for key, seal in config.items() if _hides(path, key)}
        return json.dumps(content, separators=(",", ":")).encode()

    def _written(self, path: str, seal: str) -> str:
        """Return what ZooKeeper is to have in place of a seal."""
        text = self.text_of(seal)
        if path.startswith(USERS) or self._encoder is None:
            return text
        return self._encoded.get(seal) or self._encoder.encode(text)

    def text_of(self, seal: str) -> str:
        """Return the text that a seal replaces; another text is returned as it is."""
        return self._texts.get(seal, seal)

    def _use(self, sanitized: str, credentials: dict[str, Any], is_user: bool) -> None:
        """Set the credentials of a user (rule 3)."""
        if not is_user:
            return
        user = desanitize(sanitized)
        for mechanism, current in self.credentials.items():
            if mechanism not in credentials:
                current.pop(user, None)
                continue
            try:
                current[user] = scram.parse_credential(str(credentials[mechanism]))
            except ValueError as error:
                _log.error("Ignoring the %s credential of user %.100r: %s", mechanism, user, error)


def _hides(path: str, name: str) -> bool:
    """Return whether the config of this name is a secret in a znode (rule 2)."""
    return name in scram.HASHES if path.startswith(USERS) else is_secret(name)


_ITERATIONS = re.compile(r"(^|,)iterations=[0-9]{1,9}$")
