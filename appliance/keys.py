"""What the key does: MACs for URL secrets and fingerprints, and sealing of secret inputs. Pure; the file is read by store/keyfile.py."""

import base64
import hashlib
import hmac
from dataclasses import dataclass

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCMSIV

from appliance.errors import Corrupt

MAC_BYTES = 20


@dataclass(frozen=True, slots=True)
class Key:
    """The key beside the database. `mac` and `seal` are 32 random bytes each."""

    id: str
    mac: bytes
    seal: bytes

    def url_secret(self, purpose: str, id: str, rotation: int) -> str:
        """`id.mac`: a bearer secret for a URL. Nothing is stored; raising `rotation` revokes it."""
        return f"{id}.{self._url_mac(purpose, id, rotation)}"

    def opens(self, purpose: str, secret: str, rotation: int) -> bool:
        """Whether `secret` is the one of its id, in constant time."""
        id, _, mac = secret.rpartition(".")
        return hmac.compare_digest(mac.encode(), self._url_mac(purpose, id, rotation).encode())

    def _url_mac(self, purpose: str, id: str, rotation: int) -> str:
        text = f"{purpose}|{id}|{rotation}".encode()
        return base64.b32encode(hmac.digest(self.mac, text, hashlib.sha256)[:MAC_BYTES]).decode().lower()

    def fingerprint(self, *parts: bytes) -> bytes:
        """A keyed digest (32 bytes) of parts, each with its length, so that a copied database gives no guess at a secret."""
        hasher = hmac.new(self.mac, b"fingerprint 1", hashlib.sha256)
        for part in parts:
            hasher.update(len(part).to_bytes(8, "big"))
            hasher.update(part)
        return hasher.digest()

    def sealed(self, clear: str) -> str:
        """`clear` encrypted and authenticated (AES-GCM-SIV with a nonce made from the text), as ASCII. Equal texts look equal."""
        nonce = hmac.digest(self.seal, clear.encode(), hashlib.sha256)[:12]
        return base64.b64encode(nonce + AESGCMSIV(self.seal).encrypt(nonce, clear.encode(), b"input")).decode()

    def unsealed(self, text: str) -> str:
        """What was sealed. Raises Corrupt when it was sealed with another key or damaged."""
        try:
            raw = base64.b64decode(text)
            return AESGCMSIV(self.seal).decrypt(raw[:12], raw[12:], b"input").decode()
        except (InvalidTag, ValueError):
            raise Corrupt(
                "a secret input cannot be opened with this key", hint="restore the key file that belongs to this database"
            ) from None
