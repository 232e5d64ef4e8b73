"""Whether the broker's certificate is believed, by a handshake and no more.

Whom this device believes is `bus.trust`'s to say.
"""

from __future__ import annotations

import socket
import ssl
import time

from bus.trust import Trust
from edge_agent.diagnosis.facts import ServerCertificate
from wire.broker_url import BrokerUrl
from wire.errors import CrowdpipeError

HANDSHAKE_LIMIT_S = 2.5
NO_TLS_REASONS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "UNEXPECTED_EOF_WHILE_READING")
DAY_S = 86_400.0


def certificate_of(broker: BrokerUrl) -> ServerCertificate:
    where, trust = (broker.host, broker.port), Trust(broker.authority)
    try:
        trust.learn(*where)
        with (
            socket.create_connection(where, HANDSHAKE_LIMIT_S) as plain,
            trust.context.wrap_socket(plain, server_hostname=broker.host) as link,
        ):
            return ServerCertificate(days_left=_days_left(link.getpeercert()))
    except CrowdpipeError as error:  # another authority than the one named to us, or none
        return ServerCertificate("untrusted", str(error).rstrip("."))
    except ssl.SSLCertVerificationError as error:
        told = trust.explained(error, f"{broker.host}:{broker.port}", broker.host)
        return ServerCertificate("untrusted", str(told or error.verify_message).rstrip("."))
    except ssl.SSLError as error:
        no_tls = error.reason in NO_TLS_REASONS
        return ServerCertificate("no_tls" if no_tls else "other", str(error.reason or error))
    except TimeoutError:
        return ServerCertificate("no_tls", "no answer")  # a broker without TLS waits for more
    except OSError as error:
        no_tls = isinstance(error, ConnectionError)
        return ServerCertificate("no_tls" if no_tls else "other", str(error.strerror or error))


def _days_left(certificate: object) -> float | None:
    ends = certificate.get("notAfter") if isinstance(certificate, dict) else None
    if not isinstance(ends, str):
        return None
    return (ssl.cert_time_to_seconds(ends) - time.time()) / DAY_S
