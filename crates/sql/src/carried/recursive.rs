//! SEARCH and CYCLE of WITH RECURSIVE: a name behind the query carries them.

use super::{SEPARATOR, carrier};
use crate::names;
use crate::parse::is_word;
use sqlparser::ast;
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// The clauses SEARCH and CYCLE.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Added {
    pub(crate) search: Option<Search>,
    pub(crate) cycle: Option<Cycle>,
    /// The place of the first clause.
    pub(crate) place: Option<usize>,
}

/// `SEARCH {DEPTH | BREADTH} FIRST BY … SET …`
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Search {
    pub(crate) is_breadth: bool,
    pub(crate) by: Vec<String>,
    pub(crate) set: String,
}

/// `CYCLE … SET … [TO … DEFAULT …] USING …`
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cycle {
    pub(crate) columns: Vec<String>,
    pub(crate) mark: String,
    /// The texts of the constants behind TO and DEFAULT.
    pub(crate) values: Option<(String, String)>,
    pub(crate) path: String,
}

/// Reads tokens, and notes their texts.
struct Reader<'t> {
    tokens: &'t [TokenWithSpan],
    at: usize,
}

impl<'t> Reader<'t> {
    fn words(&mut self, words: &[&str]) -> Option<()> {
        let rest = self.tokens.get(self.at..)?;
        let are_there = rest.len() >= words.len()
            && words.iter().zip(rest).all(|(word, token)| is_word(token, word));
        are_there.then(|| self.at += words.len())
    }

    fn name(&mut self) -> Option<String> {
        let Token::Word(word) = &self.tokens.get(self.at)?.token else { return None };
        self.at += 1;
        Some(names::fold(&ast::Ident {
            value: word.value.clone(),
            quote_style: word.quote_style,
            span: sqlparser::tokenizer::Span::empty(),
        }))
    }

    fn names(&mut self) -> Option<Vec<String>> {
        let mut names = vec![self.name()?];
        while self.tokens.get(self.at)?.token == Token::Comma {
            self.at += 1;
            names.push(self.name()?);
        }
        Some(names)
    }

    fn string_at(&self, at: usize) -> Option<&'t str> {
        match &self.tokens.get(at)?.token {
            Token::SingleQuotedString(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the text of a constant; a type may stand before a string.
    fn constant(&mut self) -> Option<String> {
        let token = self.tokens.get(self.at)?;
        let quoted = |text: &str| format!("'{}'", text.replace('\'', "''"));
        let text = match &token.token {
            Token::SingleQuotedString(text) => quoted(text),
            Token::Number(..) => token.token.to_string(),
            Token::Word(ty) if let Some(text) = self.string_at(self.at + 1) => {
                self.at += 1;
                format!("{ty} {}", quoted(text))
            }
            _ if ["true", "false", "null"].iter().any(|word| is_word(token, word)) => {
                token.token.to_string()
            }
            _ => return None,
        };
        self.at += 1;
        Some(text)
    }

    fn search(&mut self) -> Option<Search> {
        let start = self.at;
        let is_breadth = match self.words(&["search", "depth", "first", "by"]) {
            Some(()) => false,
            None => self.words(&["search", "breadth", "first", "by"]).map(|()| true)?,
        };
        let read = |reader: &mut Self| {
            let by = reader.names()?;
            reader.words(&["set"])?;
            Some(Search { is_breadth, by, set: reader.name()? })
        };
        let found = read(self);
        if found.is_none() {
            self.at = start;
        }
        found
    }

    fn cycle(&mut self) -> Option<Cycle> {
        let start = self.at;
        let read = |reader: &mut Self| {
            reader.words(&["cycle"])?;
            let columns = reader.names()?;
            reader.words(&["set"])?;
            let mark = reader.name()?;
            let values = match reader.words(&["to"]) {
                Some(()) => {
                    let value = reader.constant()?;
                    reader.words(&["default"])?;
                    Some((value, reader.constant()?))
                }
                None => None,
            };
            reader.words(&["using"])?;
            Some(Cycle { columns, mark, values, path: reader.name()? })
        };
        let found = read(self);
        if found.is_none() {
            self.at = start;
        }
        found
    }
}

/// Replaces each of the clauses by the name that carries it: `FROM name`, which the dialect lets
/// the parser read behind a query of WITH.
pub(super) fn cut(tokens: &mut Vec<TokenWithSpan>) {
    if !tokens.iter().any(|token| is_word(token, "recursive")) {
        return;
    }
    let mut at = 1;
    while at < tokens.len() {
        if tokens[at - 1].token == Token::RParen {
            let mut reader = Reader { tokens, at };
            let (search, cycle) = (reader.search(), reader.cycle());
            let end = reader.at;
            if search.is_some() || cycle.is_some() {
                let span = tokens[at].span;
                let name = carrier(written(search, cycle), span);
                let from = TokenWithSpan::new(Token::make_keyword("FROM"), span);
                drop(tokens.splice(at..end, [from, name]));
            }
        }
        at += 1;
    }
}

/// Writes the clauses as one name. Each list ends with an empty part.
fn written(search: Option<Search>, cycle: Option<Cycle>) -> String {
    let mut parts = vec![String::new()];
    if let Some(Search { is_breadth, by, set }) = search {
        parts.push(if is_breadth { "breadth" } else { "depth" }.to_owned());
        parts.extend(by.into_iter().chain([String::new(), set]));
    }
    if let Some(Cycle { columns, mark, values, path }) = cycle {
        parts.push("cycle".to_owned());
        parts.extend(columns.into_iter().chain([String::new(), mark, path]));
        parts.extend(values.into_iter().flat_map(|(value, other)| [value, other]));
    }
    parts.join(&SEPARATOR.to_string())
}

/// Returns the clauses that a name carries.
pub(crate) fn added(ident: &ast::Ident) -> Option<Added> {
    let mut parts = ident.value.strip_prefix(SEPARATOR)?.split(SEPARATOR).map(str::to_owned);
    let mut added = Added { place: names::position(ident), ..Added::default() };
    while let Some(clause) = parts.next() {
        let list: Vec<String> = parts.by_ref().take_while(|part| !part.is_empty()).collect();
        if clause == "cycle" {
            let (mark, path) = (parts.next()?, parts.next()?);
            let values = parts.next().zip(parts.next());
            added.cycle = Some(Cycle { columns: list, mark, values, path });
        } else {
            let (is_breadth, set) = (clause == "breadth", parts.next()?);
            added.search = Some(Search { is_breadth, by: list, set });
        }
    }
    Some(added)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_carries_both_clauses() {
        let search =
            Search { is_breadth: true, by: vec!["a".into(), "B".into()], set: "seq".into() };
        let cycle = Cycle {
            columns: vec!["a".into()],
            mark: "m".into(),
            values: Some(("'Y'".into(), "'N'".into())),
            path: "p".into(),
        };
        for (search, cycle) in [
            (Some(search.clone()), None),
            (None, Some(Cycle { values: None, ..cycle.clone() })),
            (Some(search), Some(cycle)),
        ] {
            let name = ast::Ident::new(written(search.clone(), cycle.clone()));
            assert_eq!(added(&name), Some(Added { search, cycle, place: None }));
        }
        assert_eq!(added(&ast::Ident::new("a")), None);
    }
}
