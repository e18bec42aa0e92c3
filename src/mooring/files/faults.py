"""What can be wrong with a request about files; each knows its HTTP status, and none says more than it may.

FileFault
├── NotFound        404  unknown, expired, tampered, somebody else's: one thing
├── Gone            410  it was here, it was yours, and its time is over
├── BadUpload       400  the request cannot be meant
├── WrongHash       422  the bytes are not the ones that were announced
├── TooLarge        413  more than one file may have
├── NoRoom          507  a quota, or the disk, is full
├── Away            503  the object store cannot be reached, or the disk not be written to
├── TooMany         429  more at the same time than one scope may have
├── TooSlow         408  the bytes do not come
└── Refused         403  not with this link, or not at all
"""

from __future__ import annotations

from typing import Final

from mooring.errors import MooringError


class FileFault(MooringError):
    """A request about a file that cannot be fulfilled; `str(error)` names the next step."""

    status = 400


class NotFound(FileFault):
    status = 404


class Gone(NotFound):
    status = 410


class BadUpload(FileFault):
    status = 400


class WrongHash(FileFault):
    status = 422


class TooLarge(FileFault):
    status = 413


class NoRoom(FileFault):
    status = 507


DISK_FULL: Final = "the gateway's disk is full: try again later, or with less"


class Away(FileFault):
    status = 503


class TooMany(FileFault):
    status = 429


class TooSlow(FileFault):
    status = 408


class Refused(FileFault):
    status = 403
