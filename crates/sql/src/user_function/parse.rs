//! The text of CREATE, ALTER and DROP FUNCTION, and of COMMENT ON FUNCTION, of which the parser
//! knows a part.

use crate::dialect::Bounded;
use crate::error::{SqlError, state};
use crate::function::Volatility;
use crate::limits;
use crate::names;
use crate::parse::is_word;
use crate::reader::Reader;
use sqlparser::ast::{DataType, Expr, Ident, ObjectName};
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// A statement about a function.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum FunctionStatement {
    Create(Box<NewFunction>),
    Alter { kind: Kind, function: Signature, change: FunctionChange },
    Drop { kind: Kind, if_exists: bool, functions: Vec<Signature>, cascade: bool },
    Comment { kind: Kind, function: Signature, text: Option<String> },
}

/// The word for the objects that a statement is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Function,
    Procedure,
    /// A function or a procedure.
    Routine,
    Aggregate,
}

impl Kind {
    const ALL: [Kind; 4] = [Kind::Function, Kind::Procedure, Kind::Routine, Kind::Aggregate];

    pub(crate) fn word(self) -> &'static str {
        match self {
            Kind::Function => "function",
            Kind::Procedure => "procedure",
            Kind::Routine => "routine",
            Kind::Aggregate => "aggregate",
        }
    }

    /// True if a function may be meant.
    pub(crate) fn fits(self) -> bool {
        matches!(self, Kind::Function | Kind::Routine)
    }
}

/// CREATE FUNCTION.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NewFunction {
    pub(crate) or_replace: bool,
    pub(crate) name: ObjectName,
    pub(crate) args: Vec<Argument>,
    pub(crate) returns: Option<Returns>,
    pub(crate) language: Option<String>,
    pub(crate) body: Option<String>,
    pub(crate) options: FunctionOptions,
}

/// The clauses that ALTER FUNCTION may change.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct FunctionOptions {
    pub(crate) volatility: Option<Volatility>,
    pub(crate) strict: Option<bool>,
    pub(crate) leakproof: Option<bool>,
    pub(crate) parallel: Option<Ident>,
    pub(crate) cost: Option<f32>,
    pub(crate) rows: Option<f32>,
    definer: Option<bool>,
}

/// RETURNS: a type, and whether a set of its values.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Returns {
    Type(DataType, bool),
    /// The columns are arguments.
    Table,
}

/// A parameter of a new function.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Argument {
    pub(crate) name: Option<Ident>,
    pub(crate) mode: super::Mode,
    pub(crate) ty: DataType,
    pub(crate) default: Option<Expr>,
}

/// The name of a function, and the types of its inputs if they are given.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Signature {
    pub(crate) name: ObjectName,
    pub(crate) args: Option<Vec<Argument>>,
}

/// A change of a function.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum FunctionChange {
    Rename(Ident),
    Owner(Ident),
    Schema(Ident),
    Options(FunctionOptions),
}

/// Cuts a statement about a function. The rest is a stand-in that the parser knows.
pub(crate) fn cut(tokens: &mut Vec<TokenWithSpan>) -> Result<Option<FunctionStatement>, SqlError> {
    let all = std::mem::take(tokens);
    let mut reader = Reader::of(&all);
    let mut find = |verb: &str| {
        let of = |kind: &Kind| reader.words(&format!("{verb} {}", kind.word()));
        Kind::ALL.into_iter().find(of)
    };
    let statement = if let Some(kind) = find("drop") {
        Some(drop_functions(&mut reader, kind)?)
    } else if let Some(kind) = find("alter") {
        Some(alter(&mut reader, kind)?)
    } else if let Some(kind) = find("comment on") {
        Some(comment(&mut reader, kind)?)
    } else if reader.words("create function") {
        Some(create(&mut reader, false)?)
    } else if reader.words("create or replace function") {
        Some(create(&mut reader, true)?)
    } else {
        None
    };
    let Some(statement) = statement else {
        *tokens = all;
        return Ok(None);
    };
    if !reader.is_at_end() {
        return Err(reader.wrong());
    }
    let span = all[0].span;
    let words = ["create", "sequence", "s"].map(Token::make_keyword);
    tokens.extend(words.map(|token| TokenWithSpan::new(token, span)));
    Ok(Some(statement))
}

fn create(reader: &mut Reader<'_>, or_replace: bool) -> Result<FunctionStatement, SqlError> {
    let name = reader.name()?;
    let mut args = arguments(reader, super::Mode::In)?;
    let returns = match () {
        () if reader.words("returns table") => {
            args.extend(arguments(reader, super::Mode::Table)?);
            Some(Returns::Table)
        }
        () if reader.words("returns") => {
            let is_set = reader.words("setof");
            Some(Returns::Type(data_type(reader)?, is_set))
        }
        () => None,
    };
    let (mut language, mut body) = (None, None);
    let mut options = FunctionOptions::default();
    while let Some(token) = reader.peek() {
        let place = names::place(token.span.start);
        let twice = || SqlError::new(state::SYNTAX, "conflicting or redundant options").at(place);
        match () {
            () if reader.words("language") => {
                let name = match text(reader) {
                    Some(name) => name.to_lowercase(),
                    None => names::fold(&reader.ident()?),
                };
                set(&mut language, name).ok_or_else(twice)?;
            }
            () if reader.words("as") => {
                let text = text(reader).ok_or_else(|| reader.wrong())?;
                set(&mut body, text).ok_or_else(twice)?;
                if reader.skip(&Token::Comma) {
                    // The name of an object file, and that of a symbol in it.
                    self::text(reader).ok_or_else(|| reader.wrong())?;
                    language.get_or_insert_with(|| "c".to_owned());
                }
            }
            () if option(reader, &mut options)? => {}
            () => {
                let refused = ["transform", "window", "return", "begin atomic"];
                return Err(match refused.into_iter().find(|words| reader.words(words)) {
                    Some(words) => {
                        let words = words.to_uppercase();
                        SqlError::unsupported(format!("{words} in CREATE FUNCTION")).at(place)
                    }
                    None => reader.wrong(),
                });
            }
        }
    }
    let new = NewFunction { or_replace, name, args, returns, language, body, options };
    Ok(FunctionStatement::Create(Box::new(new)))
}

/// Reads a clause that CREATE FUNCTION and ALTER FUNCTION have. Returns false if there is none.
fn option(reader: &mut Reader<'_>, options: &mut FunctionOptions) -> Result<bool, SqlError> {
    let place = reader.peek().and_then(|token| names::place(token.span.start));
    let twice = || SqlError::new(state::SYNTAX, "conflicting or redundant options").at(place);
    match () {
        () if reader.words("immutable") => {
            set(&mut options.volatility, Volatility::Immutable).ok_or_else(twice)?;
        }
        () if reader.words("stable") => {
            set(&mut options.volatility, Volatility::Stable).ok_or_else(twice)?;
        }
        () if reader.words("volatile") => {
            set(&mut options.volatility, Volatility::Volatile).ok_or_else(twice)?;
        }
        () if reader.words("strict") || reader.words("returns null on null input") => {
            set(&mut options.strict, true).ok_or_else(twice)?;
        }
        () if reader.words("called on null input") => {
            set(&mut options.strict, false).ok_or_else(twice)?;
        }
        () if reader.words("leakproof") => set(&mut options.leakproof, true).ok_or_else(twice)?,
        () if reader.words("not leakproof") => {
            set(&mut options.leakproof, false).ok_or_else(twice)?;
        }
        () if reader.words("parallel") => {
            set(&mut options.parallel, reader.ident()?).ok_or_else(twice)?;
        }
        () if reader.words("cost") => {
            set(&mut options.cost, positive(reader, "COST")?).ok_or_else(twice)?;
        }
        () if reader.words("rows") => {
            set(&mut options.rows, positive(reader, "ROWS")?).ok_or_else(twice)?;
        }
        () if reader.words("security invoker") || reader.words("external security invoker") => {
            set(&mut options.definer, false).ok_or_else(twice)?;
        }
        () if reader.words("security definer") || reader.words("external security definer") => {
            return Err(SqlError::unsupported("SECURITY DEFINER").at(place));
        }
        () if reader.words("support") => {
            return Err(SqlError::unsupported("SUPPORT of a function").at(place));
        }
        () if reader.words("set") || reader.words("reset") => {
            return Err(SqlError::unsupported("a setting of a function").at(place));
        }
        () => return Ok(false),
    }
    Ok(true)
}

/// Reads a number above zero.
fn positive(reader: &mut Reader<'_>, of: &str) -> Result<f32, SqlError> {
    let is_negative = reader.skip(&Token::Minus);
    let Some(TokenWithSpan { token: Token::Number(digits, _), .. }) = reader.peek() else {
        return Err(reader.wrong());
    };
    let number: f32 = digits.parse().map_err(|_| reader.wrong())?;
    reader.at += 1;
    if is_negative || number <= 0.0 {
        let message = format!("{of} must be positive");
        return Err(SqlError::new(state::INVALID_PARAMETER, message));
    }
    Ok(number)
}

fn alter(reader: &mut Reader<'_>, kind: Kind) -> Result<FunctionStatement, SqlError> {
    let function = signature(reader)?;
    let change = match () {
        () if reader.words("rename to") => FunctionChange::Rename(reader.ident()?),
        () if reader.words("owner to") => FunctionChange::Owner(reader.ident()?),
        () if reader.words("set schema") => FunctionChange::Schema(reader.ident()?),
        () if reader.words("depends on extension") || reader.words("no depends on extension") => {
            return Err(SqlError::unsupported("DEPENDS ON EXTENSION"));
        }
        () => {
            let mut options = FunctionOptions::default();
            while option(reader, &mut options)? {}
            reader.words("restrict");
            if options == FunctionOptions::default() {
                return Err(reader.wrong());
            }
            FunctionChange::Options(options)
        }
    };
    Ok(FunctionStatement::Alter { kind, function, change })
}

fn drop_functions(reader: &mut Reader<'_>, kind: Kind) -> Result<FunctionStatement, SqlError> {
    let if_exists = reader.words("if exists");
    let mut functions = vec![signature(reader)?];
    while reader.skip(&Token::Comma) {
        functions.push(signature(reader)?);
    }
    let cascade = reader.words("cascade");
    reader.words("restrict");
    Ok(FunctionStatement::Drop { kind, if_exists, functions, cascade })
}

fn comment(reader: &mut Reader<'_>, kind: Kind) -> Result<FunctionStatement, SqlError> {
    let function = signature(reader)?;
    if !reader.words("is") {
        return Err(reader.wrong());
    }
    let text = match reader.words("null") {
        true => None,
        false => Some(text(reader).ok_or_else(|| reader.wrong())?),
    };
    Ok(FunctionStatement::Comment { kind, function, text })
}

fn signature(reader: &mut Reader<'_>) -> Result<Signature, SqlError> {
    let name = reader.name()?;
    let is_open = reader.peek().is_some_and(|token| token.token == Token::LParen);
    let args = is_open.then(|| arguments(reader, super::Mode::In)).transpose()?;
    Ok(Signature { name, args })
}

/// Reads a string.
fn text(reader: &mut Reader<'_>) -> Option<String> {
    let text = match &reader.peek()?.token {
        Token::SingleQuotedString(text)
        | Token::EscapedStringLiteral(text)
        | Token::UnicodeStringLiteral(text) => text.clone(),
        Token::DollarQuotedString(text) => text.value.clone(),
        _ => return None,
    };
    reader.at += 1;
    Some(text)
}

fn set<T>(option: &mut Option<T>, value: T) -> Option<()> {
    option.replace(value).is_none().then_some(())
}

/// Returns the tokens up to the bracket that closes the one before, and to each comma in between.
fn in_brackets<'t>(reader: &mut Reader<'t>) -> Result<Vec<&'t [TokenWithSpan]>, SqlError> {
    if !reader.skip(&Token::LParen) {
        return Err(reader.wrong());
    }
    let (mut parts, mut depth, mut from) = (Vec::new(), 0_usize, reader.at);
    loop {
        let Some(token) = reader.peek() else { return Err(reader.wrong()) };
        match token.token {
            Token::LParen | Token::LBracket => depth += 1,
            Token::RParen if depth == 0 => break,
            Token::RParen | Token::RBracket => depth = depth.saturating_sub(1),
            Token::Comma if depth == 0 => {
                parts.push(&reader.tokens[from..reader.at]);
                from = reader.at + 1;
            }
            _ => {}
        }
        reader.at += 1;
    }
    if from < reader.at || !parts.is_empty() {
        parts.push(&reader.tokens[from..reader.at]);
    }
    reader.at += 1;
    Ok(parts)
}

fn arguments(reader: &mut Reader<'_>, mode: super::Mode) -> Result<Vec<Argument>, SqlError> {
    let parts = in_brackets(reader)?;
    let behind = Reader { at: reader.at - 1, ..Reader::of(reader.tokens) };
    parts.into_iter().map(|part| argument(part, mode, &behind)).collect()
}

/// Reads a parameter: `[mode] [name] [mode] type [DEFAULT value]`.
fn argument(
    tokens: &[TokenWithSpan],
    mode: super::Mode,
    behind: &Reader<'_>,
) -> Result<Argument, SqlError> {
    let wrong = |tokens: &[TokenWithSpan]| match tokens.first() {
        Some(_) => Reader::of(tokens).wrong(),
        None => behind.wrong(),
    };
    let is_default = |token: &TokenWithSpan| {
        is_word(token, "default") || matches!(token.token, Token::Eq | Token::Assignment)
    };
    let (declared, default) = match tokens.iter().position(is_default) {
        Some(at) => (&tokens[..at], Some(expression(&tokens[at + 1..], behind)?)),
        None => (tokens, None),
    };
    let mut reader = Reader::of(declared);
    let mut given = argument_mode(&mut reader)?;
    let rest = &declared[reader.at..];
    let (name, ty) = match whole_type(rest)? {
        Some(ty) => (None, ty),
        None => {
            let name = reader.ident().map_err(|_| wrong(rest))?;
            if given.is_none() {
                given = argument_mode(&mut reader)?;
            }
            let rest = &declared[reader.at..];
            (Some(name), whole_type(rest)?.ok_or_else(|| wrong(rest))?)
        }
    };
    Ok(Argument { name, mode: given.unwrap_or(mode), ty, default })
}

fn argument_mode(reader: &mut Reader<'_>) -> Result<Option<super::Mode>, SqlError> {
    Ok(match () {
        () if reader.words("inout") || reader.words("in out") => Some(super::Mode::InOut),
        () if reader.words("in") => Some(super::Mode::In),
        () if reader.words("out") => Some(super::Mode::Out),
        () if reader.words("variadic") => {
            return Err(SqlError::unsupported("a VARIADIC parameter"));
        }
        () => None,
    })
}

/// Reads a type up to the clause that follows it.
fn data_type(reader: &mut Reader<'_>) -> Result<DataType, SqlError> {
    let rest = &reader.tokens[reader.at..];
    let dialect = PostgreSqlDialect {};
    let mut parser = Parser::new(&dialect).with_tokens_with_locations(rest.to_vec());
    let ty = parser.parse_data_type().map_err(|_| reader.wrong())?;
    reader.at += parser.index();
    refuse_of_column(reader.peek())?;
    Ok(ty)
}

/// Fails with 0A000 for `%TYPE` behind the name of a column.
fn refuse_of_column(next: Option<&TokenWithSpan>) -> Result<(), SqlError> {
    match next {
        Some(token) if token.token == Token::Mod => Err(SqlError::unsupported("%TYPE")),
        _ => Ok(()),
    }
}

/// Returns the type that some tokens are; `None` if they are none, or something follows it.
fn whole_type(tokens: &[TokenWithSpan]) -> Result<Option<DataType>, SqlError> {
    let dialect = PostgreSqlDialect {};
    let mut parser = Parser::new(&dialect).with_tokens_with_locations(tokens.to_vec());
    let Ok(ty) = parser.parse_data_type() else { return Ok(None) };
    refuse_of_column(tokens.get(parser.index()))?;
    Ok((parser.peek_token().token == Token::EOF).then_some(ty))
}

fn expression(tokens: &[TokenWithSpan], behind: &Reader<'_>) -> Result<Expr, SqlError> {
    let dialect = Bounded::of(tokens);
    let mut parser = Parser::new(&dialect)
        .with_recursion_limit(limits::STORED_RECURSION)
        .with_tokens_with_locations(tokens.to_vec());
    let wrong = |at: usize| match tokens.get(at) {
        Some(_) => Reader { at, ..Reader::of(tokens) }.wrong(),
        None => behind.wrong(),
    };
    let mut expr = parser.parse_expr().map_err(|_| wrong(0))?;
    if parser.peek_token().token != Token::EOF {
        return Err(wrong(parser.index()));
    }
    limits::settle(&mut expr)?;
    Ok(expr)
}

/// The languages that PostgreSQL has: of these, `sql` is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Language {
    Sql,
    Other,
    Unknown,
}

impl Language {
    pub(crate) fn named(name: &str) -> Language {
        match name {
            "sql" => Language::Sql,
            "plpgsql" | "c" | "internal" => Language::Other,
            _ => Language::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;

    fn parsed(text: &str) -> FunctionStatement {
        let mut all = parse::statements(text).expect(text);
        all.pop().and_then(|one| one.function.clone()).expect(text)
    }

    #[test]
    fn parameters_have_modes_names_types_and_defaults_in_any_form() {
        let text = "create function s.f(int, a int, IN b double precision default 1.5, \
                    date date = now(), OUT \"X y\" varchar(3), c INOUT int[]) language sql as ''";
        let FunctionStatement::Create(new) = parsed(text) else { panic!("a function") };
        let shown = |arg: &Argument| {
            let name = arg.name.as_ref().map(names::fold);
            let default = arg.default.as_ref().map(ToString::to_string);
            (name, arg.mode, arg.ty.to_string(), default)
        };
        use super::super::Mode::{In, InOut, Out};
        let expected = [
            (None, In, "INT", None),
            (Some("a"), In, "INT", None),
            (Some("b"), In, "DOUBLE PRECISION", Some("1.5")),
            (Some("date"), In, "DATE", Some("now()")),
            (Some("X y"), Out, "VARCHAR(3)", None),
            (Some("c"), InOut, "INT[]", None),
        ];
        let owned = |text: Option<&str>| text.map(str::to_owned);
        let expected = expected
            .map(|(name, mode, ty, default)| (owned(name), mode, ty.to_owned(), owned(default)));
        assert_eq!(new.args.iter().map(shown).collect::<Vec<_>>(), expected);
        assert_eq!(new.name.to_string(), "s.f");
        assert_eq!(new.body.as_deref(), Some(""));
    }

    #[test]
    fn statements_about_functions_are_cut() {
        let text = "drop function if exists f(int, text), g cascade";
        let FunctionStatement::Drop { if_exists, functions, cascade, .. } = parsed(text) else {
            panic!("a drop")
        };
        assert!(if_exists && cascade);
        let counts: Vec<_> = functions.iter().map(|it| it.args.as_ref().map(Vec::len)).collect();
        assert_eq!(counts, [Some(2), None]);
        assert!(matches!(
            parsed("alter function f() rename to g"),
            FunctionStatement::Alter { change: FunctionChange::Rename(_), .. }
        ));
        for text in [
            "create function f(",
            "create function f(,)",
            "create function f(a b c) returns int",
            "create function f(int default) returns int",
            "drop function",
            "comment on function f() is",
            "create function f() returns int immutable stable language sql as ''",
        ] {
            let error = parse::statements(text).expect_err(text);
            assert_eq!(error.sqlstate, state::SYNTAX, "{text}");
        }
    }
}
