"""Ids for nodes that must have one and whose source gave none: the same source always gets the same ids."""

import hashlib


class Identifiers:
    """Made from the words they stand for, so that an edit elsewhere does not change them."""

    def __init__(self) -> None:
        self._seen: dict[str, int] = {}

    def make(self, kind: str, words: str) -> str:
        seed = f"{kind}:{words}"
        count = self._seen[seed] = self._seen.get(seed, 0) + 1
        made = hashlib.sha256(f"{seed}:{count}".encode("utf-8", "surrogatepass")).hexdigest()
        return f"{made[:8]}-{made[8:12]}-{made[12:16]}-{made[16:20]}-{made[20:32]}"
