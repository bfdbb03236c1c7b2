//! A node's own certificate, and the verification of its peers' certificates.

use super::authority::{self, Authority, name};
use super::{Token, Trust, enrolment};
use crate::identity::OpenError;
use meridian_machine::NodeId;
use rustls::client::Resumption;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::time_provider::TimeProvider;
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection, version,
};
use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// A node's certificate folder, with the TLS configurations made from it.
pub struct Certificates {
    folder: PathBuf,
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
}

/// The files of the folder.
pub(super) struct StoredCertificate {
    /// The authority's certificate, PEM.
    pub authority: String,
    /// The node's certificate, PEM.
    pub certificate: String,
    /// The node's key, PEM.
    pub key: String,
}

/// A constant time for the verification of certificates (invariant 3 of the parent module).
#[derive(Debug)]
struct Always;

impl TimeProvider for Always {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(Duration::from_secs(1_800_000_000)))
    }
}

/// Returns the cryptographic algorithms.
pub(super) fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// Returns the common part of every client's configuration.
pub(super) fn client()
-> Result<rustls::ConfigBuilder<ClientConfig, rustls::WantsVerifier>, rustls::Error> {
    let builder = ClientConfig::builder_with_details(provider(), Arc::new(Always));
    builder.with_protocol_versions(&[&version::TLS13])
}

impl Certificates {
    /// Opens the certificates in a node's folder. Without the folder, a node with a token requests
    /// its certificate from the other members; a node without one is the first member, and makes
    /// the authority.
    pub fn open(
        data: &Path,
        me: NodeId,
        others: &BTreeMap<NodeId, String>,
        token: Option<&Token>,
    ) -> Result<Self, OpenError> {
        let folder = data.join("certificates");
        let of_file = |error| OpenError::File { path: folder.clone(), error };
        if !folder.try_exists().map_err(of_file)? {
            match token {
                Some(token) => {
                    let stored = enrolment::enrol(me, others, token).map_err(OpenError::Options)?;
                    keep(data, &stored, None).map_err(of_file)?;
                }
                None => found(data, me).map_err(of_file)?,
            }
        }
        let stored = StoredCertificate::read(&folder)?;
        let damaged =
            |error: io::Error| OpenError::Damaged { path: folder.clone(), what: error.to_string() };
        if let Some(token) = token
            && authority::mark(&authority::certificate(&stored.authority).map_err(damaged)?)
                != token.authority
        {
            let what = "is of another authority than the token: this node was started before without it. Remove that \
                        folder to let the node ask for a certificate again";
            return Err(OpenError::Other { path: folder, what: what.into() });
        }
        Certificates::new(&folder, me, &stored).map_err(damaged)
    }

    fn new(folder: &Path, me: NodeId, stored: &StoredCertificate) -> io::Result<Self> {
        let (authority, certificate) = (
            authority::certificate(&stored.authority)?,
            authority::certificate(&stored.certificate)?,
        );
        if !names(&certificate, me) {
            return Err(io::Error::other(format!(
                "node.crt is not the certificate of {}",
                name(me)
            )));
        }
        let chain = vec![certificate, authority.clone()];
        let key = || PrivateKeyDer::from_pem_slice(stored.key.as_bytes()).map_err(io::Error::other);
        let mut roots = RootCertStore::empty();
        roots.add(authority).map_err(io::Error::other)?;
        let roots = Arc::new(roots);
        let builder =
            client().map_err(io::Error::other)?.with_root_certificates(Arc::clone(&roots));
        let mut client =
            builder.with_client_auth_cert(chain.clone(), key()?).map_err(io::Error::other)?;
        client.resumption = Resumption::disabled();
        let verifier =
            WebPkiClientVerifier::builder_with_provider(roots, provider()).allow_unauthenticated();
        let verifier = verifier.build().map_err(io::Error::other)?;
        let builder = ServerConfig::builder_with_details(provider(), Arc::new(Always));
        let builder =
            builder.with_protocol_versions(&[&version::TLS13]).map_err(io::Error::other)?;
        let builder = builder.with_client_cert_verifier(verifier);
        let mut server = builder.with_single_cert(chain, key()?).map_err(io::Error::other)?;
        // The dialing side of a connection only writes: it would never read a session ticket.
        server.send_tls13_tickets = 0;
        Ok(Certificates {
            folder: folder.into(),
            client: Arc::new(client),
            server: Arc::new(server),
        })
    }

    /// Returns the client side of a connection to a node, which fails unless the peer shows the
    /// node's certificate.
    pub fn call(&self, node: NodeId) -> io::Result<ClientConnection> {
        let mut connection = ClientConnection::new(Arc::clone(&self.client), server_name(node))
            .map_err(io::Error::other)?;
        connection.set_buffer_limit(None); // The link drains what it writes at once.
        Ok(connection)
    }

    /// Returns the server side of a connection.
    pub fn answer(&self) -> io::Result<ServerConnection> {
        ServerConnection::new(Arc::clone(&self.server)).map_err(io::Error::other)
    }

    /// Returns the authority and the token, at the first member and only as long as the token file
    /// exists there.
    pub(super) fn gate(&self) -> io::Result<Option<(Authority, Token)>> {
        let read = |file: &str| match fs::read_to_string(self.folder.join(file)) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        };
        let (Some(certificate), Some(key), Some(token)) =
            (read("ca.crt")?, read("ca.key")?, read("token")?)
        else {
            return Ok(None);
        };
        Ok(Some((
            Authority::from_pem(&certificate, &key)?,
            token.parse().map_err(io::Error::other)?,
        )))
    }

    /// Returns the path of the token file, if this is the first member.
    pub fn token_file(&self) -> Option<PathBuf> {
        Some(self.folder.join("token")).filter(|path| path.exists())
    }
}

/// Returns the name in a node's certificate, as TLS takes it.
pub(super) fn server_name(node: NodeId) -> ServerName<'static> {
    ServerName::try_from(name(node)).expect("invariant: a node's name is a name")
}

/// True if a certificate names this node.
pub fn names(certificate: &CertificateDer<'_>, node: NodeId) -> bool {
    webpki::EndEntityCert::try_from(certificate).is_ok_and(|certificate| {
        certificate.verify_is_valid_for_subject_name(&server_name(node)).is_ok()
    })
}

/// Makes the authority and the certificate of the first member.
fn found(data: &Path, me: NodeId) -> io::Result<()> {
    let (authority, token) = Authority::create()?;
    let key = authority::key()?;
    let certificate = authority.issue(me, &authority::public_key(&key))?;
    let stored = StoredCertificate {
        authority: authority.certificate().to_owned(),
        certificate,
        key: key.serialize_pem(),
    };
    keep(data, &stored, Some((&authority, &token)))
}

/// Writes the folder: complete, or not at all.
fn keep(
    data: &Path,
    stored: &StoredCertificate,
    of_first: Option<(&Authority, &Token)>,
) -> io::Result<()> {
    let fresh = data.join("certificates.new");
    match fs::remove_dir_all(&fresh) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    DirBuilder::new().recursive(true).mode(0o700).create(&fresh)?;
    let mut files = vec![
        ("ca.crt", stored.authority.clone()),
        ("node.crt", stored.certificate.clone()),
        ("node.key", stored.key.clone()),
    ];
    if let Some((authority, token)) = of_first {
        files.extend([("ca.key", authority.key()), ("token", token.to_text() + "\n")]);
    }
    for (name, text) in files {
        let mut file =
            OpenOptions::new().create_new(true).write(true).mode(0o600).open(fresh.join(name))?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
    }
    File::open(&fresh)?.sync_all()?;
    fs::rename(&fresh, data.join("certificates"))?;
    File::open(data)?.sync_all()
}

impl StoredCertificate {
    fn read(folder: &Path) -> Result<StoredCertificate, OpenError> {
        let read = |name: &str| {
            let path = folder.join(name);
            fs::read_to_string(&path).map_err(|error| OpenError::File { path, error })
        };
        Ok(StoredCertificate {
            authority: read("ca.crt")?,
            certificate: read("node.crt")?,
            key: read("node.key")?,
        })
    }
}

/// Opens the certificates that a node's trust needs, if it needs any.
pub fn open(
    trust: &Trust,
    data: Option<&Path>,
    me: NodeId,
    others: &BTreeMap<NodeId, String>,
) -> Result<Option<Arc<Certificates>>, OpenError> {
    match (trust, data) {
        (Trust::Loopback, _) => Ok(None),
        (Trust::Certificates { token }, Some(data)) => {
            Ok(Some(Arc::new(Certificates::open(data, me, others, token.as_ref())?)))
        }
        (Trust::Certificates { .. }, None) => Err(OpenError::Options(
            "certificates are kept in a data folder, and this node is in memory: give it a folder"
                .into(),
        )),
    }
}

impl std::fmt::Debug for Certificates {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Certificates").field("folder", &self.folder).finish_non_exhaustive()
    }
}
