"""How some values may also be written: marks on the keys of the schema that the reader understands."""

from __future__ import annotations

# A number of bytes, also written as "8Mi" or "10MB".
BYTES = {"unit": "bytes"}
# A command: a list of words, or one string that is split into words.
COMMAND = {"unit": "command"}
# A permission profile: a name, a file, or the profile itself.
PROFILE = {"unit": "profile"}
# A list of texts, or a single one.
TEXTS = {"unit": "texts"}
