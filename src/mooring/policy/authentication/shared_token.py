"""One token that all callers share, as small installations have it. Whoever shows it is one principal."""

from __future__ import annotations

import hashlib
import hmac
from typing import Final

from mooring.gateway.principal import Principal
from mooring.policy.authentication.proof import NotAuthenticated

_NAME: Final = "shared-token"


class SharedToken:
    """Recognises the token, in the same time whatever is shown."""

    def __init__(self, token: str) -> None:
        self._digest = _digest(token)
        self._principal = Principal(f"token:{_NAME}", _NAME, claims={"sub": _NAME, "iss": "mooring"})

    def known(self, credential: str) -> Principal | None:
        return self._principal if hmac.compare_digest(_digest(credential), self._digest) else None

    def holds(self, principal: Principal) -> bool:
        return principal is self._principal

    async def verify(self, credential: str) -> Principal:
        principal = self.known(credential)
        if principal is None:
            raise NotAuthenticated("the token is not the right one")
        return principal


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()
