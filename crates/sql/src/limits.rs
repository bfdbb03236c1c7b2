//! The limits of one statement, so that no text can end, freeze or exhaust the process.
//!
//! ```text
//! text ── scan ── tokens ── refuse_chains ── parser (dialect) ── settle ── a tree that recursion
//! may walk
//!        bytes that      operators in           nesting, work      chains balanced, depth and
//!        become tokens   one chain                                 size measured
//! ```
//!
//! A statement beyond a limit fails with an error of class 54 that names the limit. The limits are
//! far above real statements: lists of a million values, tens of thousands of terms of AND or OR,
//! a thousand calls or subqueries inside each other. What is deep runs on a stack of its own
//! ([`crate::stack`]).

use crate::brackets;
use crate::dialect;
use crate::error::{SqlError, state};
use crate::expr::Scope;
use crate::names;
use sqlparser::ast::{
    BinaryOperator, Expr, GroupByExpr, Query, Select, SetExpr, SetOperator, Statement, TableFactor,
    Visit, VisitMut, Visitor, VisitorMut,
};
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};
use std::collections::VecDeque;
use std::ops::ControlFlow;

/// The most tokens of a query text; each space between them counts as one.
pub(crate) const MOST_TOKENS: usize = 2_000_000;
/// The deepest nesting of parentheses.
pub(crate) const DEEPEST_PARENTHESES: usize = 5_000;
/// The deepest recursion of the parser in a statement without parentheses and operators.
const LEAST_RECURSION: usize = 100;
/// The deepest recursion of the parser: it takes some levels for a call or a subquery, and up to
/// 80 KB of stack for each.
const MOST_RECURSION: usize = 4_000;
/// The levels of the parser's recursion for one of parentheses or operators.
const RECURSION_PER_LEVEL: usize = 4;
/// The longest chain of operators without a comma between them.
pub(crate) const LONGEST_CHAIN: usize = 100_000;
/// The deepest nesting of expressions and subqueries, after chains of AND, OR and UNION are
/// balanced.
pub(crate) const DEEPEST_EXPRESSION: usize = 5_000;
/// The deepest nesting in a statement whose expressions are stored in the catalog.
const DEEPEST_STORED: usize = 100;
/// The deepest recursion of the parser for a stored expression.
pub(crate) const STORED_RECURSION: usize = LEAST_RECURSION + DEEPEST_STORED * RECURSION_PER_LEVEL;
/// The most dimensions of an array's type.
const MOST_DIMENSIONS: usize = 100;
/// The stack that the parser may take for each nested parenthesis, in bytes. Its recursion grows
/// the stack by itself; types and the drop of what it has parsed do not.
const PARENTHESIS_BYTES: usize = 32 << 10;
/// The stack for each operator of a chain, in bytes: it is dropped by recursion.
const OPERATOR_BYTES: usize = 4 << 10;
/// The most expressions that operators with a repeated operand (BETWEEN, CASE with an operand, IN)
/// may add.
pub(crate) const MOST_REPEATED: u64 = 50_000;
/// The most relations that a statement may read; a query of WITH counts each time that it is named.
pub(crate) const MOST_RELATIONS: u64 = 1_000;
/// The most output columns of a query, as in PostgreSQL.
pub(crate) const MOST_OUTPUTS: usize = 1664;
/// The most columns of a table, as in PostgreSQL.
pub(crate) const MOST_COLUMNS: usize = 1600;
/// The most elements of CUBE, as in PostgreSQL.
pub(crate) const WIDEST_CUBE: usize = 12;
/// The most grouping sets of a query, as in PostgreSQL.
pub(crate) const MOST_GROUPING_SETS: usize = 4096;
/// The largest value that a function may return, in bytes.
pub(crate) const LONGEST_VALUE_BYTES: usize = 64 << 20;
/// The size below which a value is made without a look at the memory of queries, in bytes.
const SMALL_VALUE_BYTES: usize = 64 << 10;
/// The length above which an IN list does not repeat its operand.
const LONGEST_REPEATING_LIST: usize = 100;
/// The length below which a chain is not balanced.
const SHORT_CHAIN: usize = 16;

/// Returns the error 54001.
pub(crate) fn too_deep(what: &str, limit: usize) -> SqlError {
    SqlError::new(state::TOO_COMPLEX, "stack depth limit exceeded")
        .detail(format!("{what}: the limit is {limit}."))
}

/// Returns the error 54001 of a statement at which the parser gave up.
pub(crate) fn nested(exhausted: bool) -> SqlError {
    if exhausted {
        let message = "the statement is too complex";
        let detail = "The parser tried more alternatives inside each other than a statement of this length may take.";
        return SqlError::new(state::TOO_COMPLEX, message).detail(detail);
    }
    too_deep("The parser's levels inside each other", MOST_RECURSION)
}

/// Fails with 54011 for too many outputs.
pub(crate) fn check_outputs(count: usize) -> Result<(), SqlError> {
    if count <= MOST_OUTPUTS {
        return Ok(());
    }
    let message = format!("target lists can have at most {MOST_OUTPUTS} entries");
    Err(SqlError::new(state::TOO_MANY_COLUMNS, message))
}

/// Fails with 54000 if a function would return too large a value.
pub fn check_value(bytes: usize) -> Result<(), SqlError> {
    if bytes <= LONGEST_VALUE_BYTES {
        return Ok(());
    }
    let detail = format!("A value that a function makes may have {LONGEST_VALUE_BYTES} bytes.");
    Err(SqlError::new(state::TOO_LARGE, "requested length too large").detail(detail))
}

/// Fails with 54000 or 53200 before a function makes a value that is too large, or for which
/// queries have no memory.
pub(crate) fn check_room(bytes: usize, scope: &Scope<'_>) -> Result<(), SqlError> {
    check_value(bytes)?;
    if bytes < SMALL_VALUE_BYTES { Ok(()) } else { scope.session.memory.check_room(bytes) }
}

/// Checks a text before it is tokenized, since a token is far larger than its characters. Returns
/// the deepest nesting of parentheses.
pub(crate) fn scan(text: &str) -> Result<usize, SqlError> {
    let scan = Scan::of(text);
    if scan.tokens > MOST_TOKENS {
        let message = format!("the statement has more than {MOST_TOKENS} tokens");
        let hint = "Send fewer rows at once, or use COPY.";
        return Err(SqlError::new(state::TOO_LARGE, message).hint(hint));
    }
    check_parentheses(scan.deepest)
}

/// Checks the deepest nesting of parentheses, and returns it.
pub(crate) fn check_parentheses(deepest: usize) -> Result<usize, SqlError> {
    match deepest {
        0..=DEEPEST_PARENTHESES => Ok(deepest),
        _ => Err(too_deep("Parentheses inside each other", DEEPEST_PARENTHESES)),
    }
}

/// The measurements of a text.
#[derive(Default)]
struct Scan {
    /// The number of tokens, or an upper bound of it.
    tokens: usize,
    /// The deepest nesting of parentheses.
    deepest: usize,
}

impl Scan {
    /// Counts up to the limits, beyond which the rest does not matter.
    fn of(sql: &str) -> Scan {
        let text = sql.as_bytes();
        let is_part =
            |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$') || byte >= 0x80;
        let mut scan = Scan::default();
        let (mut at, mut depth, mut behind_operator) = (0usize, 0usize, false);
        while at < text.len() && scan.tokens <= MOST_TOKENS && scan.deepest <= DEEPEST_PARENTHESES {
            scan.tokens += 1;
            let rest = &text[at..];
            let is_operator = b"+-*/<>=~!@#%^&|`?:".contains(&rest[0]);
            let operator_before = std::mem::replace(&mut behind_operator, is_operator);
            at += match rest {
                // Some operators include these characters, others leave them to a comment. If that
                // is ambiguous, each byte may be a token.
                [b'-', b'-', ..] | [b'/', b'*', ..] if operator_before => {
                    scan.tokens += rest.len();
                    break;
                }
                [b'-', b'-', ..] => {
                    behind_operator = false;
                    rest.iter()
                        .position(|byte| matches!(byte, b'\n' | b'\r'))
                        .map_or(rest.len(), |end| end + 1)
                }
                [b'/', b'*', ..] => {
                    behind_operator = false;
                    comment(rest)
                }
                [b'\'', ..] => quoted(rest, b'\'', false),
                [b'e' | b'E' | b'x' | b'X', b'\'', ..] => 1 + quoted(&rest[1..], b'\'', true),
                [b'"', ..] => quoted(rest, b'"', false),
                [b'$', ..] => dollar_quoted(&sql[at..]),
                [b'(', ..] => {
                    depth += 1;
                    scan.deepest = scan.deepest.max(depth);
                    1
                }
                [b')', ..] => {
                    depth = depth.saturating_sub(1);
                    1
                }
                [b'0'..=b'9', ..] => {
                    // A name may directly follow a number: `1a` may be two tokens.
                    let digits =
                        rest.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(rest.len());
                    let parts = rest.iter().position(|byte| !is_part(*byte)).unwrap_or(rest.len());
                    let quote =
                        rest.get(parts) == Some(&b'\'') || rest[digits..parts].contains(&b'$');
                    if digits < parts && quote {
                        // It is ambiguous whether the quote has a prefix of its own, and where a
                        // dollar quote begins: `0x'`, `1e5$a$`.
                        scan.tokens += rest.len();
                        break;
                    }
                    digits
                }
                [first, ..] if is_part(*first) => {
                    rest.iter().position(|byte| !is_part(*byte)).unwrap_or(rest.len())
                }
                _ => 1,
            };
        }
        scan
    }
}

/// Returns the length of a quoted text in bytes; a doubled quote is part of it.
fn quoted(text: &[u8], quote: u8, escapes: bool) -> usize {
    let mut at = 1;
    while at < text.len() {
        match text[at] {
            b'\\' if escapes => at += 2,
            byte if byte == quote => {
                if text.get(at + 1) != Some(&quote) {
                    return at + 1;
                }
                at += 2;
            }
            _ => at += 1,
        }
    }
    text.len()
}

/// Returns the length of a comment in bytes, with nested comments.
fn comment(text: &[u8]) -> usize {
    let (mut at, mut depth) = (2, 1);
    while at < text.len() && depth > 0 {
        match &text[at..] {
            [b'*', b'/', ..] => (at, depth) = (at + 2, depth - 1),
            [b'/', b'*', ..] => (at, depth) = (at + 2, depth + 1),
            _ => at += 1,
        }
    }
    at.min(text.len())
}

/// Returns the length of a dollar-quoted text, or of a placeholder (a dollar and a name), in bytes.
fn dollar_quoted(text: &str) -> usize {
    let rest = &text[1..];
    let tag = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    if !rest[tag..].starts_with('$') {
        return 1 + tag;
    }
    let (mark, body) = text.as_bytes().split_at(tag + 2);
    // The tokenizer rejects an unfinished one, too.
    body.windows(mark.len())
        .position(|window| window == mark)
        .map_or(text.len(), |end| end + 2 * mark.len())
}

/// True if a token makes the tree of an expression or of a type one level deeper.
fn deepens(token: &Token) -> bool {
    use Keyword::*;
    match token {
        Token::Word(word) => matches!(
            word.keyword,
            AND | OR
                | XOR
                | NOT
                | IS
                | NOTNULL
                | IN
                | BETWEEN
                | OVERLAPS
                | LIKE
                | ILIKE
                | RLIKE
                | REGEXP
                | MATCH
                | SIMILAR
                | MEMBER
                | OPERATOR
                | DIV
                | AT
                | COLLATE
                | INTERVAL
                | CASE
        ),
        Token::Number(..)
        | Token::SingleQuotedString(_)
        | Token::Placeholder(_)
        | Token::Period
        | Token::LParen
        | Token::RParen
        | Token::Comma => false,
        _ => true,
    }
}

/// The depth of the tree at a place of the text, within one pair of brackets.
#[derive(Clone, Copy, Default)]
struct Level {
    /// The operators since the last comma.
    operators: usize,
    /// The set operations, whose operands have commas of their own.
    sets: usize,
}

/// Rejects chains of operators so long that the parser's resulting tree could be neither walked nor
/// dropped.
pub(crate) fn refuse_chains(
    tokens: &[TokenWithSpan],
    parentheses: usize,
) -> Result<Room, SqlError> {
    refuse_dimensions(tokens)?;
    match deepest(tokens, LONGEST_CHAIN) {
        (depth, Some(token)) if depth > LONGEST_CHAIN => {
            Err(too_deep("Operators in one chain", LONGEST_CHAIN)
                .hint("Use IN (…) instead of a long chain of operators.")
                .at(names::place(token.span.start)))
        }
        (depth, _) => Ok(Room {
            bytes: parentheses * PARENTHESIS_BYTES + depth * OPERATOR_BYTES,
            recursion: (LEAST_RECURSION + (parentheses + depth) * RECURSION_PER_LEVEL)
                .min(MOST_RECURSION),
        }),
    }
}

/// The room that the parser may take for a statement.
pub(crate) struct Room {
    /// The stack in bytes.
    pub(crate) bytes: usize,
    /// The levels of its recursion.
    pub(crate) recursion: usize,
}

/// Rejects types of arrays of arrays: the parser nests them as deep as they have dimensions.
fn refuse_dimensions(tokens: &[TokenWithSpan]) -> Result<(), SqlError> {
    let (mut brackets, mut angles) = (0usize, 0usize);
    for pair in tokens.windows(2) {
        match (&pair[0].token, &pair[1].token) {
            (Token::RBracket, Token::LBracket) => brackets += 1,
            (Token::Word(word), Token::Lt) if word.keyword == Keyword::ARRAY => angles += 1,
            (_, Token::Comma) => brackets = 0,
            _ => {}
        }
        if brackets.max(angles) > MOST_DIMENSIONS {
            return Err(too_deep("Dimensions of an array", MOST_DIMENSIONS)
                .at(names::place(pair[1].span.start)));
        }
    }
    Ok(())
}

/// Returns the length of the longest chain of operators, and the token at which it exceeds the
/// limit.
fn deepest(tokens: &[TokenWithSpan], limit: usize) -> (usize, Option<&TokenWithSpan>) {
    use Keyword::{EXCEPT, INTERSECT, MINUS, UNION};
    let (mut levels, mut depth, mut deepest) = (vec![Level::default()], 0usize, 0usize);
    for token in tokens {
        let nested = levels.len() > 1;
        let level = levels.last_mut().expect("invariant: one level stays");
        match &token.token {
            Token::RParen | Token::RBracket | Token::RBrace if nested => {
                depth -= levels.pop().map_or(0, |level| level.operators + level.sets);
            }
            Token::Comma => depth -= std::mem::take(&mut level.operators),
            Token::Word(word) if matches!(word.keyword, UNION | EXCEPT | INTERSECT | MINUS) => {
                (level.sets, depth) = (level.sets + 1, depth + 1);
            }
            other if deepens(other) => (level.operators, depth) = (level.operators + 1, depth + 1),
            _ => {}
        }
        if matches!(token.token, Token::LParen | Token::LBracket | Token::LBrace) {
            levels.push(Level::default());
        }
        deepest = deepest.max(depth);
        if depth > limit {
            return (depth, Some(token));
        }
    }
    (deepest, None)
}

#[cfg(test)]
pub(crate) fn longest_chain(tokens: &[TokenWithSpan]) -> usize {
    deepest(tokens, usize::MAX).0
}

#[cfg(test)]
pub(crate) fn tokens_at_most(text: &str) -> usize {
    Scan::of(text).tokens
}

/// Turns a parsed statement or query into one that recursion may walk, or rejects it. Returns the
/// number of its levels.
pub(crate) fn settle(tree: &mut (impl Visit + VisitMut)) -> Result<usize, SqlError> {
    let (mut balance, mut measure) = (Balance::default(), Measure::default());
    let balanced = VisitMut::visit(tree, &mut balance);
    let measured = match balanced {
        ControlFlow::Continue(()) => Visit::visit(tree, &mut measure),
        failed => failed,
    };
    match measured {
        ControlFlow::Continue(()) => {
            let nodes = measure.relations as usize + measure.windows;
            Ok(measure.deepest + nodes + balance.set_operations)
        }
        ControlFlow::Break(error) => Err(error),
    }
}

/// Rejects a statement that reads so many relations, by views, or whose views are so deep.
pub(crate) fn check_views(relations: usize, levels: usize) -> Result<(), SqlError> {
    if relations as u64 > MOST_RELATIONS {
        let message = format!("the statement reads more than {MOST_RELATIONS} relations");
        let detail = "The relations of a view count each time that it is named.";
        return Err(SqlError::new(state::TOO_COMPLEX, message).detail(detail));
    }
    if levels > DEEPEST_EXPRESSION {
        return Err(too_deep("Views and their expressions, inside each other", DEEPEST_EXPRESSION));
    }
    Ok(())
}

/// Rejects a statement of so many levels if its expressions are stored: each statement that uses
/// them is compiled with them.
pub(crate) fn check_stored(statement: &Statement, levels: usize) -> Result<(), SqlError> {
    let stores = matches!(
        statement,
        Statement::CreateTable(_) | Statement::AlterTable(_) | Statement::CreateIndex(_)
    );
    if stores && levels > DEEPEST_STORED {
        return Err(too_deep("Expressions that are stored, inside each other", DEEPEST_STORED));
    }
    Ok(())
}

/// Turns long chains of AND, OR and UNION, which the parser nests as deep as they are long, into
/// balanced trees: all of them are associative. Takes queries out of brackets.
#[derive(Default)]
struct Balance {
    /// The depth of the expression that is visited.
    depth: usize,
    /// The set operations that stay in chains.
    set_operations: usize,
}

impl VisitorMut for Balance {
    type Break = SqlError;

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<SqlError> {
        dialect::settle(expr);
        if let Expr::BinaryOp { op: op @ (BinaryOperator::And | BinaryOperator::Or), .. } = expr {
            let op = op.clone();
            balance(
                expr,
                |expr| matches!(expr, Expr::BinaryOp { op: other, .. } if *other == op),
                |expr| match expr {
                    Expr::BinaryOp { left, right, .. } => (*left, *right),
                    _ => unreachable!("invariant: only a chain is taken apart"),
                },
                |left, right| Expr::BinaryOp {
                    left: Box::new(left),
                    op: op.clone(),
                    right: Box::new(right),
                },
                || Expr::value(sqlparser::ast::Value::Null),
            );
        }
        self.depth += 1;
        if self.depth > DEEPEST_EXPRESSION {
            return too_deep_expression();
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, _: &mut Expr) -> ControlFlow<SqlError> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<SqlError> {
        match brackets::open(query) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<SqlError> {
        let (mut body, mut depth) = (&mut *query.body, 0);
        // Runs of one operation along the chain.
        while let SetExpr::SetOperation { op, set_quantifier, .. } = body {
            let (wanted, quantifier) = (*op, *set_quantifier);
            let same = |set: &SetExpr| matches!(set, SetExpr::SetOperation { op, set_quantifier, .. } if (*op, *set_quantifier) == (wanted, quantifier));
            let mut length = 0;
            let mut end = &*body;
            while let SetExpr::SetOperation { left, .. } = end
                && same(end)
            {
                (end, length) = (left, length + 1);
            }
            let is_balanced = wanted == SetOperator::Union && length >= SHORT_CHAIN;
            depth += if is_balanced { 1 } else { length };
            self.set_operations += if is_balanced { 1 } else { length };
            if depth > DEEPEST_EXPRESSION {
                return ControlFlow::Break(too_deep(
                    "Set operations in one chain",
                    DEEPEST_EXPRESSION,
                ));
            }
            // The last side stays apart: it is the step of a recursive query.
            if let (true, SetExpr::SetOperation { left, .. }) = (is_balanced, &mut *body) {
                balance(
                    &mut **left,
                    same,
                    |set| match set {
                        SetExpr::SetOperation { left, right, .. } => (*left, *right),
                        _ => unreachable!("invariant: only a chain is taken apart"),
                    },
                    |left, right| SetExpr::SetOperation {
                        op: wanted,
                        set_quantifier: quantifier,
                        left: Box::new(left),
                        right: Box::new(right),
                    },
                    || {
                        SetExpr::Values(sqlparser::ast::Values {
                            explicit_row: false,
                            value_keyword: false,
                            rows: Vec::new(),
                        })
                    },
                );
            }
            // The first operand of the run contains the next run.
            let mut next = body;
            while same(next) {
                let SetExpr::SetOperation { left, .. } = next else { break };
                next = left;
            }
            body = next;
        }
        ControlFlow::Continue(())
    }
}

fn too_deep_expression() -> ControlFlow<SqlError> {
    ControlFlow::Break(too_deep("Expressions inside each other", DEEPEST_EXPRESSION))
}

/// Balances a left-deep chain.
fn balance<T>(
    root: &mut T,
    continues: impl Fn(&T) -> bool,
    apart: impl Fn(T) -> (T, T),
    join: impl Fn(T, T) -> T,
    nothing: impl Fn() -> T,
) {
    let mut rest = std::mem::replace(root, nothing());
    let mut parts = Vec::new();
    while continues(&rest) {
        let (left, right) = apart(rest);
        parts.push(right);
        rest = left;
    }
    parts.push(rest);
    parts.reverse();
    if parts.len() <= SHORT_CHAIN {
        *root = parts.into_iter().reduce(join).unwrap_or_else(nothing);
        return;
    }
    while parts.len() > 1 {
        let mut next = Vec::with_capacity(parts.len() / 2 + 1);
        let mut rest = parts.into_iter();
        while let Some(left) = rest.next() {
            next.push(match rest.next() {
                Some(right) => join(left, right),
                None => left,
            });
        }
        parts = next;
    }
    *root = parts.pop().unwrap_or_else(nothing);
}

/// True for a call of a window function, which may be a node of the plan above the others.
pub(crate) fn is_window(expr: &Expr) -> bool {
    matches!(expr, Expr::Function(call) if call.over.is_some())
}

/// The size of a tree after each operator that repeats an operand, and each reference to a query of
/// WITH, is expanded.
#[derive(Default)]
struct Measure {
    frames: Vec<Frame>,
    /// The statements and sides of FROM around what is visited.
    others: usize,
    /// The most frames, statements and sides inside each other.
    deepest: usize,
    /// The relations of the statement.
    relations: u64,
    expressions: u64,
    /// The calls of window functions.
    windows: usize,
    /// The queries of WITH that can be referred to: name, size, relations.
    named: Vec<(String, u64, u64)>,
}

#[derive(Default)]
struct Frame {
    /// The size of the first child, which is the repeated operand.
    first: Option<u64>,
    /// The size of all children.
    sum: u64,
    /// The relations that are read.
    relations: u64,
    /// For a query: the names of its WITH clause whose queries come next, and the number of earlier
    /// names.
    with: VecDeque<String>,
    named_before: usize,
}

impl Measure {
    fn enter(&mut self, with: VecDeque<String>) -> ControlFlow<SqlError> {
        self.frames.push(Frame { with, named_before: self.named.len(), ..Frame::default() });
        self.go_deeper()
    }

    fn go_deeper(&mut self) -> ControlFlow<SqlError> {
        let depth = self.frames.len() + self.others;
        self.deepest = self.deepest.max(depth);
        if depth > DEEPEST_EXPRESSION {
            return too_deep_expression();
        }
        ControlFlow::Continue(())
    }

    fn leave(&mut self, is_query: bool, repeats: impl Fn(&Frame) -> u64) -> ControlFlow<SqlError> {
        let frame = self.frames.pop().unwrap_or_default();
        self.named.truncate(frame.named_before);
        self.expressions += 1;
        let size = repeats(&frame).saturating_add(1);
        // A query without FROM counts as a relation, too: it becomes a side of a join.
        let relations = frame.relations.max(u64::from(is_query));
        if relations > MOST_RELATIONS {
            let message = format!("the statement reads more than {MOST_RELATIONS} relations");
            let detail = "A query of WITH counts each time that it is named.";
            return ControlFlow::Break(SqlError::new(state::TOO_COMPLEX, message).detail(detail));
        }
        if size > MOST_REPEATED.saturating_add(self.expressions) {
            let message = "the statement is too complex";
            let detail = format!(
                "BETWEEN, IN and CASE repeat operands inside each other more than {MOST_REPEATED} times."
            );
            return ControlFlow::Break(SqlError::new(state::TOO_COMPLEX, message).detail(detail));
        }
        self.relations = self.relations.max(relations);
        if let Some(parent) = self.frames.last_mut() {
            if let Some(name) = parent.with.pop_front().filter(|_| is_query) {
                self.named.push((name, size, relations));
            }
            parent.relations = parent.relations.saturating_add(relations);
            parent.first.get_or_insert(size);
            parent.sum = parent.sum.saturating_add(size);
        }
        ControlFlow::Continue(())
    }
}

fn is_row(expr: &Expr) -> bool {
    match expr {
        Expr::Tuple(_) => true,
        Expr::Nested(inner) => is_row(inner),
        _ => false,
    }
}

/// Returns the size of an expression, from the sizes of its parts.
fn repeated(expr: &Expr, frame: &Frame) -> u64 {
    let first = frame.first.unwrap_or(0);
    let more = |times: usize| frame.sum.saturating_add(first.saturating_mul(times as u64));
    match expr {
        Expr::Between { expr, low, .. } => {
            let once = if is_row(expr) { frame.sum.saturating_mul(4) } else { more(1) };
            if dialect::symmetric(low).is_some() { once.saturating_mul(2) } else { once }
        }
        // A row is compared by each of its columns twice, once for being equal.
        Expr::BinaryOp {
            left,
            op:
                BinaryOperator::Lt | BinaryOperator::LtEq | BinaryOperator::Gt | BinaryOperator::GtEq,
            ..
        } if is_row(left) => frame.sum.saturating_mul(2),
        Expr::AnyOp { left, .. } | Expr::AllOp { left, .. } if is_row(left) => {
            frame.sum.saturating_mul(2)
        }
        Expr::Case { operand: Some(_), conditions, .. } => more(conditions.len().saturating_sub(1)),
        Expr::InList { list, .. } => more(list.len().min(LONGEST_REPEATING_LIST).saturating_sub(1)),
        _ => frame.sum,
    }
}

impl Visitor for Measure {
    type Break = SqlError;

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<SqlError> {
        self.windows += usize::from(is_window(expr));
        self.enter(VecDeque::new())
    }

    fn post_visit_expr(&mut self, expr: &Expr) -> ControlFlow<SqlError> {
        self.leave(false, |frame| repeated(expr, frame))
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<SqlError> {
        if let (TableFactor::Table { name, .. }, Some(frame)) = (factor, self.frames.last_mut()) {
            let named = match name.0.as_slice() {
                [one] => one.as_ident().map(names::fold),
                _ => None,
            };
            let found =
                named.and_then(|name| self.named.iter().rev().find(|(other, ..)| *other == name));
            let (size, relations) =
                found.map_or((1, 1), |(_, size, relations)| (*size, *relations));
            frame.sum = frame.sum.saturating_add(size);
            frame.relations = frame.relations.saturating_add(relations.max(1));
        }
        self.others += 1;
        self.go_deeper()
    }

    fn post_visit_table_factor(&mut self, _: &TableFactor) -> ControlFlow<SqlError> {
        self.others -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_statement(&mut self, _: &Statement) -> ControlFlow<SqlError> {
        self.others += 1;
        self.go_deeper()
    }

    fn post_visit_statement(&mut self, _: &Statement) -> ControlFlow<SqlError> {
        self.others -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<SqlError> {
        if let SetExpr::Values(values) = &*query.body
            && let Err(error) =
                values.rows.iter().try_for_each(|row| check_outputs(row.content.len()))
        {
            return ControlFlow::Break(error);
        }
        let with = query.with.iter().flat_map(|with| &with.cte_tables);
        self.enter(with.map(|cte| names::fold(&cte.alias.name)).collect())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<SqlError> {
        self.leave(true, |frame| frame.sum)
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<SqlError> {
        if let Err(error) =
            check_outputs(select.projection.len()).and_then(|()| check_groups(&select.group_by))
        {
            return ControlFlow::Break(error);
        }
        ControlFlow::Continue(())
    }
}

/// Fails with 54011 or 54001 if GROUP BY has too many grouping sets.
fn check_groups(group_by: &GroupByExpr) -> Result<(), SqlError> {
    let GroupByExpr::Expressions(all, _) = group_by else { return Ok(()) };
    let mut sets = 1usize;
    for expr in all {
        sets = sets.saturating_mul(match expr {
            Expr::Cube(elements) if elements.len() > WIDEST_CUBE => {
                let message = format!("CUBE is limited to {WIDEST_CUBE} elements");
                return Err(SqlError::new(state::TOO_MANY_COLUMNS, message));
            }
            Expr::Cube(elements) => 1 << elements.len(),
            Expr::Rollup(elements) => elements.len() + 1,
            Expr::GroupingSets(sets) => sets.len(),
            _ => 1,
        });
    }
    if sets > MOST_GROUPING_SETS {
        let message = format!("too many grouping sets present (maximum {MOST_GROUPING_SETS})");
        return Err(SqlError::new(state::TOO_COMPLEX, message));
    }
    Ok(())
}
