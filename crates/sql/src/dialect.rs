//! The parser's dialect: PostgreSQL's, with a bound on the work for one statement.
//!
//! The parser tries alternatives and backtracks: an argument may be a named one, a reserved word
//! may be a column. Nested alternatives double the work at each level, so that a line of 34 calls
//! takes hours. Named arguments, which double each nested call, are off. For the other
//! alternatives, the dialect counts the prefixes of expressions that the parser requests, and ends
//! the statement when there are far too many for its length. What PostgreSQL accepts takes fewer
//! than one for each token, however deep it is; only errors inside nested alternatives take more.

use sqlparser::ast::{Expr, Statement};
use sqlparser::dialect::{Dialect, PostgreSqlDialect, Precedence};
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
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
}

impl Bounded {
    /// The dialect for a statement of this many tokens.
    pub(crate) fn for_tokens(count: usize) -> Self {
        let looks = (count as u64).saturating_mul(LOOKS_PER_TOKEN).max(LEAST_LOOKS);
        let (left, statements) = (Cell::new(looks), Cell::new(MOST_STATEMENTS));
        Bounded { postgres: PostgreSqlDialect {}, left, statements }
    }

    /// True if the parser stopped because of the bound.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.left.get() == 0
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

    fn parse_prefix(&self, _: &mut Parser) -> Option<Result<Expr, ParserError>> {
        match self.left.get() {
            // The only error after which the parser does not try an alternative.
            0 => Some(Err(ParserError::RecursionLimitExceeded)),
            left => {
                self.left.set(left - 1);
                None
            }
        }
    }

    fn supports_named_fn_args_with_expr_name(&self) -> bool {
        false
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

    fn is_custom_operator_part(&self, ch: char) -> bool {
        self.postgres.is_custom_operator_part(ch)
    }

    fn get_next_precedence(&self, parser: &Parser) -> Option<Result<u8, ParserError>> {
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
