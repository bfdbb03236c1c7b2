//! Brackets of queries and joins, which the parser reads in fewer places than PostgreSQL does.

use crate::parse::is_word;
use crate::system;
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// The words behind a query in brackets that continue it.
const BEHIND_QUERY: [&str; 7] =
    ["union", "intersect", "except", "order", "limit", "offset", "fetch"];

/// Places that the parser would misread, in order.
#[derive(Debug, Default)]
pub(crate) struct Places {
    /// Where a query begins that it would take for an expression: VALUES behind a bracket, and a
    /// query in brackets that continues behind them, as `((SELECT 1) UNION SELECT 2)`.
    pub(crate) queries: Vec<usize>,
    /// Where a list opens behind IN that it would take for a query: `((SELECT 1), 2)`.
    pub(crate) lists: Vec<usize>,
}

/// Finds the places in a statement.
pub(crate) fn places(tokens: &[TokenWithSpan]) -> Places {
    let begins = |at: usize| {
        let token = tokens.get(at);
        token.is_some_and(|token| ["select", "with", "values"].iter().any(|w| is_word(token, w)))
    };
    let continues = |at: usize| {
        let token = tokens.get(at);
        token.is_some_and(|token| BEHIND_QUERY.iter().any(|word| is_word(token, word)))
    };
    // The brackets that are open, and whether a query begins in them.
    let mut open: Vec<(usize, bool)> = Vec::new();
    let mut found = Places::default();
    for (at, token) in tokens.iter().enumerate() {
        match token.token {
            Token::LParen => open.push((at, begins(at + 1))),
            Token::RParen => {
                let Some((opened, has_query)) = open.pop() else { continue };
                if !has_query {
                    continue;
                }
                // `((SELECT 1) …`: the outer brackets may hold a query as well.
                let Some((outer, outer_has)) = open.last_mut() else { continue };
                if *outer + 1 == opened {
                    *outer_has = true;
                    let is_in = *outer > 0 && is_word(&tokens[*outer - 1], "in");
                    let is_last = tokens.get(at + 1).is_none_or(|t| t.token == Token::RParen);
                    if is_in && !is_last && !continues(at + 1) {
                        found.lists.push(*outer);
                    } else if continues(at + 1) && !is_call(tokens, *outer) {
                        found.queries.push(opened);
                    }
                }
            }
            _ if at > 0 && is_word(token, "values") && tokens[at - 1].token == Token::LParen => {
                found.queries.push(at);
            }
            _ => {}
        }
    }
    found.queries.sort_unstable();
    found.lists.sort_unstable();
    found
}

/// True if a bracket opens the arguments of a function, which ORDER BY may follow.
fn is_call(tokens: &[TokenWithSpan], bracket: usize) -> bool {
    let Some(before) = bracket.checked_sub(1) else { return false };
    match &tokens[before].token {
        Token::Word(word) => word.quote_style.is_some() || !system::is_key_word(&word.value),
        _ => false,
    }
}

/// A join whose condition has not been read.
struct Pending {
    /// The place of its right side.
    side: usize,
    /// True if the right side is a join itself.
    is_nested: bool,
}

/// Adds the brackets that PostgreSQL leaves out around the right side of a join:
/// `a JOIN b JOIN c ON … ON …` is `a JOIN (b JOIN c ON …) ON …`. Returns the number of pairs.
pub(crate) fn close_joins(tokens: &mut Vec<TokenWithSpan>) -> usize {
    let pairs = missing(tokens);
    if pairs.is_empty() {
        return 0;
    }
    let mut marks: Vec<(usize, Token)> = Vec::with_capacity(pairs.len() * 2);
    for &(open, close) in &pairs {
        marks.extend([(open, Token::LParen), (close, Token::RParen)]);
    }
    marks.sort_by_key(|(at, _)| *at);
    let mut marks = marks.into_iter().peekable();
    let mut closed = Vec::with_capacity(tokens.len() + pairs.len() * 2);
    for (at, token) in tokens.drain(..).enumerate() {
        while let Some((_, mark)) = marks.next_if(|(place, _)| *place == at) {
            closed.push(TokenWithSpan::new(mark, token.span));
        }
        closed.push(token);
    }
    *tokens = closed;
    pairs.len()
}

/// Returns the places before which a bracket is missing, in pairs.
fn missing(tokens: &[TokenWithSpan]) -> Vec<(usize, usize)> {
    // The pending joins of each level of brackets.
    let mut levels: Vec<Vec<Pending>> = vec![Vec::new()];
    let mut pairs = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        match &token.token {
            Token::LParen => levels.push(Vec::new()),
            Token::RParen if levels.len() > 1 => drop(levels.pop()),
            Token::Word(_) => {
                let Some(pending) = levels.last_mut() else { continue };
                if is_word(token, "join") {
                    if let Some(outer) = pending.last_mut() {
                        outer.is_nested = true;
                    }
                    if !is_unconditional(&tokens[..at]) {
                        pending.push(Pending { side: at + 1, is_nested: false });
                    }
                } else if is_word(token, "on") || is_word(token, "using") {
                    if let Some(Pending { side, is_nested: true }) = pending.pop() {
                        pairs.push((side, at));
                    }
                } else if ENDS.iter().any(|word| is_word(token, word)) {
                    pending.clear();
                }
            }
            _ => {}
        }
    }
    pairs
}

/// The words that end FROM.
const ENDS: [&str; 9] =
    ["select", "from", "where", "group", "having", "order", "union", "set", "returning"];

/// True if the words before JOIN are CROSS, or NATURAL with the kind of the join.
fn is_unconditional(before: &[TokenWithSpan]) -> bool {
    let kinds = ["left", "right", "full", "inner", "outer"];
    let mut rest = before.iter().rev();
    let first = rest.find(|token| !kinds.iter().any(|word| is_word(token, word)));
    first.is_some_and(|token| is_word(token, "cross") || is_word(token, "natural"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sqlparser::dialect::PostgreSqlDialect;
    use sqlparser::tokenizer::Tokenizer;

    fn tokens(sql: &str) -> Vec<TokenWithSpan> {
        let mut tokens =
            Tokenizer::new(&PostgreSqlDialect {}, sql).tokenize_with_location().unwrap();
        tokens.retain(|token| !matches!(token.token, Token::Whitespace(_)));
        tokens
    }

    fn closed(sql: &str) -> String {
        let mut all = tokens(sql);
        close_joins(&mut all);
        let texts: Vec<String> = all.iter().map(|token| token.token.to_string()).collect();
        texts.join(" ")
    }

    #[test]
    fn joins_inside_joins_have_brackets() {
        for plain in [
            "FROM a JOIN b ON x JOIN c ON y",
            "FROM a CROSS JOIN b LEFT JOIN c ON y",
            "FROM a NATURAL LEFT JOIN b JOIN c USING ( x )",
            "FROM a JOIN ( b JOIN c ON x ) ON y",
            "CREATE INDEX i ON t ( a )",
        ] {
            assert_eq!(closed(plain), plain);
        }
        for (open, brackets) in [
            ("FROM a JOIN b JOIN c ON x ON y", "FROM a JOIN ( b JOIN c ON x ) ON y"),
            (
                "FROM a JOIN b LEFT JOIN c JOIN d ON x ON y USING (z) WHERE w",
                "FROM a JOIN ( b LEFT JOIN ( c JOIN d ON x ) ON y ) USING ( z ) WHERE w",
            ),
            ("FROM a JOIN b NATURAL JOIN c ON x", "FROM a JOIN ( b NATURAL JOIN c ) ON x"),
            (
                "FROM a JOIN b JOIN c ON x LEFT JOIN d ON y ON z",
                "FROM a JOIN ( b JOIN c ON x LEFT JOIN d ON y ) ON z",
            ),
        ] {
            assert_eq!(closed(open), brackets);
        }
    }

    #[test]
    fn queries_are_told_from_expressions() {
        let lists = |sql: &str| super::places(&tokens(sql)).lists;
        assert_eq!(lists("SELECT 1 IN ((SELECT 1), 2)"), [3]);
        assert_eq!(lists("SELECT 1 IN ((SELECT 1) + 1)"), [3]);
        assert_eq!(lists("SELECT 1 IN ((SELECT 1) UNION SELECT 2)"), [0; 0]);
        assert_eq!(lists("SELECT 1 NOT IN (((SELECT 1)), 2), 1 IN ((SELECT 1))"), [4]);
        let places = |sql: &str| super::places(&tokens(sql)).queries;
        assert_eq!(places("SELECT ((SELECT 1) UNION SELECT 2)"), [2]);
        assert_eq!(places("SELECT (((SELECT 1)) ORDER BY 1)"), [2]);
        assert_eq!(places("SELECT (VALUES (1)), a = ANY (VALUES (1), (2))"), [2, 12]);
        for expression in [
            "SELECT ((SELECT 1) + 1)",
            "SELECT array_agg((SELECT 1) ORDER BY a)",
            "(SELECT 1) ORDER BY 1",
            "INSERT INTO t VALUES (1)",
        ] {
            assert_eq!(places(expression), [0; 0], "{expression}");
        }
    }
}
