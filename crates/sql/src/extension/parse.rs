//! The text of CREATE, ALTER and DROP EXTENSION.

use crate::error::{SqlError, state};
use crate::names;
use crate::reader::Reader;
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// A statement about extensions.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ExtensionStatement {
    Create {
        name: String,
        if_not_exists: bool,
        schema: Option<String>,
        version: Option<String>,
        cascade: bool,
    },
    /// ALTER EXTENSION … UPDATE, perhaps to a version.
    Update {
        name: String,
        version: Option<String>,
    },
    SetSchema {
        name: String,
        schema: String,
    },
    Drop {
        names: Vec<String>,
        if_exists: bool,
        cascade: bool,
    },
}

/// Cuts a statement about extensions. The rest is a stand-in that the parser knows.
pub(crate) fn cut(tokens: &mut Vec<TokenWithSpan>) -> Result<Option<ExtensionStatement>, SqlError> {
    let mut reader = Reader::of(tokens);
    let statement = match () {
        () if reader.words("create extension") => create(&mut reader)?,
        () if reader.words("alter extension") => alter(&mut reader)?,
        () if reader.words("drop extension") => drop_extensions(&mut reader)?,
        () => return Ok(None),
    };
    if !reader.is_at_end() {
        return Err(reader.wrong());
    }
    let span = tokens[0].span;
    let words = ["create", "sequence", "s"].map(Token::make_keyword);
    tokens.clear();
    tokens.extend(words.map(|token| TokenWithSpan::new(token, span)));
    Ok(Some(statement))
}

fn name(reader: &mut Reader<'_>) -> Result<String, SqlError> {
    Ok(names::fold(&reader.ident()?))
}

/// Reads a version: a name or a literal.
fn version(reader: &mut Reader<'_>) -> Result<String, SqlError> {
    if let Some(TokenWithSpan { token: Token::SingleQuotedString(text), .. }) = reader.peek() {
        reader.at += 1;
        return Ok(text.clone());
    }
    name(reader)
}

fn create(reader: &mut Reader<'_>) -> Result<ExtensionStatement, SqlError> {
    let if_not_exists = reader.words("if not exists");
    let name = name(reader)?;
    reader.words("with");
    let (mut schema, mut release, mut cascade) = (None, None, false);
    while let Some(token) = reader.peek() {
        let place = names::place(token.span.start);
        let is_new = match () {
            () if reader.words("schema") => schema.replace(names::fold(&reader.ident()?)).is_none(),
            () if reader.words("version") => release.replace(version(reader)?).is_none(),
            () if reader.words("cascade") => !std::mem::replace(&mut cascade, true),
            () => return Err(reader.wrong()),
        };
        if !is_new {
            return Err(SqlError::new(state::SYNTAX, "conflicting or redundant options").at(place));
        }
    }
    Ok(ExtensionStatement::Create { name, if_not_exists, schema, version: release, cascade })
}

fn alter(reader: &mut Reader<'_>) -> Result<ExtensionStatement, SqlError> {
    let name = name(reader)?;
    match () {
        () if reader.words("update to") => {
            Ok(ExtensionStatement::Update { name, version: Some(version(reader)?) })
        }
        () if reader.words("update") => Ok(ExtensionStatement::Update { name, version: None }),
        () if reader.words("set schema") => {
            Ok(ExtensionStatement::SetSchema { name, schema: names::fold(&reader.ident()?) })
        }
        () if reader.words("add") => Err(SqlError::unsupported("ALTER EXTENSION ADD")),
        () if reader.words("drop") => Err(SqlError::unsupported("ALTER EXTENSION DROP")),
        () => Err(reader.wrong()),
    }
}

fn drop_extensions(reader: &mut Reader<'_>) -> Result<ExtensionStatement, SqlError> {
    let if_exists = reader.words("if exists");
    let mut names = vec![name(reader)?];
    while reader.skip(&Token::Comma) {
        names.push(name(reader)?);
    }
    let cascade = reader.words("cascade");
    if !cascade {
        reader.words("restrict");
    }
    Ok(ExtensionStatement::Drop { names, if_exists, cascade })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;

    fn parsed(text: &str) -> Result<Option<ExtensionStatement>, SqlError> {
        let mut all = parse::statements(text)?;
        Ok(all.pop().and_then(|one| one.extension.clone()))
    }

    #[test]
    fn clauses_may_stand_in_any_order() {
        let expected = ExtensionStatement::Create {
            name: "uuid-ossp".into(),
            if_not_exists: true,
            schema: Some("s".into()),
            version: Some("1.1".into()),
            cascade: true,
        };
        for text in [
            "create extension if not exists \"uuid-ossp\" with schema s version '1.1' cascade",
            "CREATE EXTENSION IF NOT EXISTS \"uuid-ossp\" CASCADE VERSION \"1.1\" SCHEMA S",
        ] {
            assert_eq!(parsed(text).expect(text), Some(expected.clone()), "{text}");
        }
        for (text, sqlstate) in [
            ("create extension x schema a schema b", "42601"),
            ("create extension x cascade cascade", "42601"),
            ("create extension x from unpackaged", "42601"),
            ("create extension", "42601"),
            ("drop extension x cascade restrict", "42601"),
            ("alter extension x add table t", "0A000"),
            ("alter extension x drop table t", "0A000"),
        ] {
            assert_eq!(parsed(text).expect_err(text).sqlstate, sqlstate, "{text}");
        }
    }
}
