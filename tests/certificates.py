"""A self-signed certificate for 127.0.0.1, made anew for each run of the tests by the openssl command."""

import functools
import ssl
import subprocess
import tempfile
from pathlib import Path


@functools.cache
def files():
    """Return (certificate file, key file)."""
    folder = Path(tempfile.mkdtemp(prefix="llmload-tls-"))
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    command = "openssl req -x509 -nodes -days 2 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -subj /CN=test"
    names = ["-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run([*command.split(), *names, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    return certificate, key


def server_context(**options):
    """Return the context of a server that shows the certificate; options are set on it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*files())
    for name, value in options.items():
        setattr(context, name, value)
    return context


def trusting_context():
    """Return the context of a client that trusts the certificate."""
    return ssl.create_default_context(cafile=files()[0])
