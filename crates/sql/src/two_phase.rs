//! Two-phase commit by SQL: PREPARE TRANSACTION, COMMIT PREPARED and ROLLBACK PREPARED.
//!
//! It is disabled, as it is in PostgreSQL by default (`max_prepared_transactions` is 0): a prepared
//! transaction would have to keep its locks when its node dies, and no protocol does that for a
//! transaction that is not committing.

use crate::error::{SqlError, state};
use crate::parse::is_word;
use crate::response::Status;
use crate::session::Session;
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// The length that an identifier of a transaction must be below, in bytes.
const IDENTIFIER_BYTES: usize = 200;

/// A statement of two-phase commit, with the identifier of the transaction.
#[derive(Clone, Debug)]
pub(crate) enum TwoPhase {
    Prepare(String),
    Commit(String),
    Rollback(String),
}

/// Cuts a statement of two-phase commit, which the parser does not know, and leaves a stand-in:
/// ROLLBACK for PREPARE TRANSACTION, since that ends the block in any case.
pub(crate) fn cut(tokens: &mut Vec<TokenWithSpan>) -> Option<TwoPhase> {
    let [verb, what, identifier] = tokens.as_slice() else { return None };
    let Token::SingleQuotedString(identifier) = &identifier.token else { return None };
    let identifier = identifier.clone();
    let stand_in = |words: &[&str]| {
        words.iter().map(|word| TokenWithSpan::wrap(Token::make_keyword(word))).collect()
    };
    let other = stand_in(&["set", "time", "zone", "utc"]);
    let (statement, left) = if is_word(verb, "prepare") && is_word(what, "transaction") {
        (TwoPhase::Prepare(identifier), stand_in(&["rollback"]))
    } else if !is_word(what, "prepared") {
        return None;
    } else if is_word(verb, "commit") {
        (TwoPhase::Commit(identifier), other)
    } else if is_word(verb, "rollback") {
        (TwoPhase::Rollback(identifier), other)
    } else {
        return None;
    };
    *tokens = left;
    Some(statement)
}

/// Refuses a statement of two-phase commit. PREPARE TRANSACTION outside of a block, or in a failed
/// one, is not refused: it is ROLLBACK.
pub(crate) fn refuse(session: &mut Session, statement: &TwoPhase) -> Result<(), SqlError> {
    let (verb, identifier) = match statement {
        TwoPhase::Prepare(identifier) => {
            if session.status() != Status::InTransaction {
                return Ok(());
            }
            // The block is over, whatever the error.
            session.end_transaction(false);
            if identifier.len() >= IDENTIFIER_BYTES {
                let message = format!("transaction identifier \"{identifier}\" is too long");
                return Err(SqlError::new(state::INVALID_PARAMETER, message));
            }
            let message = "prepared transactions are disabled";
            return Err(SqlError::new(state::NOT_IN_STATE, message)
                .hint("Set max_prepared_transactions to a nonzero value."));
        }
        TwoPhase::Commit(identifier) => ("COMMIT PREPARED", identifier),
        TwoPhase::Rollback(identifier) => ("ROLLBACK PREPARED", identifier),
    };
    if session.status() != Status::Idle {
        let message = format!("{verb} cannot run inside a transaction block");
        return Err(SqlError::new(state::ACTIVE_TRANSACTION, message));
    }
    let message = format!("prepared transaction with identifier \"{identifier}\" does not exist");
    Err(SqlError::new(state::UNDEFINED_OBJECT, message))
}
