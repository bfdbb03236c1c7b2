//! The cluster's certificate authority.

use super::Token;
use meridian_machine::NodeId;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, PKCS_ED25519, PublicKeyData, SignatureAlgorithm,
};
use ring::digest;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::io;

/// A node's public key, as it is on the wire: Ed25519.
pub type PublicKey = [u8; 32];

/// The cluster's certificate authority: its certificate and key.
pub struct Authority {
    certificate: String,
    key: KeyPair,
}

/// Returns the name in a node's certificate.
pub fn name(node: NodeId) -> String {
    format!("node-{}", node.0)
}

/// Returns the mark of an authority: the first half of its certificate's SHA-256.
pub fn mark(certificate: &CertificateDer<'_>) -> [u8; 16] {
    let hash = digest::digest(&digest::SHA256, certificate);
    *hash.as_ref().first_chunk().expect("invariant: SHA-256 has 32 bytes")
}

/// Parses a certificate in PEM.
pub fn certificate(pem: &str) -> io::Result<CertificateDer<'static>> {
    CertificateDer::from_pem_slice(pem.as_bytes()).map_err(io::Error::other)
}

fn named(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default(); // valid from 1975 to 4096
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

fn of_authority() -> CertificateParams {
    let mut params = named("Meridian cluster");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    params
}

struct Ed25519<'a>(&'a PublicKey);

impl PublicKeyData for Ed25519<'_> {
    fn der_bytes(&self) -> &[u8] {
        self.0
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        &PKCS_ED25519
    }
}

impl Authority {
    /// Creates a new authority and its token.
    pub fn create() -> io::Result<(Self, Token)> {
        let key = key()?;
        let signed = of_authority().self_signed(&key).map_err(io::Error::other)?;
        let mut secret = [0; 16];
        getrandom::fill(&mut secret).map_err(|error| io::Error::other(error.to_string()))?;
        let token = Token { secret, authority: mark(signed.der()) };
        Ok((Authority { certificate: signed.pem(), key }, token))
    }

    /// Restores an authority from its files.
    pub fn from_pem(certificate: &str, key: &str) -> io::Result<Self> {
        Ok(Authority {
            certificate: certificate.to_owned(),
            key: KeyPair::from_pem(key).map_err(io::Error::other)?,
        })
    }

    /// Returns the authority's own certificate, in PEM.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// Returns the authority's private key, in PEM.
    pub fn key(&self) -> String {
        self.key.serialize_pem()
    }

    /// Issues a certificate for a node's public key, in PEM.
    pub fn issue(&self, node: NodeId, public_key: &PublicKey) -> io::Result<String> {
        let mut params = named(&name(node));
        let dns = name(node).try_into().expect("invariant: a node's name is ASCII");
        params.subject_alt_names = vec![rcgen::SanType::DnsName(dns)];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let issuer = Issuer::new(of_authority(), &self.key);
        Ok(params.signed_by(&Ed25519(public_key), &issuer).map_err(io::Error::other)?.pem())
    }
}

/// Generates a key pair.
pub fn key() -> io::Result<KeyPair> {
    KeyPair::generate_for(&PKCS_ED25519).map_err(io::Error::other)
}

/// Returns the public half of a key pair.
pub fn public_key(key: &KeyPair) -> PublicKey {
    key.der_bytes().try_into().expect("invariant: an Ed25519 key has 32 bytes")
}
