//! LISTEN and NOTIFY: notifications to the sessions of all nodes.
//!
//! ```text
//!   01 0F time age number   a notification, in the order in which keys were made
//! ```
//!
//! A notification is a row that its transaction writes when it commits ([`queue`]). A process with
//! sessions that listen reads these rows at snapshots, one after another, and so gets them in the
//! order of commits ([`listeners`]). What has arrived for a session waits in its [`inbox`] until
//! the session is in no transaction. What a transaction has asked for, LISTEN and UNLISTEN
//! included, waits for its commit ([`session`]).
//!
//! Nothing about listeners is stored: a session that ends leaves nothing behind.

mod delivery;
mod inbox;
mod listeners;
mod queue;
mod session;

pub use delivery::Delivery;
pub use inbox::Notification;
pub(crate) use listeners::Listeners;
pub(crate) use session::Notifications;

use crate::error::{SqlError, state};
use crate::names;
use crate::parse::is_word;
use crate::response::Response;
use crate::session::Session;
use meridian_txn::{Mode, ReadAt};
use sqlparser::ast::{Ident, Statement};
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// The longest name of a channel, in bytes.
const LONGEST_CHANNEL: usize = 63;
/// The size that a payload must be below, in bytes.
const PAYLOAD_BYTES: usize = 8000;

/// An action of a transaction, for when it commits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Action {
    Notify {
        channel: String,
        payload: String,
    },
    Listen(String),
    /// Ends listening on a channel, or on all.
    Unlisten(Option<String>),
}

impl Action {
    /// Returns a NOTIFY; fails with 22023 if a part is too long, or there is no channel.
    pub(crate) fn notify(channel: &str, payload: &str) -> Result<Action, SqlError> {
        let refuse = |message| Err(SqlError::new(state::INVALID_PARAMETER, message));
        match (channel.len(), payload.len()) {
            (0, _) => refuse("channel name cannot be empty"),
            (length, _) if length > LONGEST_CHANNEL => refuse("channel name too long"),
            (_, length) if length >= PAYLOAD_BYTES => refuse("payload string too long"),
            _ => Ok(Action::Notify { channel: channel.into(), payload: payload.into() }),
        }
    }
}

/// Runs LISTEN, NOTIFY or UNLISTEN, in the open transaction or an implicit one.
pub(crate) async fn run(
    session: &mut Session,
    statement: &Statement,
) -> Result<Response, SqlError> {
    let (action, tag) = match statement {
        Statement::NOTIFY { channel, payload } => {
            let channel = channel_of(session, channel);
            (Action::notify(&channel, payload.as_deref().unwrap_or_default())?, "NOTIFY")
        }
        Statement::LISTEN { channel } => (Action::Listen(channel_of(session, channel)), "LISTEN"),
        Statement::UNLISTEN { channel } => {
            let is_all = channel.quote_style.is_none() && channel.value == "*";
            let channel = (!is_all).then(|| channel_of(session, channel));
            (Action::Unlisten(channel), "UNLISTEN")
        }
        other => return Err(SqlError::unsupported(other)),
    };
    if matches!(action, Action::Listen(_)) && !session.facts.notifications.is_received() {
        let what = "LISTEN in a session without a connection";
        return Err(SqlError::unsupported(what)
            .hint("Connect to a server: it sends notifications as they arrive."));
    }
    if session.work.is_none() {
        let mode = match action {
            Action::Notify { .. } => Mode::ReadWrite,
            _ => Mode::ReadOnly(ReadAt::Now),
        };
        let work = session.begin_work(mode, None, false).await?;
        session.slot.begins(work.txn.age());
        session.work = Some(work);
    }
    session.announce(action);
    Ok(Response::Complete(tag.into()))
}

/// Returns the name of a channel: a longer one is cut, as all names are in PostgreSQL.
fn channel_of(session: &mut Session, ident: &Ident) -> String {
    let name = names::fold(ident);
    if name.len() <= LONGEST_CHANNEL {
        return name;
    }
    let cut = name[..name.floor_char_boundary(LONGEST_CHANNEL)].to_owned();
    let message = format!("identifier \"{name}\" will be truncated to \"{cut}\"");
    session.notify(SqlError::new("42622", message));
    cut
}

/// Makes a plain string of the payload of NOTIFY: the parser takes no other, but takes names, which
/// are refused.
pub(crate) fn adapt(tokens: &mut [TokenWithSpan]) -> Result<(), SqlError> {
    let [notify, _, comma, payload, ..] = tokens else { return Ok(()) };
    if !is_word(notify, "notify") || comma.token != Token::Comma {
        return Ok(());
    }
    match &mut payload.token {
        Token::EscapedStringLiteral(text) | Token::UnicodeStringLiteral(text) => {
            payload.token = Token::SingleQuotedString(std::mem::take(text));
        }
        Token::DollarQuotedString(quoted) => {
            payload.token = Token::SingleQuotedString(std::mem::take(&mut quoted.value));
        }
        token @ Token::Word(_) => {
            let message = format!("syntax error at or near \"{token}\"");
            let place = names::place(payload.span.start);
            return Err(SqlError::new(state::SYNTAX, message).at(place));
        }
        _ => {}
    }
    Ok(())
}
