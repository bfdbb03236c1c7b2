//! Parses text to statements: splits it at semicolons, cuts off clauses that the parser does not
//! know, and parses the rest.

use crate::alter_any::{self, AlterAny};
use crate::attributes;
use crate::carried;
use crate::clauses;
use crate::collation;
use crate::copy;
use crate::create_as::{self, TableAs};
use crate::datetime::{self, Local};
use crate::dialect::{self, Bounded};
use crate::domain;
use crate::error::{SqlError, state};
use crate::extension::{self, ExtensionStatement};
use crate::like::{self, Like};
use crate::limits;
use crate::materialized::{self, MaterializedStatement};
use crate::names;
use crate::notify;
use crate::select_into;
use crate::sequence::{self, SequenceStatement};
use crate::stack;
use crate::tokens;
use crate::two_phase::{self, TwoPhase};
use crate::types::Type;
use crate::user_function::{self, FunctionStatement};
use crate::vacuum::{self, Vacuum};
use crate::view;
use meridian_clock::{Interval, Timestamp};
use meridian_txn::ReadAt;
use sqlparser::ast::{self, Statement};
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer};

/// The stack that any thread has, in bytes, for statements that are not deep. The parser adds stack
/// where less is left. Its default of 128 KB is too little for one level of joins.
const SMALL_STACK_BYTES: usize = 512 << 10;
/// The stack that the parser adds at once, in bytes. Only used pages take memory, but they do so
/// again each time that the parser comes back to where it has added it.
const ADDED_STACK_BYTES: usize = 64 << 20;

/// One statement.
#[derive(Clone, Debug)]
pub(crate) struct Parsed {
    pub(crate) statement: Statement,
    /// The time after AS OF SYSTEM TIME.
    pub(crate) as_of: Option<AsOf>,
    /// The protocol after PROTOCOL in CREATE DATABASE.
    pub(crate) protocol: Option<ChosenProtocol>,
    /// The rows after SPLIT AT VALUES in ALTER TABLE, which has no other clause then.
    pub(crate) split: Option<Vec<Vec<ast::Expr>>>,
    /// The clause after the name in ALTER DATABASE; `statement` is a stand-in then.
    pub(crate) alter_database: Option<AlterDatabase>,
    /// The clauses of VACUUM.
    pub(crate) vacuum: Option<Vacuum>,
    /// A statement about a sequence; `statement` is a stand-in then.
    pub(crate) sequence: Option<SequenceStatement>,
    /// A statement about a function; `statement` is a stand-in then.
    pub(crate) function: Option<FunctionStatement>,
    /// A statement about extensions; `statement` is a stand-in then.
    pub(crate) extension: Option<ExtensionStatement>,
    /// SET CONSTRAINTS; `statement` is a stand-in then.
    pub(crate) constraints: Option<SetConstraints>,
    /// [NOT] DEFERRABLE of a transaction.
    pub(crate) deferrable: Option<bool>,
    /// True for MOVE, which is parsed as FETCH.
    pub(crate) moves: bool,
    /// The options of COPY … TO; `statement` is its query then.
    pub(crate) copy_to: Option<copy::Options>,
    /// The relations that CREATE TABLE is LIKE, for which columns stand, in order.
    pub(crate) likes: Vec<Like>,
    /// The text of the query of CREATE VIEW.
    pub(crate) view_text: Option<String>,
    /// True for a statement about a domain; `statement` is one about a table then.
    pub(crate) is_domain: bool,
    /// A statement about a materialized view; `statement` is one about a table then, or a stand-in.
    pub(crate) materialized: Option<MaterializedStatement>,
    /// ALTER … OWNER TO; `statement` is a stand-in then.
    pub(crate) alter_any: Option<AlterAny>,
    /// True for ALTER TYPE … ATTRIBUTE, which is parsed as ALTER TABLE … COLUMN.
    pub(crate) alters_type: bool,
    /// True for ALTER VIEW … RENAME, which is parsed as ALTER TABLE.
    pub(crate) renames_view: bool,
    /// The constraint of COMMENT ON CONSTRAINT; `statement` is COMMENT ON TABLE or DOMAIN then.
    pub(crate) commented: Option<ast::Ident>,
    /// A statement of two-phase commit; `statement` is a stand-in then.
    pub(crate) two_phase: Option<TwoPhase>,
    /// True for GLOBAL before TEMPORARY, which says nothing.
    pub(crate) is_global_temporary: bool,
    /// The clauses of CREATE TABLE AS.
    pub(crate) table_as: TableAs,
    /// The columns of ALTER TABLE … TYPE … COLLATE, and their collations.
    pub(crate) collations: Vec<(ast::Ident, ast::ObjectName)>,
    /// The levels for which recursion over the statement needs stack.
    pub(crate) levels: usize,
}

impl Drop for Parsed {
    fn drop(&mut self) {
        if self.levels > 0 {
            let nothing = Statement::Commit { chain: false, end: false, modifier: None };
            let statement = std::mem::replace(&mut self.statement, nothing);
            stack::with_room_if_deep(self.levels, || drop(statement));
        }
    }
}

/// The protocol of a new database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChosenProtocol {
    /// The name.
    pub name: String,
    /// The nodes that have replicas from the beginning; empty for the default.
    pub members: Vec<u32>,
}

/// A change of a database.
#[derive(Clone, Debug)]
pub(crate) enum AlterDatabase {
    /// The members of its groups.
    Members(GroupMembers),
    /// A setting and its value; `None` for its default.
    Set(String, Option<String>),
}

/// The members of a database's groups, by node number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupMembers {
    /// The nodes that vote.
    pub voters: Vec<u32>,
    /// The nodes that receive the log and do not vote.
    pub learners: Vec<u32>,
    /// The voters that keep the log and no versions.
    pub witnesses: Vec<u32>,
}

/// The state that a query reads.
#[derive(Clone, Debug)]
pub(crate) enum AsOf {
    /// The state at this time.
    Exactly(String),
    /// The state at this time, or at any later one.
    AtLeast(String),
    /// Any state that is not older than this.
    AtMostOld(String),
}

impl AsOf {
    /// Parses `meridian.read_only_staleness`, as in Cloud Spanner: `Some(None)` for the present,
    /// `None` if the text is invalid.
    pub(crate) fn of_setting(text: &str) -> Option<Option<AsOf>> {
        let (kind, time) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
        let time = time.trim().to_owned();
        let as_of = match kind.to_uppercase().as_str() {
            "STRONG" if time.is_empty() => return Some(None),
            "MAX_STALENESS" => AsOf::AtMostOld(time),
            "EXACT_STALENESS" => AsOf::Exactly(format!("-{time}")),
            "MIN_READ_TIMESTAMP" => AsOf::AtLeast(time),
            "READ_TIMESTAMP" => AsOf::Exactly(time),
            _ => return None,
        };
        as_of.read_at(Interval { earliest: u64::MAX >> 1, latest: u64::MAX >> 1 }).ok()?;
        Some(Some(as_of))
    }

    /// Returns the timestamps to read at, given the interval of the current time.
    pub(crate) fn read_at(&self, now: Interval) -> Result<ReadAt, SqlError> {
        Ok(match self {
            AsOf::Exactly(text) => ReadAt::Exact(Timestamp::end_of(moment(text, now.earliest)?)),
            AsOf::AtLeast(text) => ReadAt::AtLeast(Timestamp::end_of(moment(text, now.earliest)?)),
            // Not older than that, wherever in the interval the time is.
            AsOf::AtMostOld(text) => ReadAt::AtLeast(Timestamp::end_of(moment(
                &format!("-{}", text.trim()),
                now.latest,
            )?)),
        })
    }
}

/// Parses a time to nanoseconds since 1970.
fn moment(text: &str, now_ns: u64) -> Result<u64, SqlError> {
    let bad = || {
        SqlError::new(
            state::BAD_DATETIME,
            format!("AS OF SYSTEM TIME does not understand '{text}'"),
        )
        .hint("Give '-10s' (also ms, m, h, d), a timestamp, or nanoseconds since 1970.")
    };
    let trimmed = text.trim();
    Ok(if let Some(back) = trimmed.strip_prefix('-') {
        let unit_at = back.find(|c: char| !c.is_ascii_digit()).unwrap_or(back.len());
        let count: u64 = back[..unit_at].parse().map_err(|_| bad())?;
        let unit_ns: u64 = match back[unit_at..].trim() {
            "us" => 1_000,
            "ms" => 1_000_000,
            "" | "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            "d" => 86_400_000_000_000,
            _ => return Err(bad()),
        };
        now_ns.saturating_sub(count.checked_mul(unit_ns).ok_or_else(bad)?)
    } else if let Ok(nanos) = trimmed.parse::<u64>() {
        nanos
    } else {
        datetime::to_unix_ns(
            datetime::timestamp_from_text(trimmed, true, Local::utc()).map_err(|_| bad())?,
        )
    })
}

fn tokens(sql: &str) -> Result<Vec<TokenWithSpan>, SqlError> {
    let wrong = |message: String, place| {
        let error = SqlError::new(state::SYNTAX, message).at(names::place(place));
        names::settle_position(error, sql)
    };
    let tokens = Tokenizer::new(&Bounded::of(&[]), sql)
        .tokenize_with_location()
        .map_err(|error| wrong(error.message.to_lowercase(), error.location))?;
    let is_nameless = |token: &&TokenWithSpan| matches!(&token.token, Token::Word(w) if w.quote_style.is_some() && w.value.is_empty());
    if let Some(token) = tokens.iter().find(is_nameless) {
        let message = "zero-length delimited identifier at or near \"\"\"\"";
        return Err(wrong(message.to_owned(), token.span.start));
    }
    if let Some((at, literal, text)) = junk(&tokens) {
        let message = format!("trailing junk after {literal} at or near \"{text}\"");
        return Err(wrong(message, tokens[at].span.start));
    }
    Ok(tokens)
}

/// Returns the first number or parameter that a letter follows: its place among the tokens, what
/// it is, and its text. The tokenizer takes `0x1F` for a bit string, and `1_000` for a number.
fn junk(tokens: &[TokenWithSpan]) -> Option<(usize, &'static str, String)> {
    let of_number = |at: usize, text: String| Some((at, "numeric literal", text));
    tokens.iter().enumerate().find_map(|(at, token)| match &token.token {
        Token::Number(number, true) => of_number(at, format!("{number}L")),
        Token::Number(number, false) if number.contains('_') => of_number(at, number.clone()),
        Token::Number(number, false) => match tokens.get(at + 1) {
            Some(TokenWithSpan { token: Token::Word(word), span })
                if word.quote_style.is_none() && span.start == token.span.end =>
            {
                of_number(at, format!("{number}{}", word.value))
            }
            _ => None,
        },
        Token::HexStringLiteral(digits)
            if token.span.end.column - token.span.start.column == digits.len() as u64 + 2 =>
        {
            of_number(at, format!("0x{digits}"))
        }
        Token::Placeholder(name) => {
            let digits = name.strip_prefix('$')?.trim_start_matches(|c: char| c.is_ascii_digit());
            let is_junk = !digits.is_empty() && digits.len() + 1 < name.len();
            is_junk.then(|| (at, "parameter", name.clone()))
        }
        _ => None,
    })
}

pub(crate) fn is_word(token: &TokenWithSpan, word: &str) -> bool {
    matches!(&token.token, Token::Word(w) if w.quote_style.is_none() && w.value.eq_ignore_ascii_case(word))
}

/// Parses the statements of a text; none if it is empty. Fails unless all of them parse.
pub(crate) fn statements(sql: &str) -> Result<Vec<Parsed>, SqlError> {
    let parentheses = limits::scan(sql)?;
    let mut out = Vec::new();
    let all = tokens(sql)?;
    for part in all.split(|token| token.token == Token::SemiColon) {
        if part.iter().any(|token| !matches!(token.token, Token::Whitespace(_) | Token::EOF)) {
            out.push(
                statement(part.to_vec(), sql, parentheses)
                    .map_err(|error| names::settle_position(error, sql))?,
            );
        }
    }
    Ok(out)
}

/// Parses a statement, with stack for its depth.
fn statement(
    mut tokens: Vec<TokenWithSpan>,
    sql: &str,
    parentheses: usize,
) -> Result<Parsed, SqlError> {
    tokens.retain(|token| !matches!(token.token, Token::Whitespace(_) | Token::EOF));
    let added = tokens::adapt(&mut tokens);
    let parentheses = limits::check_parentheses(parentheses + added)?;
    let limits::Room { bytes, recursion } = limits::refuse_chains(&tokens, parentheses)?;
    recursive::set_minimum_stack_size(SMALL_STACK_BYTES);
    recursive::set_stack_allocation_size(ADDED_STACK_BYTES);
    let parse = || parse_statement(tokens, sql, parentheses, recursion);
    if bytes < SMALL_STACK_BYTES {
        return parse();
    }
    stack::with_bytes(bytes + SMALL_STACK_BYTES, parse)
}

fn parse_statement(
    mut tokens: Vec<TokenWithSpan>,
    sql: &str,
    parentheses: usize,
    recursion: usize,
) -> Result<Parsed, SqlError> {
    let function = user_function::cut(&mut tokens)?;
    let extension = extension::cut(&mut tokens)?;
    let is_global_temporary = cut_global(&mut tokens);
    let view_text = view::cut_text(&tokens, sql);
    let as_of = cut_as_of(&mut tokens)?;
    let protocol = cut_protocol(&mut tokens)?;
    let split = cut_split(&mut tokens, recursion)?;
    let alter_database = cut_alter_database(&mut tokens)?;
    let vacuum = vacuum::cut(&mut tokens)?;
    let alter_any = alter_any::cut(&mut tokens);
    let collations = collation::cut(&mut tokens);
    let alters_type = attributes::adapt(&mut tokens);
    let renames_view = view::cut_rename(&mut tokens);
    dialect::name_all_fields(&mut tokens);
    let has_stand_in = alter_any.is_some() || function.is_some() || extension.is_some();
    let sequence = if has_stand_in { None } else { sequence::cut(&mut tokens)? };
    let is_domain = domain::cut(&mut tokens);
    let materialized = materialized::cut(&mut tokens)?;
    let likes = like::cut(&mut tokens)?;
    let commented = cut_commented(&mut tokens);
    let constraints = cut_set_constraints(&mut tokens);
    let two_phase = two_phase::cut(&mut tokens);
    let deferrable = cut_deferrable(&mut tokens);
    let moves = complete_fetch(&mut tokens);
    let table_as = create_as::cut(&mut tokens)?;
    take_escaped_labels(&mut tokens);
    notify::adapt(&mut tokens)?;
    carried::cut(&mut tokens);
    let first = tokens.first().cloned();
    let mut copies_table = false;
    if first.as_ref().is_some_and(|token| is_word(token, "copy")) {
        copies_table = copy::adapt(&mut tokens);
        tokens.push(TokenWithSpan::wrap(Token::SemiColon));
        // The parser knows only `freeze true`.
        for at in 1..tokens.len() {
            if is_word(&tokens[at - 1], "freeze") || is_word(&tokens[at - 1], "header") {
                let word = ["on", "off"].iter().position(|word| is_word(&tokens[at], word));
                if let Some(which) = word {
                    tokens[at].token = Token::make_keyword(["true", "false"][which]);
                }
            }
        }
    }
    let end = tokens.last().map(|token| token.span.end);
    let dialect = Bounded::of(&tokens);
    let mut parser =
        Parser::new(&dialect).with_recursion_limit(recursion).with_tokens_with_locations(tokens);
    let failed = |error: ParserError, parser: &Parser<'_>| {
        let at = parser.peek_token();
        if error == ParserError::RecursionLimitExceeded {
            let place = names::place(at.span.start);
            return names::settle_position(limits::nested(dialect.is_exhausted()).at(place), sql);
        }
        let message = match &at.token {
            Token::EOF => "syntax error at end of input".to_owned(),
            token => format!("syntax error at or near \"{token}\""),
        };
        let place = if at.token == Token::EOF {
            end.and_then(names::place)
        } else {
            names::place(at.span.start)
        };
        // The parser's message names the place of the error more precisely than the token before
        // which it stopped.
        let (place, message) = match parser_place(&error) {
            Some((place, near)) if at.token != Token::EOF => (
                Some(place),
                near.map_or(message, |near| format!("syntax error at or near \"{near}\"")),
            ),
            _ => (place, message),
        };
        let start = first.as_ref().and_then(|token| names::place(token.span.start));
        let known = self::tokens(sql).ok().and_then(|all| clauses::unparsed(&all, start, place));
        if let Some(refused) = known {
            return names::settle_position(refused.at(place), sql);
        }
        let mut answer = SqlError::new(state::SYNTAX, message).at(place);
        if let ParserError::ParserError(text) = &error {
            answer.detail = Some(text.split(" at Line:").next().unwrap_or(text).to_owned());
        }
        names::settle_position(answer, sql)
    };
    let mut statement = parser.parse_statement().map_err(|e| failed(e, &parser))?;
    if let (Statement::AlterTable(alter), true) = (&mut statement, split.is_some()) {
        alter.operations.clear();
    }
    while parser.consume_token(&Token::SemiColon) {}
    if parser.peek_token().token != Token::EOF {
        return Err(failed(
            ParserError::ParserError(format!("unexpected {}", parser.peek_token().token)),
            &parser,
        ));
    }
    select_into::settle(&mut statement)?;
    let copy_to = copy::cut(&mut statement, copies_table)?;
    let levels = limits::settle(&mut statement)? + parentheses;
    limits::check_stored(&statement, levels)?;
    Ok(Parsed {
        statement,
        as_of,
        protocol,
        split,
        alter_database,
        vacuum,
        sequence,
        function,
        extension,
        constraints,
        deferrable,
        moves,
        copy_to,
        likes,
        view_text,
        is_domain,
        materialized,
        alter_any,
        alters_type,
        renames_view,
        commented,
        two_phase,
        is_global_temporary,
        table_as,
        collations,
        levels,
    })
}

/// Cuts `CONSTRAINT name ON` from COMMENT ON CONSTRAINT, which the parser does not know, and leaves
/// COMMENT ON TABLE or ON DOMAIN.
fn cut_commented(tokens: &mut Vec<TokenWithSpan>) -> Option<ast::Ident> {
    let is = |at: usize, word| tokens.get(at).is_some_and(|token| is_word(token, word));
    let begins = is(0, "comment") && is(1, "on") && is(2, "constraint") && is(4, "on");
    if !begins {
        return None;
    }
    let is_of_domain = is(5, "domain") && !is(6, "is");
    let Token::Word(name) = &tokens[3].token else { return None };
    let name = name.to_ident(tokens[3].span);
    tokens.drain(2..5);
    if !is_of_domain {
        tokens.insert(2, TokenWithSpan::wrap(Token::make_keyword("table")));
    }
    Some(name)
}

/// Cuts GLOBAL and LOCAL before TEMPORARY. Returns true for GLOBAL.
fn cut_global(tokens: &mut Vec<TokenWithSpan>) -> bool {
    let is = |at: usize, words: &[&str]| words.iter().any(|word| is_word(&tokens[at], word));
    let places = 1..tokens.len().saturating_sub(1);
    let found = places.into_iter().find(|at| {
        is(at - 1, &["create", "replace", "into"])
            && is(*at, &["global", "local"])
            && is(at + 1, &["temporary", "temp"])
    });
    found.is_some_and(|at| is_word(&tokens.remove(at), "global"))
}

/// Makes plain strings of the escaped ones in CREATE TYPE and ALTER TYPE: the parser takes only
/// these for labels.
fn take_escaped_labels(tokens: &mut [TokenWithSpan]) {
    let is = |at: usize, word| tokens.get(at).is_some_and(|token| is_word(token, word));
    if !(is(0, "create") || is(0, "alter")) || !is(1, "type") {
        return;
    }
    for token in tokens {
        if let Token::EscapedStringLiteral(label) | Token::UnicodeStringLiteral(label) =
            &mut token.token
        {
            token.token = Token::SingleQuotedString(std::mem::take(label));
        }
    }
}

/// Cuts `[NOT] DEFERRABLE` from the modes of a transaction.
fn cut_deferrable(tokens: &mut Vec<TokenWithSpan>) -> Option<bool> {
    let is = |at: usize, word: &str| tokens.get(at).is_some_and(|token| is_word(token, word));
    let has_modes = is(0, "begin")
        || is(0, "start")
        || is(0, "set") && (is(1, "transaction") || is(1, "session") && is(2, "characteristics"));
    if !has_modes {
        return None;
    }
    let mut deferrable = None;
    while let Some(at) = tokens.iter().position(|token| is_word(token, "deferrable")) {
        let negated = at > 0 && is_word(&tokens[at - 1], "not");
        deferrable = Some(!negated);
        let is_comma = |at: usize| tokens.get(at).is_some_and(|it| it.token == Token::Comma);
        let (mut from, mut to) = (at - usize::from(negated), at + 1);
        match (from > 0 && is_comma(from - 1), is_comma(to)) {
            (true, _) => from -= 1,
            (false, true) => to += 1,
            (false, false) => {}
        }
        tokens.drain(from..to);
    }
    deferrable
}

/// Parses the place in `…, found: x at Line: 1, Column: 8`.
fn parser_place(error: &ParserError) -> Option<(usize, Option<String>)> {
    let ParserError::ParserError(text) = error else { return None };
    let (before, at) = text.rsplit_once(" at Line: ")?;
    let (line, column) = at.split_once(", Column: ")?;
    let place = line.parse::<usize>().ok()? << 32 | column.parse::<usize>().ok()?;
    Some((place, before.rsplit_once("found: ").map(|(_, near)| near.to_owned())))
}

/// Cuts `[WITH] PROTOCOL [=] name [MEMBERS (…)]` from CREATE DATABASE.
fn cut_protocol(tokens: &mut Vec<TokenWithSpan>) -> Result<Option<ChosenProtocol>, SqlError> {
    if !matches!(tokens.as_slice(), [create, database, ..] if is_word(create, "create") && is_word(database, "database"))
    {
        return Ok(None);
    }
    let Some(at) =
        tokens.iter().skip(3).position(|token| is_word(token, "protocol")).map(|at| at + 3)
    else {
        return Ok(None);
    };
    let wrong = || {
        SqlError::new(
            state::SYNTAX,
            "PROTOCOL takes one name at the end of the statement, and MEMBERS behind it",
        )
        .hint("For example: CREATE DATABASE lab PROTOCOL = tapir MEMBERS (1, 2, 3)")
        .at(names::place(tokens[at].span.start))
    };
    let behind = match &tokens[at + 1..] {
        [sign, behind @ ..] if sign.token == Token::Eq => behind,
        behind => behind,
    };
    let [name, rest @ ..] = behind else { return Err(wrong()) };
    let name = match &name.token {
        Token::Word(word) => word.value.to_lowercase(),
        Token::SingleQuotedString(text) => text.clone(),
        _ => return Err(wrong()),
    };
    let members = match rest {
        [] => Vec::new(),
        [word, ..] if is_word(word, "members") => {
            let GroupMembers { voters, learners, witnesses } = members(rest)?;
            if !learners.is_empty() || !witnesses.is_empty() {
                return Err(wrong());
            }
            voters
        }
        _ => return Err(wrong()),
    };
    let with = is_word(&tokens[at - 1], "with") && at > 3;
    tokens.truncate(if with { at - 1 } else { at });
    Ok(Some(ChosenProtocol { name, members }))
}

/// SET CONSTRAINTS: the names, all if there are none, and true for DEFERRED.
#[derive(Clone, Debug)]
pub(crate) struct SetConstraints {
    pub(crate) names: Vec<ast::ObjectName>,
    pub(crate) deferred: bool,
}

/// Cuts `SET CONSTRAINTS {ALL | name, …} {DEFERRED | IMMEDIATE}`, which the parser does not know,
/// and leaves a stand-in.
fn cut_set_constraints(tokens: &mut Vec<TokenWithSpan>) -> Option<SetConstraints> {
    let [set, constraints, names @ .., when] = tokens.as_slice() else { return None };
    if !is_word(set, "set") || !is_word(constraints, "constraints") || names.is_empty() {
        return None;
    }
    let deferred = is_word(when, "deferred");
    if !deferred && !is_word(when, "immediate") {
        return None;
    }
    let mut named = Vec::new();
    if !matches!(names, [all] if is_word(all, "all")) {
        let dialect = PostgreSqlDialect {};
        let mut parser = Parser::new(&dialect).with_tokens_with_locations(names.to_vec());
        loop {
            named.push(parser.parse_object_name(false).ok()?);
            if !parser.consume_token(&Token::Comma) {
                break;
            }
        }
        if parser.peek_token().token != Token::EOF {
            return None;
        }
    }
    let stand_in = ["set", "time", "zone", "utc"];
    *tokens = stand_in.map(|word| TokenWithSpan::wrap(Token::make_keyword(word))).into();
    Some(SetConstraints { names: named, deferred })
}

/// Completes the short forms of FETCH and MOVE (`FETCH c`, `MOVE 5 c`), which the parser does not
/// know, and replaces MOVE. Returns true for that.
fn complete_fetch(tokens: &mut Vec<TokenWithSpan>) -> bool {
    let Some(first) = tokens.first() else { return false };
    let moves = is_word(first, "move");
    if (!moves && !is_word(first, "fetch")) || tokens.len() < 2 {
        return false;
    }
    let word = |word| TokenWithSpan::wrap(Token::make_keyword(word));
    let is_name = |token: &TokenWithSpan| {
        let reserved = ["all", "from", "in"].iter().any(|word| is_word(token, word));
        matches!(token.token, Token::Word(_)) && !reserved
    };
    if !tokens.last().is_some_and(is_name) {
        return false;
    }
    tokens[0].token = Token::make_keyword("fetch");
    let name = tokens.pop();
    tokens.pop_if(|last| is_word(last, "from") || is_word(last, "in"));
    let is_signed = |tokens: &[TokenWithSpan]| match tokens {
        [.., sign, number] => {
            matches!(sign.token, Token::Minus | Token::Plus)
                && matches!(number.token, Token::Number(..))
        }
        _ => false,
    };
    if is_signed(tokens)
        && let Some(TokenWithSpan { token: Token::Number(digits, long), span }) = tokens.pop()
        && let Some(sign) = tokens.pop()
    {
        let text = if sign.token == Token::Minus { format!("-{digits}") } else { digits };
        tokens.push(TokenWithSpan::new(Token::Number(text, long), span));
    }
    if tokens.len() == 1 || (tokens.len() == 2 && is_word(&tokens[1], "forward")) {
        tokens.truncate(1);
        tokens.push(word("next"));
    } else if tokens.len() == 2 && is_word(&tokens[1], "backward") {
        tokens[1] = word("prior");
    }
    tokens.push(word("from"));
    tokens.extend(name);
    moves
}

/// Cuts `SPLIT AT VALUES (…), …` from ALTER TABLE, and leaves a clause in its place that the parser
/// knows.
fn cut_split(
    tokens: &mut Vec<TokenWithSpan>,
    recursion: usize,
) -> Result<Option<Vec<Vec<ast::Expr>>>, SqlError> {
    let begins =
        |token: Option<&TokenWithSpan>, word| token.is_some_and(|token| is_word(token, word));
    if !begins(tokens.first(), "alter") || !begins(tokens.get(1), "table") {
        return Ok(None);
    }
    let starts = |pair: &[TokenWithSpan]| is_word(&pair[0], "split") && is_word(&pair[1], "at");
    let Some(at) = tokens.windows(2).position(starts) else { return Ok(None) };
    let place = names::place(tokens[at].span.start);
    let values = tokens.split_off(at);
    let wrong = || {
        SqlError::new(state::SYNTAX, "SPLIT AT takes VALUES and rows of constants")
            .hint("For example: ALTER TABLE account SPLIT AT VALUES (1000), (2000)")
            .at(place)
    };
    let dialect = Bounded::of(&values[2..]);
    let mut parser = Parser::new(&dialect).with_recursion_limit(recursion);
    parser = parser.with_tokens_with_locations(values[2..].to_vec());
    let mut query = parser.parse_query().map_err(|_| wrong())?;
    limits::settle(&mut *query)?;
    if parser.peek_token().token != Token::EOF {
        return Err(wrong());
    }
    let plain = query.with.is_none()
        && query.order_by.is_none()
        && query.limit_clause.is_none()
        && query.fetch.is_none();
    let (true, ast::SetExpr::Values(ast::Values { rows, .. })) = (plain, *query.body) else {
        return Err(wrong());
    };
    let stand_in = ["enable", "row", "level", "security"];
    tokens.extend(stand_in.map(|word| TokenWithSpan::wrap(Token::make_keyword(word))));
    Ok(Some(rows.into_iter().map(|row| row.content).collect()))
}

/// Cuts the clause of ALTER DATABASE, which the parser does not know, and leaves the database's
/// name in a statement that it knows.
fn cut_alter_database(tokens: &mut Vec<TokenWithSpan>) -> Result<Option<AlterDatabase>, SqlError> {
    let begins = |at: usize, word| tokens.get(at).is_some_and(|token| is_word(token, word));
    if !begins(0, "alter") || !begins(1, "database") {
        return Ok(None);
    }
    let alter = if begins(3, "members") {
        AlterDatabase::Members(members(&tokens[3..])?)
    } else {
        match setting(&tokens[3..])? {
            Some((name, value)) => AlterDatabase::Set(name, value),
            None => return Ok(None),
        }
    };
    tokens.truncate(3);
    tokens[0].token = Token::make_keyword("create");
    Ok(Some(alter))
}

/// Parses the name and the value of `SET name = value`, or `TO value`; `TO DEFAULT` and `RESET
/// name` have no value. Returns `None` if it is neither SET nor RESET.
fn setting(tokens: &[TokenWithSpan]) -> Result<Option<(String, Option<String>)>, SqlError> {
    let [verb, rest @ ..] = tokens else { return Ok(None) };
    let (sets, resets) = (is_word(verb, "set"), is_word(verb, "reset"));
    let wrong = || {
        SqlError::new(state::SYNTAX, "ALTER DATABASE … SET takes one setting and its value")
            .hint("For example: ALTER DATABASE lab SET version_retention_period = '1h', or RESET version_retention_period.")
            .at(names::place(verb.span.start))
    };
    let is_sign = |token: &TokenWithSpan| token.token == Token::Eq || is_word(token, "to");
    let end = if resets { rest.len() } else { rest.iter().position(is_sign).unwrap_or(rest.len()) };
    // Names may have a prefix.
    let mut name = String::new();
    for (at, token) in rest[..end].iter().enumerate() {
        match &token.token {
            Token::Word(word) if at.is_multiple_of(2) => name.push_str(&word.value.to_lowercase()),
            Token::Period if !at.is_multiple_of(2) => name.push('.'),
            _ => return if sets || resets { Err(wrong()) } else { Ok(None) },
        }
    }
    if name.is_empty() || name.ends_with('.') {
        return if sets || resets { Err(wrong()) } else { Ok(None) };
    }
    match &rest[end..] {
        [] if resets => Ok(Some((name, None))),
        [_, value] if sets => match &value.token {
            Token::Word(word)
                if word.quote_style.is_none() && word.value.eq_ignore_ascii_case("default") =>
            {
                Ok(Some((name, None)))
            }
            Token::Word(word) => Ok(Some((name, Some(word.value.clone())))),
            Token::SingleQuotedString(text) | Token::Number(text, _) => {
                Ok(Some((name, Some(text.clone()))))
            }
            _ => Err(wrong()),
        },
        _ if sets || resets => Err(wrong()),
        _ => Ok(None),
    }
}

/// Parses `MEMBERS (…) LEARNERS (…) WITNESSES (…)`.
fn members(tokens: &[TokenWithSpan]) -> Result<GroupMembers, SqlError> {
    let place = names::place(tokens[0].span.start);
    let wrong = || {
        SqlError::new(
            state::SYNTAX,
            "MEMBERS takes numbers of nodes, then LEARNERS and WITNESSES may",
        )
        .hint("For example: ALTER DATABASE lab MEMBERS (1, 2, 4) LEARNERS (5) WITNESSES (4)")
        .at(place)
    };
    let (mut members, mut rest) = (GroupMembers::default(), tokens);
    while let [word, open, list @ ..] = rest {
        let end = list.iter().position(|token| token.token == Token::RParen).ok_or_else(wrong)?;
        let nodes = match word {
            word if is_word(word, "members") => &mut members.voters,
            word if is_word(word, "learners") => &mut members.learners,
            word if is_word(word, "witnesses") => &mut members.witnesses,
            _ => return Err(wrong()),
        };
        if open.token != Token::LParen || !nodes.is_empty() || end == 0 {
            return Err(wrong());
        }
        for item in list[..end].split(|token| token.token == Token::Comma) {
            let [TokenWithSpan { token: Token::Number(number, _), .. }] = item else {
                return Err(wrong());
            };
            nodes.push(number.parse().map_err(|_| wrong())?);
        }
        rest = &list[end + 1..];
    }
    if !rest.is_empty() {
        return Err(wrong());
    }
    Ok(members)
}

/// Cuts `AS OF SYSTEM TIME value` from the end.
fn cut_as_of(tokens: &mut Vec<TokenWithSpan>) -> Result<Option<AsOf>, SqlError> {
    let words = ["as", "of", "system", "time"];
    let starts = |window: &[TokenWithSpan]| {
        window.iter().zip(words).all(|(token, word)| is_word(token, word))
    };
    let Some(at) = tokens.windows(4).position(starts) else { return Ok(None) };
    let text = |token: &Token| match token {
        Token::SingleQuotedString(text) | Token::Number(text, _) => Some(text.clone()),
        _ => None,
    };
    let value = match tokens.get(at + 4..) {
        Some([only]) => text(&only.token).map(AsOf::Exactly),
        Some([name, open, only, close])
            if open.token == Token::LParen && close.token == Token::RParen =>
        {
            let value = text(&only.token);
            if is_word(name, "with_max_staleness") {
                value.map(AsOf::AtMostOld)
            } else if is_word(name, "with_min_timestamp") {
                value.map(AsOf::AtLeast)
            } else {
                None
            }
        }
        _ => None,
    };
    let Some(value) = value else {
        return Err(SqlError::new(state::SYNTAX, "AS OF SYSTEM TIME takes one time, at the end of the statement")
            .hint("For example: AS OF SYSTEM TIME '-10s', a timestamp, with_max_staleness('10s') or with_min_timestamp('…').")
            .at(names::place(tokens[at].span.start)));
    };
    tokens.truncate(at);
    Ok(Some(value))
}

/// The levels of the name of a type.
const TYPE_LEVELS: usize = 10;

/// Parses the name of a type, which is all of a text.
pub(crate) fn data_type(text: &str) -> Option<ast::DataType> {
    let dialect = PostgreSqlDialect {};
    let parser = Parser::new(&dialect).with_recursion_limit(TYPE_LEVELS);
    let mut parser = parser.try_with_sql(text).ok()?;
    let found = parser.parse_data_type().ok()?;
    (parser.peek_token().token == Token::EOF).then_some(found)
}

/// Returns the name of a type: one of the database by its id, which any search path finds.
pub(crate) fn name_of_type(ty: Type) -> Option<ast::DataType> {
    let Some(of) = ty.user_type() else {
        return match ty {
            // Its length is not a part of its name.
            Type::Char(0) => data_type("bpchar"),
            ty => data_type(&ty.to_string()),
        };
    };
    let name = ast::ObjectName::from(vec![names::reference(of.id())]);
    let named = ast::DataType::Custom(name, Vec::new());
    Some(match ty.element() {
        Some(_) => {
            ast::DataType::Array(ast::ArrayElemTypeDef::SquareBracket(Box::new(named), None))
        }
        None => named,
    })
}

/// Parses an expression that a descriptor stores as text.
pub(crate) fn expression(text: &str) -> Result<ast::Expr, SqlError> {
    let corrupted = |why: &dyn std::fmt::Display| {
        SqlError::corrupted(format!("the stored expression {text}: {why}"))
    };
    let mut tokens = tokens(text).map_err(|error| corrupted(&error.message))?;
    tokens.retain(|token| !matches!(token.token, Token::Whitespace(_) | Token::EOF));
    tokens::adapt(&mut tokens);
    let dialect = Bounded::of(&tokens);
    let mut parser = Parser::new(&dialect)
        .with_recursion_limit(limits::STORED_RECURSION)
        .with_tokens_with_locations(tokens);
    let mut expr = parser.parse_expr().map_err(|error| corrupted(&error))?;
    limits::settle(&mut expr)?;
    Ok(expr)
}

impl Parsed {
    /// True if a statement counts as a query of its transaction: PostgreSQL takes a snapshot for
    /// it.
    pub(crate) fn takes_snapshot(&self) -> bool {
        self.constraints.is_none()
            && !matches!(
                self.statement,
                Statement::StartTransaction { .. }
                    | Statement::Commit { .. }
                    | Statement::Rollback { .. }
                    | Statement::Savepoint { .. }
                    | Statement::ReleaseSavepoint { .. }
                    | Statement::Set(_)
                    | Statement::Reset(_)
                    | Statement::ShowVariable { .. }
                    | Statement::Lock(_)
                    | Statement::Fetch { .. }
                    | Statement::LISTEN { .. }
                    | Statement::UNLISTEN { .. }
                    | Statement::NOTIFY { .. }
            )
    }
}

/// True if a statement runs even in a failed transaction.
pub(crate) fn ends_transaction(statement: &Statement) -> bool {
    matches!(statement, Statement::Commit { .. } | Statement::Rollback { .. })
}
