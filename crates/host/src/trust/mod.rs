//! Who may speak: every member shows a certificate that names its node, from an authority that the
//! cluster makes for itself.
//!
//! Time is consistency, and so is every vote: on a network that others use, a node believes nobody
//! who only says who he is. The first member that is started makes the authority ([`authority`])
//! and a [`Token`]; every other member is given the token once, asks for its certificate
//! ([`enrolment`]) over a connection whose other end the token recognises, and keeps it in its
//! folder ([`certificates`]). Connections between members are TLS 1.3 in both directions' names.
//!
//! ```text
//!   folder/certificates/ca.crt     whom this node believes
//!   folder/certificates/node.crt   who it is, in the name `node-N`
//!   folder/certificates/node.key   readable by its owner alone
//!   folder/certificates/ca.key     at the first member: what makes certificates
//!   folder/certificates/token      at the first member: as long as it lies there, whoever knows it may become a member
//! ```
//!
//! Invariants:
//! 1. What a member says of itself in a hello is what its certificate says.
//! 2. Whoever has no certificate can ask for one, and nothing else; without the token it gets none.
//! 3. A certificate does not expire: the clock, which may be wrong, does not decide who may tell
//!    the time.
//! 4. The folder is there whole, or not at all.
//!
//! Not here: taking a certificate back (members are fixed at birth; a lost key means a new
//! authority at all members), and certificates from elsewhere.

pub mod authority;
pub mod certificates;
pub mod enrolment;
mod token;

pub use certificates::Certificates;
pub use token::Token;

/// How nodes know each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// By what they say: on one machine, where nobody else can speak to them.
    Loopback,
    /// By certificates.
    Certificates {
        /// What the first member has given out; none at the first member.
        token: Option<Token>,
    },
}
