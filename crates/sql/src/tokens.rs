//! The tokens of a statement as the parser can read them: it reads brackets of queries and joins in
//! fewer places than PostgreSQL does, IS DISTINCT FROM otherwise, and ISNULL and TRIM (FROM …) not
//! at all.

use crate::dialect::{DISTINCT_FROM, EXPRESSION, NOT_DISTINCT_FROM};
use crate::parse::is_word;
use crate::system;
use crate::table_command;
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// The words behind a query in brackets that continue it.
const BEHIND_QUERY: [&str; 8] =
    ["union", "intersect", "except", "order", "limit", "offset", "fetch", "for"];

/// Turns tokens into those that the parser reads as PostgreSQL does. Returns the number of pairs
/// of brackets that were added.
pub(crate) fn adapt(tokens: &mut Vec<TokenWithSpan>) -> usize {
    join_distinct(tokens);
    join_distances(tokens);
    bracket_arrays(tokens);
    cut_only(tokens);
    table_command::spell_out(tokens);
    spell_out(tokens);
    name_orders(tokens);
    cast_intervals(tokens);
    bracket_bounds(tokens);
    let added = close_joins(tokens);
    let lists = places(tokens).lists;
    let mark = |open: usize| (open + 1, Token::CustomBinaryOperator(EXPRESSION.to_owned()));
    insert(tokens, lists.into_iter().map(mark).collect());
    added
}

/// Returns the places, in order, where a query begins that the parser would take for an expression.
pub(crate) fn queries(tokens: &[TokenWithSpan]) -> Vec<usize> {
    places(tokens).queries
}

/// Writes brackets for ARRAY behind the name of a type, which begins no constructor and is no name.
fn bracket_arrays(tokens: &mut Vec<TokenWithSpan>) {
    let mut at = 1;
    while at < tokens.len() {
        let begins = tokens.get(at + 1).map(|next| &next.token);
        let is_type = is_word(&tokens[at], "array")
            && !matches!(begins, Some(Token::LBracket | Token::LParen))
            && match &tokens[at - 1].token {
                Token::Word(_) => !is_word(&tokens[at - 1], "as"),
                Token::RParen => true,
                _ => false,
            };
        if is_type {
            let span = tokens[at].span;
            tokens[at].token = Token::LBracket;
            tokens.insert(at + 1, TokenWithSpan::new(Token::RBracket, span));
        }
        at += 1;
    }
}

/// Makes one operator of IS [NOT] DISTINCT FROM.
fn join_distinct(tokens: &mut Vec<TokenWithSpan>) {
    let length = |rest: &[TokenWithSpan]| {
        let starts = |words: &[&str]| {
            rest.len() > words.len() && words.iter().zip(rest).all(|(word, t)| is_word(t, word))
        };
        match () {
            () if starts(&["is", "distinct", "from"]) => Some((3, DISTINCT_FROM)),
            () if starts(&["is", "not", "distinct", "from"]) => Some((4, NOT_DISTINCT_FROM)),
            () => None,
        }
    };
    if !tokens.iter().any(|token| is_word(token, "distinct")) {
        return;
    }
    let (mut at, mut made) = (0, Vec::with_capacity(tokens.len()));
    while at < tokens.len() {
        let token = tokens[at].clone();
        match length(&tokens[at..]) {
            Some((words, name)) => {
                let operator = Token::CustomBinaryOperator(name.to_owned());
                made.push(TokenWithSpan::new(operator, token.span));
                at += words;
            }
            None => {
                made.push(token);
                at += 1;
            }
        }
    }
    *tokens = made;
}

/// Makes one operator of `<<->` and of `<<<->`, which the tokenizer splits before the minus sign,
/// and one with the precedence of these of `<->`.
fn join_distances(tokens: &mut Vec<TokenWithSpan>) {
    let is_start = |token: &Token| match token {
        Token::ShiftLeft => true,
        Token::CustomBinaryOperator(name) => name == "<<<",
        _ => false,
    };
    for token in tokens.iter_mut().filter(|token| token.token == Token::TwoWayArrow) {
        token.token = Token::CustomBinaryOperator(token.token.to_string());
    }
    let mut at = 1;
    while at < tokens.len() {
        let [start, end] = [at - 1, at].map(|at| &tokens[at]);
        let is_one =
            is_start(&start.token) && end.token == Token::Arrow && start.span.end == end.span.start;
        if is_one {
            let name = format!("{}{}", start.token, end.token);
            tokens[at - 1].token = Token::CustomBinaryOperator(name);
            tokens.remove(at);
        }
        at += 1;
    }
}

/// Cuts ONLY before a table's name, and the brackets around that: no table inherits from another
/// one, and the parser knows the word in few places.
fn cut_only(tokens: &mut Vec<TokenWithSpan>) {
    let is = |at: usize, token: &Token| tokens.get(at).is_some_and(|it| it.token == *token);
    let is_name = |at: usize| matches!(tokens.get(at).map(|it| &it.token), Some(Token::Word(_)));
    let is_relation = |before: &TokenWithSpan| {
        let words = ["from", "join", "update", "using"];
        matches!(before.token, Token::Comma | Token::LParen)
            || words.iter().any(|word| is_word(before, word))
    };
    let mut cut = Vec::new();
    for at in 1..tokens.len() {
        if !is_word(&tokens[at], "only") || !is_relation(&tokens[at - 1]) {
            continue;
        }
        if is_name(at + 1) {
            cut.push(at);
        } else if is(at + 1, &Token::LParen) && is_name(at + 2) {
            let mut end = at + 3;
            while is(end, &Token::Period) && is_name(end + 1) {
                end += 2;
            }
            if is(end, &Token::RParen) {
                cut.extend([at, at + 1, end]);
            }
        }
    }
    for at in cut.into_iter().rev() {
        tokens.remove(at);
    }
}

/// Writes forms that the parser does not know as others: `a ISNULL` as `a IS NULL`,
/// `TRIM (LEADING FROM a)` as `TRIM (LEADING ' ' FROM a)`, and ABORT as ROLLBACK.
fn spell_out(tokens: &mut Vec<TokenWithSpan>) {
    if let Some(first) = tokens.first_mut().filter(|first| is_word(first, "abort")) {
        first.token = Token::make_keyword("ROLLBACK");
    }
    let is = |at: usize, word| tokens.get(at).is_some_and(|token| is_word(token, word));
    let opens = |at: usize| tokens.get(at).is_some_and(|token| token.token == Token::LParen);
    let is_name = |at: usize| at > 0 && tokens[at - 1].token == Token::Period;
    // Before a bracket it is the name of a function.
    let tests = |at: usize| is(at, "isnull") && !opens(at + 1) && !is_name(at) && !is(at - 1, "as");
    let tests: Vec<usize> = (1..tokens.len()).filter(|at| tests(*at)).collect();
    let side = |at: usize| ["both", "leading", "trailing"].iter().any(|word| is(at, word));
    let trims = |at: usize| is(at, "trim") && opens(at + 1) && !is_name(at);
    let from = |at: usize| trims(at).then(|| at + 2 + usize::from(side(at + 2)));
    let blanks = (0..tokens.len()).filter_map(from).filter(|at| is(*at, "from"));
    let blank = |at: usize| (at, Token::SingleQuotedString(" ".into()));
    let mut marks: Vec<(usize, Token)> = blanks.map(blank).collect();
    marks.extend(tests.iter().map(|at| (*at, Token::make_keyword("IS"))));
    for at in tests {
        tokens[at].token = Token::make_keyword("NULL");
    }
    insert(tokens, marks);
}

/// Writes `ORDER BY a USING <` as `ORDER BY a ASC`, and `>` as DESC.
fn name_orders(tokens: &mut Vec<TokenWithSpan>) {
    let mut at = 0;
    while at + 1 < tokens.len() {
        let order = match tokens[at + 1].token {
            _ if !is_word(&tokens[at], "using") => None,
            Token::Lt => Some("ASC"),
            Token::Gt => Some("DESC"),
            _ => None,
        };
        if let Some(order) = order {
            tokens[at].token = Token::make_keyword(order);
            tokens.remove(at + 1);
        }
        at += 1;
    }
}

/// Writes `interval(2) '…'` as `('…'::interval(2))`: the parser loses the precision.
fn cast_intervals(tokens: &mut Vec<TokenWithSpan>) {
    let mut at = 0;
    while at + 4 < tokens.len() {
        let [name, open, number, close, text] = &tokens[at..at + 5] else { return };
        let is_literal = is_word(name, "interval")
            && open.token == Token::LParen
            && matches!(number.token, Token::Number(..))
            && close.token == Token::RParen
            && matches!(text.token, Token::SingleQuotedString(_) | Token::EscapedStringLiteral(_));
        if is_literal {
            let span = name.span;
            let token = |token: Token| TokenWithSpan::new(token, span);
            let mut made = vec![token(Token::LParen), text.clone(), token(Token::DoubleColon)];
            made.extend(tokens[at..at + 4].iter().cloned());
            made.push(token(Token::RParen));
            tokens.splice(at..at + 5, made);
            at += 7;
        }
        at += 1;
    }
}

/// Writes brackets around a bound of a frame that begins with a text, `'1 day'::interval
/// PRECEDING`: the parser takes the text alone for the bound.
fn bracket_bounds(tokens: &mut Vec<TokenWithSpan>) {
    if !tokens.iter().any(|token| is_word(token, "preceding") || is_word(token, "following")) {
        return;
    }
    let is_one = |token: &TokenWithSpan, words: &[&str]| words.iter().any(|it| is_word(token, it));
    let (mut at, mut marks) = (1, Vec::new());
    while at + 1 < tokens.len() {
        let begins = matches!(tokens[at].token, Token::SingleQuotedString(_))
            && tokens[at + 1].token == Token::DoubleColon
            && is_one(&tokens[at - 1], &["between", "and", "range", "rows", "groups"]);
        let end = (at + 2..tokens.len()).find(|end| match &tokens[*end].token {
            Token::Word(_) => is_one(&tokens[*end], &["preceding", "following", "and"]),
            Token::LParen | Token::RParen | Token::Number(..) | Token::Comma => false,
            Token::LBracket | Token::RBracket => false,
            _ => true,
        });
        if let Some(end) = end.filter(|_| begins)
            && is_one(&tokens[end], &["preceding", "following"])
        {
            marks.extend([(at, Token::LParen), (end, Token::RParen)]);
            at = end;
        }
        at += 1;
    }
    insert(tokens, marks);
}

/// Inserts tokens before places, in order of these.
fn insert(tokens: &mut Vec<TokenWithSpan>, mut marks: Vec<(usize, Token)>) {
    if marks.is_empty() {
        return;
    }
    marks.sort_by_key(|(at, _)| *at);
    let mut made = Vec::with_capacity(tokens.len() + marks.len());
    let mut marks = marks.into_iter().peekable();
    for (at, token) in tokens.drain(..).enumerate() {
        while let Some((_, mark)) = marks.next_if(|(place, _)| *place == at) {
            made.push(TokenWithSpan::new(mark, token.span));
        }
        made.push(token);
    }
    *tokens = made;
}

/// Places that the parser would misread, in order.
#[derive(Debug, Default)]
struct Places {
    /// Where a query begins that it would take for an expression: VALUES behind a bracket, and a
    /// query in brackets that continues behind them, as `((SELECT 1) UNION SELECT 2)`.
    queries: Vec<usize>,
    /// Where a list opens behind IN that it would take for a query: `((SELECT 1), 2)`.
    lists: Vec<usize>,
}

/// Finds the places in a statement.
fn places(tokens: &[TokenWithSpan]) -> Places {
    let is = |at: usize, word| tokens.get(at).is_some_and(|token| is_word(token, word));
    let opens = |at: usize| tokens.get(at).is_some_and(|token| token.token == Token::LParen);
    // A column may be called values.
    let is_values = |at: usize| is(at, "values") && opens(at + 1);
    let begins = |at: usize| is(at, "select") || is(at, "with") || is_values(at);
    let continues = |at: usize| BEHIND_QUERY.iter().any(|word| is(at, word));
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
            _ if at > 0 && tokens[at - 1].token == Token::LParen && is_values(at) => {
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
        Token::Word(word) => {
            let is_operator = ["by", "zone"].iter().any(|w| is_word(&tokens[before], w));
            word.quote_style.is_some() || !is_operator && !system::is_key_word(&word.value)
        }
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
fn close_joins(tokens: &mut Vec<TokenWithSpan>) -> usize {
    let pairs = missing(tokens);
    let marks =
        pairs.iter().flat_map(|&(open, close)| [(open, Token::LParen), (close, Token::RParen)]);
    insert(tokens, marks.collect());
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
            // Any word may name a column behind a period.
            Token::Word(_) if at == 0 || tokens[at - 1].token != Token::Period => {
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
const ENDS: [&str; 8] =
    ["select", "from", "where", "group", "having", "order", "union", "returning"];

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
        adapt(&mut all);
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
                "FROM a JOIN b JOIN c ON b . set = c . from ON z",
                "FROM a JOIN ( b JOIN c ON b . set = c . from ) ON z",
            ),
            (
                "FROM a JOIN b JOIN c ON x LEFT JOIN d ON y ON z",
                "FROM a JOIN ( b JOIN c ON x LEFT JOIN d ON y ) ON z",
            ),
        ] {
            assert_eq!(closed(open), brackets);
        }
    }

    #[test]
    fn only_is_cut_before_tables() {
        for (written, read) in [
            ("SELECT 1 FROM ONLY t JOIN ONLY (a . t) ON x", "SELECT 1 FROM t JOIN a . t ON x"),
            ("UPDATE ONLY a . t SET x = 1", "UPDATE a . t SET x = 1"),
            ("SELECT a . only AS only FROM t", "SELECT a . only AS only FROM t"),
            ("FETCH FIRST 1 ROWS ONLY", "FETCH FIRST 1 ROWS ONLY"),
            ("SELECT 1 FROM only", "SELECT 1 FROM only"),
        ] {
            assert_eq!(closed(written), read);
        }
    }

    #[test]
    fn short_forms_are_spelled_out() {
        for (short, long) in [
            (
                "SELECT a ISNULL, b . isnull, isnull (1)",
                "SELECT a IS NULL , b . isnull , isnull ( 1 )",
            ),
            ("SELECT 1 AS isnull", "SELECT 1 AS isnull"),
            ("SELECT (1) isnull AND x", "SELECT ( 1 ) IS NULL AND x"),
            ("SELECT trim(both from a)", "SELECT trim ( both ' ' from a )"),
            ("SELECT TRIM(FROM a), trim(a)", "SELECT TRIM ( ' ' FROM a ) , trim ( a )"),
            ("SELECT trim(leading 'x' from a)", "SELECT trim ( leading 'x' from a )"),
        ] {
            assert_eq!(closed(short), long);
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
            "SELECT max(values) FROM t",
            "SELECT 1 ORDER BY (SELECT 1)",
        ] {
            assert_eq!(places(expression), [0; 0], "{expression}");
        }
    }
}
