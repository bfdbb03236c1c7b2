//! Authentication of members: each shows a certificate that names its node, signed by an authority
//! that the cluster makes for itself.
//!
//! Consistency depends on the time and on votes, so on a shared network a node accepts neither from
//! an unauthenticated peer. The first member that is started makes the authority ([`authority`])
//! and a [`Token`]. Every other member is started once with the token. It requests its certificate
//! ([`enrolment`]) over a connection whose server it recognises by the token, and keeps the
//! certificate in its folder ([`certificates`]). Connections between members are TLS 1.3 with
//! mutual authentication.
//!
//! ```text
//!   folder/certificates/ca.crt     the authority that this node trusts
//!   folder/certificates/node.crt   its own certificate, in the name `node-N`
//!   folder/certificates/node.key   its private key, readable by its owner alone
//!   folder/certificates/ca.key     at the first member: the authority's key
//!   folder/certificates/token      at the first member: as long as the file exists, a process that
//!                                  knows the token can become a member
//! ```
//!
//! Invariants:
//! 1. The node named in a hello is the node named in the certificate.
//! 2. A process without a certificate can request one, and nothing else; without the token it gets
//!    none.
//! 3. A certificate does not expire: the clock, which may be wrong, does not decide which nodes may
//!    tell the time.
//! 4. The folder exists complete, or not at all.
//!
//! Not here: revocation (the members of a cluster are fixed; a lost key means a new authority at
//! all members), and certificates of an external authority.

pub mod authority;
pub mod certificates;
pub mod enrolment;
mod token;

pub use certificates::Certificates;
pub use token::Token;

/// The way in which nodes authenticate each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// No authentication: all nodes are on one machine, and no other machine can reach them.
    Loopback,
    /// Certificates.
    Certificates {
        /// The token of the first member; `None` at the first member.
        token: Option<Token>,
    },
}
