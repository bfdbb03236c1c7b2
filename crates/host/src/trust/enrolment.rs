//! Enrolment: a node shows the token to the first member, which signs the node's key.
//!
//! ```text
//!   request:   "MERENROL" node:u32 secret:[u8; 16] key:[u8; 32]
//!   response:  what:u8 length:u32 text
//!              1: the certificates in PEM, the node's before the authority's
//!              0: request it from another member
//!              2: the reason for a refusal
//! ```
//!
//! Over TLS, on the port of the other links. The requesting node recognises the authority by the
//! mark in the token, so that no other server sees the secret.

use super::Token;
use super::authority::{self, Authority, PublicKey, mark};
use super::certificates::{Certificates, StoredCertificate, client, provider, server_name};
use meridian_machine::NodeId;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConnection, DigitallySignedStruct, Error, RootCertStore,
    SignatureScheme,
};
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The first bytes of a request.
pub const MAGIC: &[u8; 8] = b"MERENROL";
const REQUEST_BYTES: usize = 52;
const LONGEST_ANSWER: u32 = 64 << 10;
/// Time after which a node gives up.
const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(200);
const STEP: Duration = Duration::from_secs(5);

enum Answer {
    Given(StoredCertificate),
    NotHere(String),
    Refused(String),
}

/// Requests a certificate from the other members until the first member responds. Fails with the
/// reason of a refusal, or with each member's reason once [`PATIENCE`] is over.
pub(super) fn enrol(
    me: NodeId,
    others: &BTreeMap<NodeId, String>,
    token: &Token,
) -> Result<StoredCertificate, String> {
    let end = Instant::now() + PATIENCE;
    loop {
        let mut reasons = Vec::new();
        for (node, address) in others {
            match ask(me, *node, address, token) {
                Ok(Answer::Given(stored)) => return Ok(stored),
                Ok(Answer::Refused(why)) => {
                    return Err(format!("{address} gives this node no certificate: {why}"));
                }
                Ok(Answer::NotHere(why)) => reasons.push(format!("{address}: {why}")),
                Err(error) => reasons.push(format!("{address}: {}", words(&error))),
            }
        }
        if Instant::now() >= end {
            return Err(format!(
                "no member has given this node a certificate within {PATIENCE:?} ({}). Start the first member, the one \
                 without a token, and then start this node again",
                reasons.join("; ")
            ));
        }
        std::thread::sleep(PAUSE);
    }
}

fn ask(me: NodeId, node: NodeId, address: &str, token: &Token) -> io::Result<Answer> {
    let of_token = Arc::new(OfToken { authority: token.authority, provider: provider() });
    let config =
        client().map_err(io::Error::other)?.dangerous().with_custom_certificate_verifier(of_token);
    let config = Arc::new(config.with_no_client_auth());
    let mut connection =
        ClientConnection::new(config, server_name(node)).map_err(io::Error::other)?;
    let address = address
        .to_socket_addrs()?
        .next()
        .ok_or_else(|| io::Error::other("the address does not resolve"))?;
    let mut socket = TcpStream::connect_timeout(&address, STEP)?;
    socket.set_read_timeout(Some(STEP))?;
    socket.set_write_timeout(Some(STEP))?;
    let mut stream = rustls::Stream::new(&mut connection, &mut socket);
    let key = authority::key()?;
    let request =
        [&MAGIC[..], &me.0.to_le_bytes(), &token.secret, &authority::public_key(&key)].concat();
    stream.write_all(&request)?;
    let mut header = [0; 5];
    stream.read_exact(&mut header)?;
    let length = u32::from_le_bytes([header[1], header[2], header[3], header[4]]);
    if length > LONGEST_ANSWER {
        return Err(io::Error::other(format!("a response of {length} bytes is too long")));
    }
    let mut text = String::new();
    stream.take(u64::from(length)).read_to_string(&mut text)?;
    match header[0] {
        0 => return Ok(Answer::NotHere(text)),
        1 => {}
        _ => return Ok(Answer::Refused(text)),
    }
    const END: &str = "-----END CERTIFICATE-----";
    let at = text
        .find(END)
        .map(|at| at + END.len())
        .ok_or_else(|| io::Error::other("its response is not a certificate"))?;
    let (certificate, authority) = text.split_at(at);
    if mark(&authority::certificate(authority)?) != token.authority {
        return Err(io::Error::other("its certificate is of another authority than the token"));
    }
    let lines = |pem: &str| format!("{}\n", pem.trim());
    let key = key.serialize_pem();
    Ok(Answer::Given(StoredCertificate {
        authority: lines(authority),
        certificate: lines(certificate),
        key,
    }))
}

/// Responds to a request, after its magic was read.
pub fn answer(
    certificates: &Certificates,
    others: &[NodeId],
    stream: &mut (impl Read + Write),
) -> io::Result<NodeId> {
    let mut request = [0; REQUEST_BYTES];
    stream.read_exact(&mut request)?;
    let node = NodeId(u32::from_le_bytes([request[0], request[1], request[2], request[3]]));
    let secret: [u8; 16] = request[4..20].try_into().expect("invariant: 16 bytes");
    let key: PublicKey = request[20..].try_into().expect("invariant: 32 bytes");
    let gate = certificates.gate();
    let (what, text) = match &gate {
        Ok(Some((authority, token))) => match give(authority, token, others, node, secret, &key) {
            Ok(text) => (1, text),
            Err(why) => (2, why),
        },
        Ok(None) => (
            0,
            "the first member makes certificates, as long as its token lies in its folder"
                .to_owned(),
        ),
        Err(error) => (0, format!("its authority cannot be used: {error}")),
    };
    let length = u32::try_from(text.len()).expect("invariant: two certificates are short");
    let mut answer = vec![what];
    answer.extend_from_slice(&length.to_le_bytes());
    answer.extend_from_slice(text.as_bytes());
    stream.write_all(&answer)?;
    stream.flush()?;
    if what == 1 {
        Ok(node)
    } else {
        Err(io::Error::other(format!("no certificate for node {}: {text}", node.0)))
    }
}

fn give(
    authority: &Authority,
    token: &Token,
    others: &[NodeId],
    node: NodeId,
    secret: [u8; 16],
    key: &PublicKey,
) -> Result<String, String> {
    // Hashes are compared, so that the time that the comparison takes does not leak the secret.
    let hash = |bytes: &[u8]| ring::digest::digest(&ring::digest::SHA256, bytes);
    if hash(&secret).as_ref() != hash(&token.secret).as_ref() {
        return Err("the token is not the cluster's".into());
    }
    if !others.contains(&node) {
        return Err(format!(
            "node {} is not another member of the cluster: all members need the same --join",
            node.0
        ));
    }
    let issued = authority
        .issue(node, key)
        .map_err(|error| format!("its authority cannot be used: {error}"))?;
    Ok(issued + authority.certificate())
}

/// Accepts a server whose certificate chain has the authority named in the token.
#[derive(Debug)]
struct OfToken {
    authority: [u8; 16],
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for OfToken {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let authority =
            intermediates.iter().find(|certificate| mark(certificate) == self.authority);
        let authority = authority.ok_or(CertificateError::UnknownIssuer)?;
        let mut roots = RootCertStore::empty();
        roots.add(authority.clone().into_owned())?;
        let verifier = WebPkiServerVerifier::builder_with_provider(
            Arc::new(roots),
            Arc::clone(&self.provider),
        );
        let verifier = verifier.build().map_err(|error| Error::General(error.to_string()))?;
        verifier.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("TLS 1.2 is not supported".into()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(
            message,
            certificate,
            signature,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// Returns a connection error in words that say what to do.
pub fn words(error: &io::Error) -> String {
    use rustls::AlertDescription as Alert;
    match error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) {
        Some(Error::InvalidMessage(_)) => {
            "it does not speak TLS: either all members have certificates, or none".to_owned()
        }
        Some(Error::InvalidCertificate(CertificateError::UnknownIssuer | CertificateError::BadSignature)) => {
            "its certificate is from another authority: start every member except the first with the first member's token"
                .to_owned()
        }
        Some(Error::InvalidCertificate(CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. })) => {
            "its certificate names another node: all members need the same --join".to_owned()
        }
        Some(Error::AlertReceived(Alert::UnknownCA | Alert::BadCertificate | Alert::DecryptError | Alert::CertificateUnknown)) => {
            "it does not accept this node's certificate: start every member except the first with the first member's token"
                .to_owned()
        }
        _ => error.to_string(),
    }
}
