//! The parser's dialect: PostgreSQL's, with a bound on the work for one statement.
//!
//! The parser tries alternatives and backtracks: an argument may be a named one, a reserved word
//! may be a column. Nested alternatives double the work at each level, so that a line of 34 calls
//! takes hours. Named arguments, which double each nested call, are off. For the other
//! alternatives, the dialect counts the prefixes of expressions that the parser requests, and ends
//! the statement when there are far too many for its length. What PostgreSQL accepts takes fewer
//! than one for each token, however deep it is; only errors inside nested alternatives take more.

use crate::interrupt;
use crate::operand;
use crate::parse::is_word;
use crate::tokens;
use sqlparser::ast::{
    AccessExpr, BinaryOperator, ColumnOption, Expr, FunctionArg, FunctionArgExpr,
    FunctionArguments, Ident, Statement, UnaryOperator, Value,
};
use sqlparser::dialect::{Dialect, PostgreSqlDialect, Precedence};
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Token, TokenWithSpan};
use std::any::TypeId;
use std::cell::Cell;

/// The average number of times that each token of a statement may be tried as the beginning of an
/// expression.
const LOOKS_PER_TOKEN: u64 = 4;
/// The number of tries that short statements have.
const LEAST_LOOKS: u64 = 10_000;

/// The most statements inside each other, as EXPLAIN has one: their recursion takes much stack, and
/// the parser does not grow it.
const MOST_STATEMENTS: u32 = 8;

/// PostgreSQL's dialect for one statement.
#[derive(Debug)]
pub(crate) struct Bounded {
    postgres: PostgreSqlDialect,
    left: Cell<u64>,
    /// The statements that may still begin.
    statements: Cell<u32>,
    /// The places where a query begins although the parser expects an expression, in order.
    queries: Vec<usize>,
}

impl Bounded {
    /// The dialect for a statement or an expression.
    pub(crate) fn of(tokens: &[TokenWithSpan]) -> Self {
        let looks = (tokens.len() as u64).saturating_mul(LOOKS_PER_TOKEN).max(LEAST_LOOKS);
        let (left, statements) = (Cell::new(looks), Cell::new(MOST_STATEMENTS));
        let queries = tokens::queries(tokens);
        Bounded { postgres: PostgreSqlDialect {}, left, statements, queries }
    }

    /// True if the parser stopped because of the bound.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.left.get() == 0
    }
}

/// An operator that stands for IS DISTINCT FROM in the tokens of a statement. The parser would take
/// all that follows for its right side: AND, too.
pub(crate) const DISTINCT_FROM: &str = "IS DISTINCT FROM";
/// An operator that stands for IS NOT DISTINCT FROM.
pub(crate) const NOT_DISTINCT_FROM: &str = "IS NOT DISTINCT FROM";
/// A token before the first expression of a list that the parser would take for a query.
pub(crate) const EXPRESSION: &str = "an expression";

fn is_operator(token: &Token, name: &str) -> bool {
    matches!(token, Token::CustomBinaryOperator(operator) if operator == name)
}

/// Turns what the dialect has made of an expression into the expression that the binder reads.
pub(crate) fn settle(expr: &mut Expr) {
    settle_distinct(expr);
    settle_whole_rows(expr);
    settle_row(expr);
    separate_signs(expr);
}

/// Turns ROW (…), a call for the parser, into a row. The brackets around it tell GROUP BY that it
/// is no list of keys.
fn settle_row(expr: &mut Expr) {
    let Expr::Function(call) = expr else { return };
    let is_row = matches!(&*call.name.0, [part] if part.as_ident().is_some_and(|name| {
        name.quote_style.is_none() && name.value.eq_ignore_ascii_case("row")
    }));
    let FunctionArguments::List(list) = &mut call.args else { return };
    let is_plain = list.clauses.is_empty()
        && list.duplicate_treatment.is_none()
        && call.over.is_none()
        && call.filter.is_none()
        && call.null_treatment.is_none()
        && call.within_group.is_empty();
    let is_expr = |arg: &FunctionArg| matches!(arg, FunctionArg::Unnamed(FunctionArgExpr::Expr(_)));
    if !is_row || !is_plain || !list.args.iter().all(is_expr) {
        return;
    }
    let parts = std::mem::take(&mut list.args).into_iter().filter_map(|arg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(part)) => Some(part),
        _ => None,
    });
    *expr = Expr::Nested(Box::new(Expr::Tuple(parts.collect())));
}

/// Turns an argument `t.*`, which is a whole row, into a name that the binder reads.
fn settle_whole_rows(expr: &mut Expr) {
    let Expr::Function(call) = expr else { return };
    let FunctionArguments::List(list) = &mut call.args else { return };
    let is_row = |arg: &FunctionArg| {
        matches!(arg, FunctionArg::Unnamed(FunctionArgExpr::QualifiedWildcard(_)))
    };
    if !list.args.iter().any(is_row) {
        return;
    }
    for arg in &mut list.args {
        if let FunctionArg::Unnamed(FunctionArgExpr::QualifiedWildcard(name)) = arg
            && let [part] = name.0.as_slice()
            && let Some(ident) = part.as_ident()
        {
            let name = vec![ident.clone(), Ident::new(WHOLE_ROW)];
            let row = Expr::CompoundIdentifier(name);
            *arg = FunctionArg::Unnamed(FunctionArgExpr::Expr(row));
        }
    }
}

/// Turns the `*` of `(row).*`, which the parser does not know, into the name of a field.
pub(crate) fn name_all_fields(tokens: &mut [TokenWithSpan]) {
    for at in 2..tokens.len() {
        let is_behind = matches!(tokens[at - 2].token, Token::RParen | Token::RBracket);
        if is_behind && tokens[at - 1].token == Token::Period && tokens[at].token == Token::Mul {
            tokens[at].token = Token::make_word(WHOLE_ROW, None);
        }
    }
}

/// Returns the row of which an expression is all fields: of `(row).*`.
pub(crate) fn row_of_all_fields(expr: &Expr) -> Option<Expr> {
    let Expr::CompoundFieldAccess { root, access_chain } = expr else { return None };
    match access_chain.as_slice() {
        [before @ .., AccessExpr::Dot(Expr::Identifier(all))]
            if all.quote_style.is_none() && all.value == WHOLE_ROW =>
        {
            let (root, access_chain) = (root.clone(), before.to_vec());
            Some(match access_chain.is_empty() {
                true => *root,
                false => Expr::CompoundFieldAccess { root, access_chain },
            })
        }
        _ => None,
    }
}

/// The name that stands for all columns of a relation, or all fields of a row.
const WHOLE_ROW: &str = "*";

/// True for a name that stands for a relation's row.
pub(crate) fn is_whole_row(parts: &[Ident]) -> bool {
    matches!(parts, [_, all] if all.quote_style.is_none() && all.value == WHOLE_ROW)
}

/// Turns an operator that stands for IS [NOT] DISTINCT FROM into what it stands for.
fn settle_distinct(expr: &mut Expr) {
    let Expr::BinaryOp { op: BinaryOperator::Custom(name), .. } = expr else { return };
    let is_same = match name.as_str() {
        DISTINCT_FROM => false,
        NOT_DISTINCT_FROM => true,
        _ => return,
    };
    let Expr::BinaryOp { left, right, .. } = taken(expr) else { return };
    *expr = match is_same {
        true => Expr::IsNotDistinctFrom(left, right),
        false => Expr::IsDistinctFrom(left, right),
    };
}

/// Puts an operator behind another one into brackets: the text of `- (-5)`, which may be stored, is
/// no comment then.
fn separate_signs(expr: &mut Expr) {
    if let Expr::UnaryOp { expr, .. } = expr
        && matches!(**expr, Expr::UnaryOp { .. })
    {
        **expr = Expr::Nested(Box::new(taken(expr)));
    }
}

fn taken(expr: &mut Expr) -> Expr {
    std::mem::replace(expr, Expr::value(Value::Null))
}

/// True for the name of an operator that consists of signs, and stands for no words.
pub(crate) fn is_sign(name: &str) -> bool {
    name.chars().all(|c| c.is_ascii_punctuation())
}

/// The prefix of a lower bound behind BETWEEN SYMMETRIC.
const SYMMETRIC: &str = "SYMMETRIC";

/// Parses `SYMMETRIC low` behind BETWEEN, which the parser does not know, to a prefixed expression;
/// ASYMMETRIC is the default.
fn parse_symmetric(parser: &mut Parser, precedence: u8) -> Option<Result<Expr, ParserError>> {
    if !is_word(parser.get_current_token(), "between") {
        return None;
    }
    let is_symmetric = is_word(parser.peek_token_ref(), SYMMETRIC);
    if !is_symmetric && !is_word(parser.peek_token_ref(), "asymmetric") {
        return None;
    }
    parser.next_token();
    Some(parser.parse_subexpr(precedence).map(|low| match is_symmetric {
        true => Expr::Prefixed { prefix: SYMMETRIC.into(), value: Box::new(low) },
        false => low,
    }))
}

/// Returns the lower bound behind BETWEEN SYMMETRIC.
pub(crate) fn symmetric(low: &Expr) -> Option<&Expr> {
    match low {
        Expr::Prefixed { prefix, value } if prefix.value == SYMMETRIC => Some(value),
        _ => None,
    }
}

/// The methods in which PostgreSQL differs from the default.
macro_rules! as_postgres {
    ($($name:ident),* $(,)?) => {
        $(fn $name(&self) -> bool {
            self.postgres.$name()
        })*
    };
}

/// The precedence of a sign, between those of COLLATE (120) and of subscripts (130) in the
/// parser's dialect for PostgreSQL.
const SIGN: u8 = 125;

impl Bounded {
    /// Parses an operator before its operand, which the parser gives other precedences than
    /// PostgreSQL: a sign binds tighter than any operator but `::` and subscripts, and the others
    /// less than those of arithmetic.
    fn parse_sign(&self, parser: &mut Parser) -> Option<Result<Expr, ParserError>> {
        let other = self.prec_value(Precedence::PgOther);
        let (op, precedence) = match parser.peek_token_ref().token {
            Token::Plus => (UnaryOperator::Plus, SIGN),
            Token::Minus => (UnaryOperator::Minus, SIGN),
            Token::Tilde => (UnaryOperator::BitwiseNot, other),
            Token::AtSign => (UnaryOperator::PGAbs, other),
            Token::PGSquareRoot => (UnaryOperator::PGSquareRoot, other),
            Token::PGCubeRoot => (UnaryOperator::PGCubeRoot, other),
            Token::CustomBinaryOperator(ref name) if is_sign(name) => {
                let prefix = Ident::new(name);
                parser.next_token();
                let operand = parser.parse_subexpr(other);
                return Some(operand.map(|value| Expr::Prefixed { prefix, value: value.into() }));
            }
            _ => return None,
        };
        parser.next_token();
        let operand = parser.parse_subexpr(precedence);
        Some(operand.map(|expr| Expr::UnaryOp { op, expr: Box::new(expr) }))
    }
}

/// True for the key words that name an output only behind AS.
fn needs_as(keyword: Keyword) -> bool {
    use Keyword::*;
    matches!(
        keyword,
        ARRAY
            | AS
            | CHAR
            | CHARACTER
            | CREATE
            | DAY
            | EXCEPT
            | FETCH
            | FILTER
            | FOR
            | FROM
            | GRANT
            | GROUP
            | HAVING
            | HOUR
            | INTERSECT
            | INTO
            | LIMIT
            | MINUTE
            | MONTH
            | NOTNULL
            | OFFSET
            | ON
            | ORDER
            | OVER
            | OVERLAPS
            | PRECISION
            | RETURNING
            | SECOND
            | TO
            | UNION
            | VARYING
            | WHERE
            | WINDOW
            | WITH
            | WITHIN
            | WITHOUT
            | YEAR
    )
}

impl Dialect for Bounded {
    // The parser compares type ids in places; this dialect counts as PostgreSQL's.
    fn dialect(&self) -> TypeId {
        TypeId::of::<PostgreSqlDialect>()
    }

    fn parse_statement(&self, _: &mut Parser) -> Option<Result<Statement, ParserError>> {
        match self.statements.get() {
            0 => Some(Err(ParserError::RecursionLimitExceeded)),
            left => {
                self.statements.set(left - 1);
                None
            }
        }
    }

    // IDENTITY, whose options the parser knows in one order only.
    fn parse_column_option(
        &self,
        parser: &mut Parser,
    ) -> Result<Option<Result<Option<ColumnOption>, ParserError>>, ParserError> {
        let is = |at: usize, word: &str| is_word(&parser.peek_nth_token(at), word);
        let words = match () {
            () if is(1, "always") && is(2, "as") && is(3, "identity") => 4,
            () if is(1, "by") && is(2, "default") && is(3, "as") && is(4, "identity") => 5,
            () => 0,
        };
        if !is(0, "generated") || words == 0 {
            return Ok(None);
        }
        let mut tokens: Vec<Token> = (0..words).map(|_| parser.next_token().token).collect();
        if parser.peek_token_ref().token == Token::LParen {
            loop {
                let token = parser.next_token().token;
                if token == Token::EOF {
                    return parser.expected("a closing parenthesis", parser.peek_token());
                }
                let is_last = token == Token::RParen;
                tokens.push(token);
                if is_last {
                    break;
                }
            }
        }
        Ok(Some(Ok(Some(ColumnOption::DialectSpecific(tokens)))))
    }

    fn parse_prefix(&self, parser: &mut Parser) -> Option<Result<Expr, ParserError>> {
        interrupt::step();
        match self.left.get() {
            // The only error after which the parser does not try an alternative.
            0 => Some(Err(ParserError::RecursionLimitExceeded)),
            left => {
                self.left.set(left - 1);
                if self.queries.binary_search(&parser.index()).is_ok() {
                    return Some(parser.parse_query().map(Expr::Subquery));
                }
                if is_operator(&parser.peek_token_ref().token, EXPRESSION) {
                    parser.next_token();
                    return Some(parser.parse_prefix());
                }
                self.parse_sign(parser)
                    .or_else(|| operand::typed_literal(parser))
                    .or_else(|| operand::prefix(parser, self.prec_value(Precedence::PgOther)))
                    .or_else(|| parse_symmetric(parser, self.prec_value(Precedence::Between)))
            }
        }
    }

    fn parse_infix(
        &self,
        parser: &mut Parser,
        expr: &Expr,
        precedence: u8,
    ) -> Option<Result<Expr, ParserError>> {
        operand::quantified(parser, expr, precedence)
            .or_else(|| self.postgres.parse_infix(parser, expr, precedence))
    }

    // The parser asks for it at the beginning of each query that it tries.
    fn prec_unknown(&self) -> u8 {
        interrupt::step();
        self.postgres.prec_unknown()
    }

    fn supports_named_fn_args_with_expr_name(&self) -> bool {
        false
    }

    // FROM behind a query of WITH: the name that carries SEARCH and CYCLE.
    fn supports_from_first_insert(&self) -> bool {
        true
    }

    fn identifier_quote_style(&self, identifier: &str) -> Option<char> {
        self.postgres.identifier_quote_style(identifier)
    }

    fn is_delimited_identifier_start(&self, ch: char) -> bool {
        self.postgres.is_delimited_identifier_start(ch)
    }

    fn is_identifier_start(&self, ch: char) -> bool {
        self.postgres.is_identifier_start(ch)
    }

    fn is_identifier_part(&self, ch: char) -> bool {
        self.postgres.is_identifier_part(ch)
    }

    fn is_reserved_for_identifier(&self, keyword: Keyword) -> bool {
        // No other reading of these, which PostgreSQL reserves, is tried after an error inside
        // them.
        matches!(keyword, Keyword::CASE | Keyword::CAST | Keyword::NOT)
            || self.postgres.is_reserved_for_identifier(keyword)
    }

    fn is_column_alias(&self, keyword: &Keyword, parser: &mut Parser) -> bool {
        !needs_as(*keyword) && self.postgres.is_column_alias(keyword, parser)
    }

    // Behind another operator, these are signs or begin a comment: `a>-1`, `a ->/* */ 'b'`.
    fn is_custom_operator_part(&self, ch: char) -> bool {
        !matches!(ch, '+' | '-' | '*' | '/') && self.postgres.is_custom_operator_part(ch)
    }

    fn get_next_precedence(&self, parser: &Parser) -> Option<Result<u8, ParserError>> {
        let token = &parser.peek_token_ref().token;
        if is_operator(token, DISTINCT_FROM) || is_operator(token, NOT_DISTINCT_FROM) {
            return Some(Ok(self.prec_value(Precedence::Is)));
        }
        self.postgres.get_next_precedence(parser)
    }

    fn prec_value(&self, precedence: Precedence) -> u8 {
        self.postgres.prec_value(precedence)
    }

    as_postgres!(
        allow_extract_custom,
        allow_extract_single_quotes,
        supports_alter_column_type_using,
        supports_array_typedef_with_brackets,
        supports_bitwise_shift_operators,
        supports_comma_separated_trim,
        supports_comment_on,
        supports_comment_optimizer_hint,
        supports_create_index_with_clause,
        supports_create_table_like_parenthesized,
        supports_empty_projections,
        supports_explain_with_utility_options,
        supports_factorial_operator,
        supports_filter_during_aggregation,
        supports_geometric_types,
        supports_group_by_expr,
        supports_insert_table_alias,
        supports_interval_options,
        supports_listen_notify,
        supports_load_extension,
        supports_named_fn_args_with_colon_operator,
        supports_nested_comments,
        supports_notnull_operator,
        supports_numeric_literal_underscores,
        supports_select_wildcard_with_alias,
        supports_set_names,
        supports_string_escape_constant,
        supports_unicode_string_literal,
        supports_xml_expressions,
    );
}
