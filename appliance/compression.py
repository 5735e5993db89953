"""Compressed streams: unpacking what strangers send within limits of ratio, size and memory, and packing equal bytes alike."""

import zlib
from typing import Protocol

import zstandard

from appliance.archive import Format, Source
from appliance.errors import Invalid, TooLarge

CHUNK = 128 * 1024
RATIO = 200  # text packs 5 to 20 fold; a bomb a thousand fold and more
RATIO_FROM = 64 << 20  # bytes below which any ratio is let pass: they do no harm
ZSTD_WINDOW = 32 << 20
ZSTD_PIECE = 1024  # fed at once: it may unpack to 32768 times as much

_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"


def format_of(start: bytes) -> Format:
    """What a stream that begins with these four bytes is; anything not compressed counts as a tar."""
    return "tar.gz" if start.startswith(_GZIP) else "tar.zst" if start.startswith(_ZSTD) else "tar"


class _Unpacker(Protocol):
    def feed(self, data: bytes) -> bytes:
        """Some of what `data`, and what was fed before, unpacks to; b"" when all of that was given."""
        ...

    def finish(self) -> None:
        """Raise Invalid if the stream may not end here."""
        ...


class Unpacked:
    """A compressed `source`, unpacked as it is read, in bounded memory.

    Raises Invalid for damaged or truncated data, TooLarge for a bomb or a window over the limit.
    """

    def __init__(self, source: Source, format: Format) -> None:
        self._source = source
        self._unpacker: _Unpacker = _Gzip() if format == "tar.gz" else _Zstd()
        self._ready = b""
        self._at = 0
        self._taken = self._given = 0
        self._ended = False

    def read(self, size: int, /) -> bytes:
        """Up to `size` bytes; empty at the end."""
        while self._at == len(self._ready):
            if self._ended:
                return b""
            self._fill()
        part = self._ready[self._at : self._at + size]
        self._at += len(part)
        return part

    def _fill(self) -> None:
        self._at = 0
        self._ready = self._unpacker.feed(b"")
        if not self._ready:
            data = self._source.read(CHUNK)
            self._taken += len(data)
            if data:
                self._ready = self._unpacker.feed(data)
            else:
                self._unpacker.finish()
                self._ended = True
        self._given += len(self._ready)
        if self._given > RATIO_FROM and self._given > RATIO * self._taken:
            raise TooLarge(
                f"the archive unpacks to more than {RATIO} times its size; nothing was stored",
                hint="if these files are really like that, send an archive that is not compressed",
            )


class _Gzip:
    """Gzip of one or more members."""

    def __init__(self) -> None:
        self._inflate = zlib.decompressobj(wbits=31)
        self._waiting = b""

    def feed(self, data: bytes) -> bytes:
        """See _Unpacker."""
        data, self._waiting = self._waiting + data, b""
        try:
            while data:
                if self._inflate.eof:
                    if not data.strip(b"\0"):
                        return b""  # padding after the end, as tapes have it
                    self._inflate = zlib.decompressobj(wbits=31)
                found = self._inflate.decompress(data, CHUNK)
                data = self._inflate.unused_data if self._inflate.eof else self._inflate.unconsumed_tail
                if found:
                    self._waiting = data
                    return found
        except zlib.error as error:
            raise Invalid(f"the gzip data is damaged ({error}); nothing was stored", hint="send it again") from None
        return b""

    def finish(self) -> None:
        """See _Unpacker."""
        if not self._inflate.eof:
            raise Invalid("the gzip data is cut short; nothing was stored", hint="send it again, whole")


class _Zstd:
    """Zstd of one or more frames."""

    def __init__(self) -> None:
        self._unpack = self._new()
        self._waiting = memoryview(b"")

    def _new(self) -> "zstandard.ZstdDecompressionObj":  # a name of its stubs only
        return zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW).decompressobj()

    def feed(self, data: bytes) -> bytes:
        """See _Unpacker."""
        if data:
            self._waiting = memoryview(bytes(self._waiting) + data)
        try:
            while self._waiting:
                if self._unpack.eof:
                    self._unpack = self._new()
                piece, self._waiting = self._waiting[:ZSTD_PIECE], self._waiting[ZSTD_PIECE:]
                found: bytes = self._unpack.decompress(piece)
                if self._unpack.eof and self._unpack.unused_data:
                    self._waiting = memoryview(self._unpack.unused_data + bytes(self._waiting))
                if found:
                    return found
        except zstandard.ZstdError as error:
            if "memory" in str(error):
                raise TooLarge(
                    f"the zstd data needs a window over the limit of {ZSTD_WINDOW >> 20} MiB; nothing was stored",
                    hint="compress it without --long and below level 21",
                ) from None
            raise Invalid(f"the zstd data is damaged ({error}); nothing was stored", hint="send it again") from None
        return b""

    def finish(self) -> None:
        """See _Unpacker."""
        if not self._unpack.eof:
            raise Invalid("the zstd data is cut short; nothing was stored", hint="send it again, whole")


class Packer(Protocol):
    """Packs a stream piece by piece."""

    def compress(self, data: bytes, /) -> bytes:
        """What can be given of the packed stream by now."""
        ...

    def flush(self) -> bytes:
        """The rest of it."""
        ...


class _Plain:
    def compress(self, data: bytes, /) -> bytes:
        """As it is."""
        return data

    def flush(self) -> bytes:
        """Nothing more."""
        return b""


def packer(format: Format) -> Packer:
    """A packer whose output depends on its input alone: no time, no name."""
    if format == "tar.gz":
        return zlib.compressobj(6, zlib.DEFLATED, 31)
    if format == "tar.zst":
        packing: Packer = zstandard.ZstdCompressor(level=3).compressobj()
        return packing
    return _Plain()
