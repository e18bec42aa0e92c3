"""What can go wrong with secrets.

SecretsError
├── NotSetUp          no provider was chosen yet
├── SecretMissing     no secret has this name
├── WrongKey          the password or key does not open the vault
├── KeyUnavailable    the keyring, key file or password cannot be had here
├── VaultDamaged      the file is not one of ours, or was changed
├── ReadOnly          this provider cannot store
└── ProviderFailed    another program (1Password's `op`) did not do its part
"""

from __future__ import annotations

from mooring.errors import MooringError


class SecretsError(MooringError):
    """The root; no message ever holds a secret's value."""

    http_status = 422
    api_code = "secrets_unusable"


class NotSetUp(SecretsError):
    api_code = "secrets_not_set_up"

    def __init__(self) -> None:
        super().__init__("no place for secrets was chosen yet: run `mooring secret setup`")


class SecretMissing(SecretsError):
    http_status = 404
    api_code = "no_such_secret"

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no secret `{name}`: store it with `mooring secret set {name}`")
        self.name = name


class WrongKey(SecretsError):
    pass


class KeyUnavailable(SecretsError):
    api_code = "key_unavailable"


class VaultDamaged(SecretsError):
    pass


class ReadOnly(SecretsError):
    pass


class ProviderFailed(SecretsError):
    pass
