//! Clauses that the parser does not know: EXCLUDE of a window's frame, GROUP BY DISTINCT, DROP
//! EXPRESSION of a column, FOR NO KEY UPDATE, FOR KEY SHARE and their lists of names, OVERRIDING of
//! INSERT, actions of MERGE (in `merge`), SEARCH and CYCLE (in `recursive`), subscripts of targets
//! (in `subscripts`), keys of ON CONFLICT with expressions (in `arbiter`).
//!
//! Before a statement is parsed, such a clause is cut off, and a name carries it: that of the
//! window, one before the keys or the columns, one as the column's default, or one before a name
//! behind OF. No name in a text contains the separator. The binder takes the clause from there. A
//! clause of locks with several names becomes a clause for each, which means the same.

mod arbiter;
mod merge;
mod recursive;
mod subscripts;

pub(crate) use arbiter::conflict_key;
pub(crate) use merge::{gives_defaults, is_nothing};
pub(crate) use recursive::{Added, Cycle, Search, added};
pub(crate) use subscripts::subscripts;

use crate::bind::Strength;
use crate::parse::is_word;
use crate::window::Exclude;
use sqlparser::ast;
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Span, Token, TokenWithSpan, Word};

/// The separator in a name that carries a clause. A text with it is rejected before it is parsed.
const SEPARATOR: char = '\0';
/// The name that carries DISTINCT of GROUP BY.
const DISTINCT: &str = "\0distinct";
/// The names that carry DROP EXPRESSION, and that with IF EXISTS.
const DROP_EXPRESSION: [&str; 2] = ["\0drop expression", "\0drop expression if exists"];

/// The names that carry a strength of locks.
const NO_KEY_UPDATE: &str = "\0no key update";
const KEY_SHARE: &str = "\0key share";

/// The names that carry OVERRIDING, as a column before the others.
const OVERRIDING_SYSTEM: &str = "\0system";
const OVERRIDING_USER: &str = "\0user";

/// The clause OVERRIDING of INSERT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Overriding {
    /// Identity columns take the values that are given.
    System,
    /// They take the values of their sequences.
    User,
}

/// Returns the clause behind EXCLUDE, and the number of its words.
fn clause(tokens: &[TokenWithSpan]) -> Option<(&'static str, usize)> {
    let starts = |words: &[&str]| {
        tokens.len() > words.len()
            && words.iter().zip(tokens).all(|(word, token)| is_word(token, word))
            && tokens[words.len()].token == Token::RParen
    };
    Some(match () {
        () if starts(&["no", "others"]) => ("nothing", 2),
        () if starts(&["current", "row"]) => ("current", 2),
        () if starts(&["group"]) => ("group", 1),
        () if starts(&["ties"]) => ("ties", 1),
        () => return None,
    })
}

/// Returns the bracket that opens the window before a place.
fn opening(tokens: &[TokenWithSpan], before: usize) -> Option<usize> {
    let mut depth = 0;
    for at in (0..before).rev() {
        match tokens[at].token {
            Token::RParen => depth += 1,
            Token::LParen if depth == 0 => {
                let follows = |word| at > 0 && is_word(&tokens[at - 1], word);
                return (follows("over") || follows("as")).then_some(at);
            }
            Token::LParen => depth -= 1,
            _ => {}
        }
    }
    None
}

/// A name that carries a clause.
fn carrier(value: String, span: Span) -> TokenWithSpan {
    let name = Word { value, quote_style: Some('"'), keyword: Keyword::NoKeyword };
    TokenWithSpan::new(Token::Word(name), span)
}

/// Replaces `DROP EXPRESSION [IF EXISTS]` of ALTER COLUMN by a default that carries it.
fn cut_drop_expression(tokens: &mut Vec<TokenWithSpan>) {
    let is = |tokens: &[TokenWithSpan], at: usize, word| {
        tokens.get(at).is_some_and(|token| is_word(token, word))
    };
    if !is(tokens, 0, "alter") || !is(tokens, 1, "table") {
        return;
    }
    for at in 5..tokens.len() {
        // A column may be called `expression`, and be dropped.
        let is_of_column = is(tokens, at - 2, "alter")
            || is(tokens, at - 2, "column") && is(tokens, at - 3, "alter");
        if !is_of_column || !is(tokens, at, "drop") || !is(tokens, at + 1, "expression") {
            continue;
        }
        let if_exists = is(tokens, at + 2, "if") && is(tokens, at + 3, "exists");
        let span = tokens[at].span;
        let word = |word| TokenWithSpan::new(Token::make_keyword(word), span);
        let name = carrier(DROP_EXPRESSION[usize::from(if_exists)].to_owned(), span);
        let words = if if_exists { 4 } else { 2 };
        tokens.splice(at..at + words, [word("SET"), word("DEFAULT"), name]);
    }
}

/// Returns true if a default stands for DROP EXPRESSION IF EXISTS, and false for DROP EXPRESSION.
pub(crate) fn drops_expression(default: &ast::Expr) -> Option<bool> {
    let ast::Expr::Identifier(ident) = default else { return None };
    DROP_EXPRESSION.iter().position(|name| ident.value == *name).map(|which| which == 1)
}

/// Moves each `OVERRIDING SYSTEM VALUE` or `USER VALUE` into the list of columns before it.
fn cut_overriding(tokens: &mut Vec<TokenWithSpan>) {
    let clause = |tokens: &[TokenWithSpan]| {
        let [clause, which, value, behind, ..] = tokens else { return None };
        let is_source = ["values", "select", "with", "table"].iter().any(|it| is_word(behind, it));
        if !is_source && behind.token != Token::LParen {
            return None;
        }
        let name = match () {
            () if is_word(which, "system") => OVERRIDING_SYSTEM,
            () if is_word(which, "user") => OVERRIDING_USER,
            () => return None,
        };
        (is_word(clause, "overriding") && is_word(value, "value")).then_some(name)
    };
    if !tokens.iter().any(|token| is_word(token, "overriding")) {
        return;
    }
    let mut at = 1;
    while at < tokens.len() {
        if let Some(name) = clause(&tokens[at..]) {
            let span = tokens[at].span;
            let token = |token: Token| TokenWithSpan::new(token, span);
            let carrier = carrier(name.to_owned(), span);
            tokens.drain(at..at + 3);
            match opened(tokens, at - 1) {
                Some(open) => {
                    let place = open + 1;
                    drop(tokens.splice(place..place, [carrier, token(Token::Comma)]));
                }
                None => {
                    let list = [token(Token::LParen), carrier, token(Token::RParen)];
                    drop(tokens.splice(at..at, list));
                }
            }
        }
        at += 1;
    }
}

/// Returns the bracket that a bracket closes.
fn opened(tokens: &[TokenWithSpan], close: usize) -> Option<usize> {
    let mut depth = 0usize;
    for at in (0..=close).rev() {
        match tokens[at].token {
            Token::RParen => depth += 1,
            Token::LParen => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return (at < close).then_some(at);
        }
    }
    None
}

/// Returns the columns of an INSERT, and the clause OVERRIDING that they carry.
pub(crate) fn overriding(columns: &[ast::ObjectName]) -> (&[ast::ObjectName], Option<Overriding>) {
    let Some((first, rest)) = columns.split_first() else { return (columns, None) };
    match only_name(first) {
        Some(OVERRIDING_SYSTEM) => (rest, Some(Overriding::System)),
        Some(OVERRIDING_USER) => (rest, Some(Overriding::User)),
        _ => (columns, None),
    }
}

/// Returns a name without qualifiers.
fn only_name(name: &ast::ObjectName) -> Option<&str> {
    let [part] = name.0.as_slice() else { return None };
    Some(part.as_ident()?.value.as_str())
}

/// Cuts the clauses from a statement.
pub(crate) fn cut(tokens: &mut Vec<TokenWithSpan>) {
    cut_drop_expression(tokens);
    cut_overriding(tokens);
    merge::cut(tokens);
    recursive::cut(tokens);
    subscripts::cut(tokens);
    arbiter::cut(tokens);
    let mut at = 0;
    while at + 3 < tokens.len() {
        let (by, span) = (&tokens[at..at + 3], tokens[at + 2].span);
        if is_word(&by[0], "group") && is_word(&by[1], "by") && is_word(&by[2], "distinct") {
            let comma = TokenWithSpan::new(Token::Comma, span);
            tokens.splice(at + 2..at + 3, [carrier(DISTINCT.to_owned(), span), comma]);
        }
        at += 1;
    }
    cut_locks(tokens);
    at = 0;
    while at < tokens.len() {
        if is_word(&tokens[at], "exclude")
            && let Some((which, words)) = clause(&tokens[at + 1..])
            && let Some(open) = opening(tokens, at)
        {
            tokens.drain(at..=at + words);
            let own = match &tokens[open + 1].token {
                Token::Word(word) if word.keyword == Keyword::NoKeyword => Some(word.clone()),
                _ => None,
            };
            let value = format!(
                "{SEPARATOR}{which}{SEPARATOR}{}",
                own.as_ref().map_or(String::new(), |word| match word.quote_style {
                    Some(_) => word.value.clone(),
                    None => word.value.to_lowercase(),
                })
            );
            let name = carrier(value, tokens[open + 1].span);
            let named = usize::from(own.is_some());
            tokens.splice(open + 1..open + 1 + named, [name]);
            at = open + 1;
        }
        at += 1;
    }
}

/// A clause of locks in the tokens of a statement.
struct Locks {
    carried: Option<&'static str>,
    /// UPDATE or SHARE.
    lock: &'static str,
    /// The names behind OF, each with its parts and the dots between them.
    names: Vec<Vec<TokenWithSpan>>,
    /// NOWAIT or SKIP LOCKED.
    action: Vec<TokenWithSpan>,
    /// The number of its tokens.
    length: usize,
}

impl Locks {
    /// Reads the clause that the tokens begin with.
    fn read(tokens: &[TokenWithSpan]) -> Option<Locks> {
        let is = |at: usize, word: &str| tokens.get(at).is_some_and(|token| is_word(token, word));
        let starts = |words: &[&str]| words.iter().enumerate().all(|(at, word)| is(at, word));
        let (carried, lock, mut length) = match () {
            () if starts(&["for", "update"]) => (None, "update", 2),
            () if starts(&["for", "share"]) => (None, "share", 2),
            () if starts(&["for", "no", "key", "update"]) => (Some(NO_KEY_UPDATE), "update", 4),
            () if starts(&["for", "key", "share"]) => (Some(KEY_SHARE), "share", 3),
            () => return None,
        };
        let mut names = Vec::new();
        if is(length, "of") {
            loop {
                let name = name(&tokens[length + 1..]);
                if name.is_empty() {
                    return None;
                }
                length += 1 + name.len();
                names.push(name.to_vec());
                if tokens.get(length).is_none_or(|token| token.token != Token::Comma) {
                    break;
                }
            }
        }
        let words = match () {
            () if is(length, "nowait") => 1,
            () if is(length, "skip") && is(length + 1, "locked") => 2,
            () => 0,
        };
        let action = tokens[length..length + words].to_vec();
        Some(Locks { carried, lock, names, action, length: length + words })
    }

    /// Returns the clauses that the parser knows.
    fn known(mut self, span: Span) -> Vec<TokenWithSpan> {
        let word = |word: &str| TokenWithSpan::new(Token::make_keyword(word), span);
        if self.names.is_empty() {
            self.names.push(Vec::new());
        }
        let mut clauses = Vec::new();
        for name in self.names {
            clauses.extend([word("for"), word(self.lock)]);
            if self.carried.is_some() || !name.is_empty() {
                clauses.push(word("of"));
            }
            if let Some(carried) = self.carried {
                clauses.push(carrier(carried.to_owned(), span));
                if !name.is_empty() {
                    clauses.push(TokenWithSpan::new(Token::Period, span));
                }
            }
            clauses.extend(name);
            clauses.extend(self.action.iter().cloned());
        }
        clauses
    }
}

/// Returns the name that tokens begin with: words with dots between them.
fn name(tokens: &[TokenWithSpan]) -> &[TokenWithSpan] {
    let is_part = |at: usize| {
        tokens.get(at).is_some_and(|token| match at % 2 {
            0 => matches!(token.token, Token::Word(_)),
            _ => token.token == Token::Period,
        })
    };
    let length = (0..).take_while(|at| is_part(*at)).count();
    &tokens[..length - (length + 1) % 2 * usize::from(length > 0)]
}

/// Returns the number of tokens of the clauses LIMIT, OFFSET and FETCH that tokens begin with.
fn limits(tokens: &[TokenWithSpan]) -> usize {
    let begins = ["limit", "offset", "fetch"];
    if !tokens.first().is_some_and(|token| begins.iter().any(|word| is_word(token, word))) {
        return 0;
    }
    let ends = ["union", "intersect", "except", "returning", "on", "for", "with"];
    let mut depth = 0;
    for (at, token) in tokens.iter().enumerate() {
        match token.token {
            Token::LParen => depth += 1,
            Token::RParen if depth == 0 => return at,
            Token::RParen => depth -= 1,
            _ if depth == 0 && ends.iter().any(|word| is_word(token, word)) => return at,
            _ => {}
        }
    }
    tokens.len()
}

/// Cuts the strengths and the lists of names from clauses of locks, and puts LIMIT, which may stand
/// behind them, before them.
fn cut_locks(tokens: &mut Vec<TokenWithSpan>) {
    let mut at = 0;
    while at < tokens.len() {
        let (mut end, mut clauses) = (at, Vec::new());
        while let Some(locks) = Locks::read(&tokens[end..]) {
            let span = tokens[end].span;
            end += locks.length;
            clauses.extend(locks.known(span));
        }
        if end > at {
            let limits = limits(&tokens[end..]);
            clauses.splice(0..0, tokens[end..end + limits].iter().cloned());
            let length = clauses.len();
            tokens.splice(at..end + limits, clauses);
            at += length;
        }
        at += 1;
    }
}

/// Returns the strength that the names behind OF carry, and the names themselves.
pub(crate) fn strength(of: Option<&ast::ObjectName>) -> (Option<Strength>, &[ast::ObjectNamePart]) {
    let Some(of) = of else { return (None, &[]) };
    let [first, names @ ..] = of.0.as_slice() else { return (None, &[]) };
    match first.as_ident().map(|ident| ident.value.as_str()) {
        Some(NO_KEY_UPDATE) => (Some(Strength::NoKeyUpdate), names),
        Some(KEY_SHARE) => (Some(Strength::KeyShare), names),
        _ => (None, &of.0),
    }
}

/// Returns the keys of GROUP BY, and true if it is DISTINCT.
pub(crate) fn distinct(group_by: &[ast::Expr]) -> (&[ast::Expr], bool) {
    match group_by {
        [ast::Expr::Identifier(ident), keys @ ..] if ident.value == DISTINCT => (keys, true),
        keys => (keys, false),
    }
}

/// Returns the name of a window, and the exclusion that it carries.
pub(crate) fn exclusion(ident: &ast::Ident) -> (Option<ast::Ident>, Option<Exclude>) {
    let carried = ident.value.strip_prefix(SEPARATOR).and_then(|rest| rest.split_once(SEPARATOR));
    let Some((which, name)) = carried else { return (Some(ident.clone()), None) };
    let exclude = match which {
        "current" => Exclude::CurrentRow,
        "group" => Exclude::Group,
        "ties" => Exclude::Ties,
        _ => Exclude::Nothing,
    };
    let name = (!name.is_empty()).then(|| ast::Ident { value: name.to_owned(), ..ident.clone() });
    (name, Some(exclude))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sqlparser::dialect::PostgreSqlDialect;
    use sqlparser::tokenizer::Tokenizer;

    fn cut_text(sql: &str) -> String {
        let tokens = Tokenizer::new(&PostgreSqlDialect {}, sql).tokenize_with_location();
        let mut tokens = tokens.expect("tokens");
        tokens.retain(|token| !matches!(token.token, Token::Whitespace(_)));
        cut(&mut tokens);
        let words: Vec<String> = tokens.iter().map(|token| token.token.to_string()).collect();
        words.join(" ").replace(SEPARATOR, "/")
    }

    #[test]
    fn only_the_clauses_are_cut() {
        for (sql, expected) in [
            (
                "over (order by a rows 1 preceding exclude ties)",
                "over ( \"/ties/\" order by a rows 1 preceding )",
            ),
            (
                "over (W rows (1) preceding exclude current row)",
                "over ( \"/current/w\" rows ( 1 ) preceding )",
            ),
            (
                "as (\"W\" rows 1 preceding exclude no others)",
                "as ( \"/nothing/W\" rows 1 preceding )",
            ),
            ("f(a exclude group)", "f ( a exclude group )"),
            ("over (exclude)", "over ( exclude )"),
            ("exclude ties", "exclude ties"),
            ("group by distinct rollup(a)", "group by \"/distinct\" , rollup ( a )"),
            ("group by a", "group by a"),
            ("alter table t drop expression", "alter table t drop expression"),
            (
                "alter table t alter a drop expression, drop b",
                "alter table t alter a SET DEFAULT \"/drop expression\" , drop b",
            ),
            (
                "alter table only s.t alter column a drop expression if exists",
                "alter table only s . t alter column a SET DEFAULT \"/drop expression if exists\"",
            ),
            ("for update of a nowait", "for update of a nowait"),
            ("for update", "for update"),
            ("for no key update limit 1", "limit 1 for update of \"/no key update\""),
            (
                "(for update skip locked offset (1) limit 2) returning",
                "( offset ( 1 ) limit 2 for update skip locked ) returning",
            ),
            (
                "for key share of a.b, \"C\" skip locked",
                "for share of \"/key share\" . a . b skip locked \
                 for share of \"/key share\" . \"C\" skip locked",
            ),
            ("for share of a, b for update", "for share of a for share of b for update"),
            ("for update of a,", "for update of a ,"),
            ("for update of", "for update of"),
            ("for share of a.", "for share of a ."),
            (
                "insert into t overriding user value values (1)",
                "insert into t ( \"/user\" ) values ( 1 )",
            ),
            (
                "with a as (insert into t (a, b) overriding system value select 1) \
                 select overriding",
                "with a as ( insert into t ( \"/system\" , a , b ) select 1 ) select overriding",
            ),
            (
                "merge into t using s on a when matched then do nothing \
                 when not matched and do then insert default values",
                "merge into t using s on a when matched then UPDATE SET \"/nothing\" = 0 \
                 when not matched and do then insert VALUES ( \"/defaults\" )",
            ),
            ("delete from merge using a join b on x", "delete from merge using a join b on x"),
            (
                "merge into t using s join u on x on y when not matched then do nothing",
                "merge into t using ( s join u on x ) on y when not matched then \
                 INSERT VALUES ( \"/nothing\" )",
            ),
        ] {
            assert_eq!(cut_text(sql), expected, "{sql}");
        }
    }

    #[test]
    fn a_name_carries_the_clause() {
        let carried = exclusion(&ast::Ident::with_quote('"', "\0group\0W"));
        assert_eq!(carried, (Some(ast::Ident::with_quote('"', "W")), Some(Exclude::Group)));
        assert_eq!(
            exclusion(&ast::Ident::with_quote('"', "\0ties\0")),
            (None, Some(Exclude::Ties))
        );
        assert_eq!(exclusion(&ast::Ident::new("w")), (Some(ast::Ident::new("w")), None));
    }
}
