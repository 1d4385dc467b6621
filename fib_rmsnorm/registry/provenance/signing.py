"""Signatures by SSH keys, made and checked by OpenSSH's ssh-keygen, as git signs commits."""

from __future__ import annotations

import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from fib_rmsnorm.errors import InputError

_KEY_TYPES = ("ssh-", "ecdsa-sha2-", "sk-ssh-", "sk-ecdsa-")
_NAMESPACE = "fib-rmsnorm"
"""What a signature is for: one of a commit or a mail does not fit a Trace."""


def sign(content: bytes, key: Path) -> str:
    """The armored signature by a private key without a passphrase, or by one that an agent holds.

    Raises InputError if it cannot be used.
    """
    made = _ssh_keygen("sign", "-f", str(key), content=content)
    if made.returncode != 0:
        reason = next(iter(made.stderr.decode(errors="replace").strip().splitlines()), "ssh-keygen failed")
        raise InputError(f"cannot sign with {key}: {reason}")
    return made.stdout.decode()


def is_signature_of(content: bytes, signature: str) -> bool:
    """Whether somebody signed just this content, whoever that is."""
    with TemporaryDirectory() as folder:
        return _ssh_keygen("check-novalidate", "-s", _keep(signature, folder), content=content).returncode == 0


def check_signers(file: Path) -> None:
    """Raise InputError for a public key where a file of allowed signers belongs: it names nobody, so it allows none."""
    try:
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        raise InputError(f"{file}: {error.strerror}") from None
    for line in lines:
        if line.startswith(_KEY_TYPES):
            raise InputError(f"{file}: a public key; name its owner first: NAME {' '.join(line.split()[:2])}")


def find_signer(content: bytes, signature: str, signers: Path) -> str | None:
    """Who of a file of allowed signers (ssh-keygen(1), ALLOWED SIGNERS) signed the content; None if none of them."""
    with TemporaryDirectory() as folder:
        file = _keep(signature, folder)
        named = _ssh_keygen("find-principals", "-s", file, "-f", str(signers), namespace=False)
        for name in named.stdout.decode(errors="replace").split():
            who = ("-f", str(signers), "-I", name, "-s", file)
            if named.returncode == 0 and _ssh_keygen("verify", *who, content=content).returncode == 0:
                return name
    return None


def _keep(signature: str, folder: str) -> str:
    file = Path(folder) / "signature"
    file.write_text(signature)
    return str(file)


def _ssh_keygen(
    action: str, *arguments: str, content: bytes = b"", namespace: bool = True
) -> subprocess.CompletedProcess[bytes]:
    purpose = ("-n", _NAMESPACE) if namespace else ()
    command = ["ssh-keygen", "-Y", action, *purpose, *arguments]
    try:
        return subprocess.run(command, input=content, capture_output=True, check=False)
    except FileNotFoundError:
        raise InputError("signatures need ssh-keygen of OpenSSH 8.9 or newer; install your system's openssh") from None
