//! COPY … TO STDOUT: a query, and the format in which its rows are sent.

use super::options::{Format, Options, named};
use super::{ALL_COLUMNS, binary, csv, generated, text};
use crate::bind::Objects;
use crate::datetime::Zone;
use crate::datum::Datum;
use crate::error::{SqlError, state};
use crate::names;
use crate::parse::is_word;
use crate::response::Column;
use sqlparser::ast::{self, CopySource, CopyTarget, Statement};
use sqlparser::tokenizer::{Token, TokenWithSpan, Word};

/// Rewrites what the parser does not know of COPY: `COPY t (a) TO` becomes `COPY (SELECT a FROM t)
/// TO`, and the columns `*` of FORCE_QUOTE a list. Returns true for COPY of a table.
pub(crate) fn adapt(tokens: &mut Vec<TokenWithSpan>) -> bool {
    let mut of_table = false;
    let at = tokens.iter().position(|token| is_word(token, "to") || is_word(token, "from"));
    let is_query = tokens.get(1).is_some_and(|token| token.token == Token::LParen);
    if let Some(to) = at.filter(|at| is_word(&tokens[*at], "to") && *at > 1 && !is_query) {
        let wrap = |token: Token, like: &TokenWithSpan| TokenWithSpan::new(token, like.span);
        let first = tokens[1].clone();
        let list = tokens[1..to].iter().position(|token| token.token == Token::LParen);
        let name = tokens[1..list.map_or(to, |at| at + 1)].to_vec();
        let columns = match list {
            Some(list) if tokens[to - 1].token == Token::RParen => {
                tokens[list + 2..to - 1].to_vec()
            }
            Some(_) => return false,
            None => vec![wrap(Token::Mul, &first)],
        };
        // Anything else is an error of the parser.
        let is_list = |tokens: &[TokenWithSpan], between: &Token| {
            let is_name = |token: &TokenWithSpan| matches!(token.token, Token::Word(_));
            let mut separators = tokens.iter().skip(1).step_by(2);
            tokens.len() % 2 == 1
                && tokens.iter().step_by(2).all(is_name)
                && separators.all(|token| token.token == *between)
        };
        let is_plain = list.is_none() || is_list(&columns, &Token::Comma);
        if !is_plain || !is_list(&name, &Token::Period) {
            return false;
        }
        of_table = true;
        let mut query =
            vec![wrap(Token::LParen, &first), wrap(Token::make_keyword("SELECT"), &first)];
        query.extend(columns);
        query.push(wrap(Token::make_keyword("FROM"), &first));
        query.extend(name);
        query.push(wrap(Token::RParen, &first));
        tokens.splice(1..to, query);
    }
    for at in 1..tokens.len() {
        if tokens[at].token == Token::Mul && is_word(&tokens[at - 1], "force_quote") {
            let span = tokens[at].span;
            let all = Token::Word(Word {
                value: ALL_COLUMNS.into(),
                quote_style: Some('"'),
                keyword: sqlparser::keywords::Keyword::NoKeyword,
            });
            let list = [Token::LParen, all, Token::RParen];
            tokens.splice(at..=at, list.map(|token| TokenWithSpan::new(token, span)));
            break;
        }
    }
    of_table
}

/// Replaces COPY … TO by its query, and returns the options.
pub(crate) fn cut(statement: &mut Statement, of_table: bool) -> Result<Option<Options>, SqlError> {
    let Statement::Copy { source, to: true, target, options, legacy_options, values: _ } =
        statement
    else {
        return Ok(None);
    };
    if !matches!(target, CopyTarget::Stdin | CopyTarget::Stdout) {
        return Err(SqlError::unsupported(format!("COPY TO {target}"))
            .hint("Take the rows: COPY … TO STDOUT, or \\copy of psql."));
    }
    let read = Options { of_table, ..Options::read(options, legacy_options, true)? };
    let CopySource::Query(query) = source else {
        return Err(SqlError::unsupported("COPY TO without a query"));
    };
    *statement = Statement::Query(query.clone());
    Ok(Some(read))
}

/// Returns the query of COPY … TO of a table that has generated columns, without these; `None` if
/// the query stays as it is. Fails with 42P10 if it names one.
pub(crate) fn without_generated(
    options: &Options,
    query: &ast::Query,
    objects: &Objects,
) -> Result<Option<ast::Query>, SqlError> {
    let ([table], []) = (&*objects.tables, &*objects.views) else { return Ok(None) };
    if !options.of_table || table.generated.is_empty() {
        return Ok(None);
    }
    let is_generated =
        |name: &str| table.column(name).is_some_and(|at| table.columns[at].generated.is_some());
    let mut shorter = query.clone();
    let ast::SetExpr::Select(select) = &mut *shorter.body else { return Ok(None) };
    for item in &select.projection {
        if let ast::SelectItem::UnnamedExpr(ast::Expr::Identifier(ident)) = item
            && is_generated(&names::fold(ident))
        {
            return Err(generated(&names::fold(ident)));
        }
    }
    if !matches!(*select.projection, [ast::SelectItem::Wildcard(_)]) {
        return Ok(None);
    }
    let stored = table.present().filter(|(_, column)| column.generated.is_none());
    let item = |name: &str| {
        ast::SelectItem::UnnamedExpr(ast::Expr::Identifier(ast::Ident::with_quote('"', name)))
    };
    select.projection = stored.map(|(_, column)| item(&column.name)).collect();
    Ok(Some(shorter))
}

/// Writes the rows of a result in a format.
pub(crate) struct Writer<'a> {
    options: &'a Options,
    columns: &'a [Column],
    quoted: Vec<bool>,
    /// The session's zone.
    zone: &'a Zone,
}

impl<'a> Writer<'a> {
    /// Fails if an option names a column that is not there.
    pub(crate) fn new(
        options: &'a Options,
        columns: &'a [Column],
        zone: &'a Zone,
    ) -> Result<Self, SqlError> {
        let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
        let missing = |name: &String| name != ALL_COLUMNS && !names.contains(&name.as_str());
        if let Some(name) = options.force_quote.iter().find(|name| missing(name)) {
            let message = format!("column \"{name}\" does not exist");
            return Err(SqlError::new(state::UNDEFINED_COLUMN, message));
        }
        let quoted = named(&options.force_quote, &names, "FORCE_QUOTE")?;
        Ok(Writer { options, columns, quoted, zone })
    }

    /// Returns the records of rows, with the beginning of the data before the first and its end
    /// behind the last.
    pub(crate) fn records(&self, rows: &[Vec<Datum>], first: bool, last: bool) -> Vec<Vec<u8>> {
        let mut records = Vec::with_capacity(rows.len() + 2);
        if first && self.options.format == Format::Binary {
            let mut header = Vec::new();
            binary::write_header(&mut header);
            records.push(header);
        } else if first && self.options.header {
            let names = self.columns.iter().map(|column| Some(column.name.as_str()));
            let mut header = Vec::new();
            match self.options.format {
                // Names are quoted where they must be, whatever FORCE_QUOTE says.
                Format::Csv => {
                    csv::write(self.options, &vec![false; self.columns.len()], names, &mut header)
                }
                _ => text::write(self.options, names, &mut header),
            }
            records.push(header);
        }
        records.extend(rows.iter().map(|row| self.record(row)));
        if last && self.options.format == Format::Binary {
            let mut end = Vec::new();
            binary::write_end(&mut end);
            records.push(end);
        }
        if first && self.options.format == Format::Binary && records.len() > 1 {
            // Clients expect the header in one message with what follows it.
            let follows = records.remove(1);
            records[0].extend(follows);
        }
        records
    }

    fn record(&self, row: &[Datum]) -> Vec<u8> {
        let mut out = Vec::new();
        let values = row.iter().zip(self.columns);
        if self.options.format == Format::Binary {
            binary::write(values.map(|(datum, column)| (datum, column.ty)), &mut out);
            return out;
        }
        let texts: Vec<Option<String>> =
            values.map(|(datum, column)| datum.to_text_in(column.ty, self.zone)).collect();
        let fields = texts.iter().map(Option::as_deref);
        match self.options.format {
            Format::Csv => csv::write(self.options, &self.quoted, fields, &mut out),
            _ => text::write(self.options, fields, &mut out),
        }
        out
    }
}
