//! The text of CREATE SEQUENCE, ALTER SEQUENCE, and IDENTITY.
//!
//! The parser knows a part of them, in one order only. So their clauses are read here, and cut off
//! before the rest is parsed.

use super::Options;
use crate::error::{SqlError, state};
use crate::names;
use crate::reader::Reader;
use sqlparser::ast::{Ident, ObjectName};
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// A statement about a sequence.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum SequenceStatement {
    Create {
        name: ObjectName,
        is_temporary: bool,
        if_not_exists: bool,
        options: Options,
    },
    Alter {
        name: ObjectName,
        if_exists: bool,
        change: Change,
    },
    /// ALTER TABLE … ALTER COLUMN
    Identity {
        table: ObjectName,
        if_exists: bool,
        column: Ident,
        change: IdentityChange,
    },
}

/// A change of a sequence.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Change {
    Options(Options),
    Rename(Ident),
}

/// A change of an identity column.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum IdentityChange {
    Add { always: bool, options: Options },
    Set { always: Option<bool>, options: Options },
    Drop { if_exists: bool },
}

impl Reader<'_> {
    /// Reads options up to something else.
    fn options(&mut self, of: Of) -> Result<Options, SqlError> {
        let mut options = Options::default();
        while let Some(token) = self.peek() {
            let place = names::place(token.span.start);
            let twice =
                || SqlError::new(state::SYNTAX, "conflicting or redundant options").at(place);
            match () {
                () if self.words("increment") => {
                    self.words("by");
                    set(&mut options.increment, self.number()?).ok_or_else(twice)?;
                }
                () if self.words("minvalue") => {
                    set(&mut options.min, Some(self.number()?)).ok_or_else(twice)?;
                }
                () if self.words("maxvalue") => {
                    set(&mut options.max, Some(self.number()?)).ok_or_else(twice)?;
                }
                () if self.words("no minvalue") => {
                    set(&mut options.min, None).ok_or_else(twice)?;
                }
                () if self.words("no maxvalue") => {
                    set(&mut options.max, None).ok_or_else(twice)?;
                }
                () if self.words("start") => {
                    self.words("with");
                    set(&mut options.start, self.number()?).ok_or_else(twice)?;
                }
                () if of != Of::New && self.words("restart") => {
                    let is_number = |token: &TokenWithSpan| {
                        matches!(token.token, Token::Number(..) | Token::Minus | Token::Plus)
                    };
                    let given = self.words("with") || self.peek().is_some_and(is_number);
                    let value = given.then(|| self.number()).transpose()?;
                    set(&mut options.restart, value).ok_or_else(twice)?;
                }
                () if self.words("cache") => {
                    set(&mut options.cache, self.number()?).ok_or_else(twice)?;
                }
                () if self.words("cycle") => set(&mut options.cycle, true).ok_or_else(twice)?,
                () if self.words("no cycle") => {
                    set(&mut options.cycle, false).ok_or_else(twice)?;
                }
                () if self.words("owned by") => {
                    let owner = match self.words("none") {
                        true => None,
                        false => Some(self.name()?),
                    };
                    set(&mut options.owned_by, owner).ok_or_else(twice)?;
                }
                () if self.words("sequence name") => {
                    set(&mut options.name, self.name()?).ok_or_else(twice)?;
                }
                () if self.words("as") => {
                    set(&mut options.ty, self.data_type()?).ok_or_else(twice)?;
                }
                () if self.words("bit_reversed_positive") => options.reversed = true,
                () => break,
            }
        }
        let is_given = |given: bool, name: &str| match given {
            true => {
                let message = format!("sequence option \"{name}\" not supported here");
                Err(SqlError::new(state::SYNTAX, message))
            }
            false => Ok(()),
        };
        if of == Of::Identity {
            is_given(options.owned_by.is_some(), "owned_by")?;
            if options.ty.is_some() {
                return Err(SqlError::new(state::SYNTAX, "conflicting or redundant options"));
            }
        }
        if options.name.is_some() && of != Of::Identity {
            return Err(SqlError::new(state::SYNTAX, "SEQUENCE NAME is for identity columns"));
        }
        Ok(options)
    }

    /// Reads `ALWAYS` or `BY DEFAULT`.
    fn always(&mut self) -> Option<bool> {
        match () {
            () if self.words("always") => Some(true),
            () if self.words("by default") => Some(false),
            () => None,
        }
    }

    /// Reads `GENERATED … AS IDENTITY` and its options.
    fn generated(&mut self) -> Result<(bool, Options), SqlError> {
        let always = match self.words("generated") {
            true => self.always(),
            false => None,
        };
        let always = always.ok_or_else(|| self.wrong())?;
        if !self.words("as identity") {
            return Err(self.wrong());
        }
        let mut options = Options::default();
        if self.skip(&Token::LParen) {
            let begins = self.at;
            options = self.options(Of::Identity)?;
            if self.at == begins || !self.skip(&Token::RParen) {
                return Err(self.wrong());
            }
        }
        Ok((always, options))
    }

    fn identity_change(&mut self) -> Result<Option<IdentityChange>, SqlError> {
        if self.words("drop identity") {
            return Ok(Some(IdentityChange::Drop { if_exists: self.words("if exists") }));
        }
        if self.words("add") {
            let (always, options) = self.generated()?;
            return Ok(Some(IdentityChange::Add { always, options }));
        }
        let (mut always, mut options, begins) = (None, Options::default(), self.at);
        while !self.is_at_end() {
            let sets = self.words("set");
            if sets && self.words("generated") {
                always = Some(self.always().ok_or_else(|| self.wrong())?);
                continue;
            }
            let before = self.at;
            let more = self.options(Of::Old)?;
            let is_other = self.at == before || (!sets && more.restart.is_none());
            if is_other && begins == before - usize::from(sets) {
                // SET DEFAULT, SET NOT NULL and the like.
                return Ok(None);
            }
            if is_other {
                return Err(self.wrong());
            }
            options = merged(options, more)?;
        }
        Ok(Some(IdentityChange::Set { always, options }))
    }
}

/// The statement that options belong to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Of {
    New,
    Old,
    Identity,
}

/// Sets an option; `None` if it was set before.
fn set<T>(option: &mut Option<T>, value: T) -> Option<()> {
    option.replace(value).is_none().then_some(())
}

/// Joins the options of several actions.
fn merged(a: Options, b: Options) -> Result<Options, SqlError> {
    fn either<T>(a: Option<T>, b: Option<T>) -> Result<Option<T>, SqlError> {
        match (a, b) {
            (Some(_), Some(_)) => {
                Err(SqlError::new(state::SYNTAX, "conflicting or redundant options"))
            }
            (a, b) => Ok(a.or(b)),
        }
    }
    Ok(Options {
        ty: either(a.ty, b.ty)?,
        increment: either(a.increment, b.increment)?,
        min: either(a.min, b.min)?,
        max: either(a.max, b.max)?,
        start: either(a.start, b.start)?,
        restart: either(a.restart, b.restart)?,
        cache: either(a.cache, b.cache)?,
        cycle: either(a.cycle, b.cycle)?,
        owned_by: either(a.owned_by, b.owned_by)?,
        name: either(a.name, b.name)?,
        reversed: a.reversed || b.reversed,
    })
}

/// Cuts the clauses of a statement about a sequence. The rest is a stand-in that the parser knows.
pub(crate) fn cut(tokens: &mut Vec<TokenWithSpan>) -> Result<Option<SequenceStatement>, SqlError> {
    let all = std::mem::take(tokens);
    let mut reader = Reader::of(&all);
    let statement = match () {
        () if reader.words("create sequence") => Some(create(&mut reader, false)?),
        () if reader.words("create temporary sequence") || reader.words("create temp sequence") => {
            Some(create(&mut reader, true)?)
        }
        () if reader.words("create unlogged sequence") => {
            return Err(SqlError::unsupported("a sequence that is unlogged"));
        }
        () if reader.words("alter sequence") => Some(alter(&mut reader)?),
        () if reader.words("alter table") => identity_of_table(&mut reader)?,
        () => None,
    };
    let Some(statement) = statement else {
        *tokens = all;
        return Ok(None);
    };
    reader.skip(&Token::SemiColon);
    if !reader.is_at_end() {
        return Err(reader.wrong());
    }
    let span = all[0].span;
    let words = ["create", "sequence", "s"].map(Token::make_keyword);
    tokens.extend(words.map(|token| TokenWithSpan::new(token, span)));
    Ok(Some(statement))
}

fn create(reader: &mut Reader<'_>, is_temporary: bool) -> Result<SequenceStatement, SqlError> {
    let if_not_exists = reader.words("if not exists");
    let name = reader.name()?;
    let options = reader.options(Of::New)?;
    Ok(SequenceStatement::Create { name, is_temporary, if_not_exists, options })
}

fn alter(reader: &mut Reader<'_>) -> Result<SequenceStatement, SqlError> {
    let if_exists = reader.words("if exists");
    let name = reader.name()?;
    let change = match () {
        () if reader.words("rename to") => Change::Rename(reader.ident()?),
        () if reader.words("set schema") || reader.words("set logged") => {
            return Err(SqlError::unsupported("ALTER SEQUENCE … SET SCHEMA or LOGGED"));
        }
        () if reader.is_at_end() => return Err(reader.wrong()),
        () => Change::Options(reader.options(Of::Old)?),
    };
    Ok(SequenceStatement::Alter { name, if_exists, change })
}

/// Reads a change of an identity column, the only action of its ALTER TABLE.
fn identity_of_table(reader: &mut Reader<'_>) -> Result<Option<SequenceStatement>, SqlError> {
    let if_exists = reader.words("if exists");
    reader.words("only");
    let Ok(table) = reader.name() else { return Ok(None) };
    if !reader.words("alter") {
        return Ok(None);
    }
    reader.words("column");
    let Ok(column) = reader.ident() else { return Ok(None) };
    let change = reader.identity_change()?;
    Ok(change.map(|change| SequenceStatement::Identity { table, if_exists, column, change }))
}

/// Reads `GENERATED … AS IDENTITY`, the option of a column.
pub(crate) fn identity(tokens: &[Token]) -> Result<(bool, Options), SqlError> {
    let tokens: Vec<_> = tokens.iter().cloned().map(TokenWithSpan::wrap).collect();
    let mut reader = Reader { tokens: &tokens, at: 0 };
    let generated = reader.generated()?;
    if !reader.is_at_end() {
        return Err(reader.wrong());
    }
    Ok(generated)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sqlparser::dialect::PostgreSqlDialect;
    use sqlparser::tokenizer::Tokenizer;

    fn cut_text(sql: &str) -> (Option<SequenceStatement>, String) {
        let tokens = Tokenizer::new(&PostgreSqlDialect {}, sql).tokenize_with_location();
        let mut tokens = tokens.expect("tokens");
        tokens.retain(|token| !matches!(token.token, Token::Whitespace(_) | Token::EOF));
        let statement = cut(&mut tokens).expect("valid");
        let words: Vec<String> = tokens.iter().map(|token| token.token.to_string()).collect();
        (statement, words.join(" "))
    }

    #[test]
    fn options_stand_in_any_order() {
        let (statement, rest) = cut_text(
            "create sequence if not exists public.s start with 5 increment by -2 no minvalue \
             maxvalue 10 cache 1 no cycle as integer owned by t.a",
        );
        assert_eq!(rest, "create sequence s");
        let Some(SequenceStatement::Create { name, if_not_exists: true, options, .. }) = statement
        else {
            panic!("{statement:?}")
        };
        assert_eq!(name.to_string(), "public.s");
        assert_eq!(
            (options.start, options.increment, options.min, options.max, options.cache),
            (Some(5), Some(-2), Some(None), Some(Some(10)), Some(1))
        );
        assert_eq!(options.owned_by.flatten().map(|name| name.to_string()), Some("t.a".into()));
    }

    #[test]
    fn other_changes_of_columns_are_left_alone() {
        for sql in [
            "alter table t alter column a set default 4",
            "alter table t alter a set not null",
            "alter table t alter a drop default",
            "alter table t add column b int",
            "alter table only t rename to u",
        ] {
            assert_eq!(cut_text(sql).0, None, "{sql}");
        }
        for sql in [
            "alter table t alter a restart",
            "alter table t alter column a set generated always set increment by 5 restart with 3",
            "alter table only t alter a add generated by default as identity (sequence name u)",
            "alter table if exists t alter a drop identity if exists",
        ] {
            assert!(cut_text(sql).0.is_some(), "{sql}");
        }
    }
}
