//! Reads the tokens of statements of which the parser knows nothing, or a part only.

use crate::error::{SqlError, state};
use crate::names;
use crate::parse::is_word;
use crate::types::Type;
use sqlparser::ast::{Ident, ObjectName};
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// Reads tokens one after the other.
pub(crate) struct Reader<'t> {
    pub(crate) tokens: &'t [TokenWithSpan],
    pub(crate) at: usize,
}

impl<'t> Reader<'t> {
    pub(crate) fn of(tokens: &'t [TokenWithSpan]) -> Reader<'t> {
        Reader { tokens, at: 0 }
    }

    pub(crate) fn peek(&self) -> Option<&'t TokenWithSpan> {
        self.tokens.get(self.at)
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.at >= self.tokens.len()
    }

    /// Skips words, if they are next.
    pub(crate) fn words(&mut self, words: &str) -> bool {
        let mut at = self.at;
        for word in words.split(' ') {
            if !self.tokens.get(at).is_some_and(|token| is_word(token, word)) {
                return false;
            }
            at += 1;
        }
        self.at = at;
        true
    }

    pub(crate) fn skip(&mut self, token: &Token) -> bool {
        let is_next = self.peek().is_some_and(|next| next.token == *token);
        self.at += usize::from(is_next);
        is_next
    }

    pub(crate) fn wrong(&self) -> SqlError {
        match self.peek() {
            Some(token) => {
                let message = format!("syntax error at or near \"{}\"", token.token);
                SqlError::new(state::SYNTAX, message).at(names::place(token.span.start))
            }
            None => SqlError::new(state::SYNTAX, "syntax error at end of input"),
        }
    }

    pub(crate) fn name(&mut self) -> Result<ObjectName, SqlError> {
        if !matches!(self.peek().map(|it| &it.token), Some(Token::Word(_))) {
            return Err(self.wrong());
        }
        let dialect = PostgreSqlDialect {};
        let rest = self.tokens[self.at..].to_vec();
        let mut parser = Parser::new(&dialect).with_tokens_with_locations(rest);
        let name = parser.parse_object_name(false).map_err(|_| self.wrong())?;
        // One token for each part, and the points between them.
        self.at += name.0.len() * 2 - 1;
        Ok(name)
    }

    pub(crate) fn ident(&mut self) -> Result<Ident, SqlError> {
        let Some(TokenWithSpan { token: Token::Word(word), span }) = self.peek() else {
            return Err(self.wrong());
        };
        self.at += 1;
        Ok(word.clone().into_ident(*span))
    }

    pub(crate) fn number(&mut self) -> Result<i64, SqlError> {
        let sign = if self.skip(&Token::Minus) { "-" } else { "" };
        if sign.is_empty() {
            self.skip(&Token::Plus);
        }
        let Some(TokenWithSpan { token: Token::Number(digits, _), .. }) = self.peek() else {
            return Err(self.wrong());
        };
        let is_whole = digits.bytes().all(|byte| byte.is_ascii_digit());
        let number = format!("{sign}{digits}").parse().map_err(|_| match is_whole {
            true => {
                let message = format!("value \"{sign}{digits}\" is out of range for type bigint");
                SqlError::new(state::OUT_OF_RANGE, message)
            }
            false => self.wrong(),
        })?;
        self.at += 1;
        Ok(number)
    }

    /// Reads the type behind AS.
    pub(crate) fn data_type(&mut self) -> Result<Type, SqlError> {
        let dialect = PostgreSqlDialect {};
        let rest = self.tokens[self.at..].to_vec();
        let mut parser = Parser::new(&dialect).with_tokens_with_locations(rest);
        let ty = parser.parse_data_type().map_err(|_| self.wrong())?;
        let ty = names::data_type(&ty, &[])?;
        self.at += parser.index();
        Ok(ty)
    }
}
