//! Runs the statements of `docs/sql-reference.md`, in their order.

use crate::common::session;
use futures::executor::block_on;
use meridian_sql::Response;

const STATEMENTS: &str = include_str!("../../src/reference.sql");

#[test]
fn every_statement_of_the_reference_runs() {
    let (mut session, _) = session();
    let statements: Vec<&str> = STATEMENTS.split(";\n").map(str::trim).collect();
    assert!(statements.len() > 70, "{} statements", statements.len());
    // LISTEN needs a connection, which these sessions do not have.
    let here = |text: &&str| !text.is_empty() && !text.starts_with("LISTEN");
    for statement in statements.into_iter().filter(here) {
        for response in block_on(session.simple(statement)).iter() {
            if let Response::Failed(error) = response {
                panic!("{statement}: {error:?}");
            }
        }
    }
}
