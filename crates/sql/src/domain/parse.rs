//! The text of CREATE, ALTER and DROP DOMAIN, which is parsed as that of a table with one column,
//! the value: a column has the clauses of a domain.

use super::VALUE;
use crate::parse::is_word;
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// Makes CREATE TABLE, ALTER TABLE or DROP TYPE of a statement about a domain. Returns true if it
/// is one.
pub(crate) fn cut(tokens: &mut Vec<TokenWithSpan>) -> bool {
    let is = |at: usize, word: &str| tokens.get(at).is_some_and(|token| is_word(token, word));
    if !is(1, "domain") || tokens.len() < 3 {
        return false;
    }
    let span = tokens[1].span;
    let word = |word: &str| TokenWithSpan::new(Token::make_keyword(word), span);
    if is(0, "drop") {
        tokens[1] = word("type");
        return true;
    }
    if !is(0, "create") && !is(0, "alter") {
        return false;
    }
    // Its text is put between brackets.
    if is(0, "create") && !is_balanced(&tokens[2..]) {
        return false;
    }
    let mut name_end = 3;
    while tokens.get(name_end).is_some_and(|token| token.token == Token::Period) {
        name_end += 2;
    }
    let value = TokenWithSpan::new(Token::make_word(VALUE, Some('"')), span);
    if is(0, "create") {
        let has_as = is(name_end, "as");
        tokens[1] = word("table");
        let open = TokenWithSpan::new(Token::LParen, span);
        let end = name_end + usize::from(has_as);
        if end > tokens.len() {
            return true;
        }
        tokens.splice(name_end..end, [open, value]);
        tokens.push(TokenWithSpan::new(Token::RParen, span));
        return true;
    }
    let sets = |at| is(at, "default") || is(at, "not") && is(at + 1, "null");
    let changes_column = (is(name_end, "set") || is(name_end, "drop")) && sets(name_end + 1);
    tokens[1] = word("table");
    if changes_column {
        tokens.splice(name_end..name_end, [word("alter"), word("column"), value]);
    }
    true
}

/// True if each closing bracket has an opening one before it.
fn is_balanced(tokens: &[TokenWithSpan]) -> bool {
    let mut depth = 0_usize;
    tokens.iter().all(|token| {
        let closes = token.token == Token::RParen;
        depth += usize::from(token.token == Token::LParen);
        let is_open = depth > 0;
        depth -= usize::from(closes && is_open);
        !closes || is_open
    })
}

#[cfg(test)]
mod tests {
    use crate::parse;

    #[test]
    fn statements_about_domains_are_those_of_a_table_with_a_value() {
        for (text, shown) in [
            (
                "create domain s.d as varchar(3) not null check (value <> 'x')",
                "CREATE TABLE s.d (\"value\" VARCHAR(3) NOT NULL CHECK (value <> 'x'))",
            ),
            ("create domain d int[] default '{}'", "CREATE TABLE d (\"value\" INT[] DEFAULT '{}')"),
            (
                "alter domain s.d drop default",
                "ALTER TABLE s.d ALTER COLUMN \"value\" DROP DEFAULT",
            ),
            (
                "alter domain d add constraint c check (value > 1) not valid",
                "ALTER TABLE d ADD CONSTRAINT c CHECK (value > 1) NOT VALID",
            ),
            ("drop domain if exists a, b cascade", "DROP TYPE IF EXISTS a, b CASCADE"),
        ] {
            let parsed = parse::statements(text).expect(text);
            assert!(parsed[0].is_domain, "{text}");
            assert_eq!(parsed[0].statement.to_string(), shown);
        }
        assert!(parse::statements("create domain d").is_err());
        assert!(parse::statements("create domain d as").is_err());
        for glued in ["create domain d as int) partition by (a", "create domain d as int) with (a"]
        {
            assert!(parse::statements(glued).is_err(), "{glued}");
        }
        assert!(!parse::statements("create table domain (d int)").expect("a table")[0].is_domain);
    }
}
