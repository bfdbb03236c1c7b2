//! Parses paths.
//!
//! ```text
//!   path       [strict | lax] either
//!   either     and { || and }             all of a chain are conditions
//!   and        condition { && condition }
//!   condition  ! delimited | exists(sum) | (either) [is unknown] | sum [comparison]
//!   sum        product { + - product }    all of a chain are values
//!   product    unary { * / % unary }
//!   unary      + - unary | primary { accessor }
//! ```
//!
//! Brackets hold a value or a condition, which is known only behind them: each function returns
//! which of both it has read ([`Form`]).

use super::token::{Located, Token, Tokens, wrong};
use super::{Arithmetic, Comparison, Id, Kind, LONGEST_ESCAPE, Method, Regex, Steps};
use crate::error::{SqlError, state};
use crate::function::PathPattern;
use crate::json::DEEPEST;
use crate::limits;
use crate::numeric::Numeric;
use crate::stack;

/// The kind of what is read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// It has items.
    Value,
    /// It is true, false or unknown.
    Condition,
    /// A condition in brackets.
    Bracketed,
}

/// The part that is read, and its kind.
type Read = Result<(Id, Form), SqlError>;

struct Parser<'t> {
    text: &'t str,
    tokens: Tokens<'t>,
    next: Located,
    steps: Steps,
    /// The levels of brackets and signs around the place.
    depth: usize,
    /// The filters around the place.
    filters: usize,
    /// The subscripts around the place.
    subscripts: usize,
}

/// Parses a text.
pub(super) fn parse(text: &str) -> Result<Steps, SqlError> {
    let mut tokens = Tokens::new(text);
    let next = tokens.token()?;
    if next.token == Token::End {
        let message = format!("invalid input syntax for type jsonpath: \"{text}\"");
        return Err(SqlError::new(state::BAD_TEXT, message));
    }
    let steps = Steps { text_bytes: LONGEST_ESCAPE * text.len(), ..Steps::default() };
    let mut parser = Parser { text, tokens, next, steps, depth: 0, filters: 0, subscripts: 0 };
    if parser.takes_keyword("strict")? {
        parser.steps.is_strict = true;
    } else {
        parser.takes_keyword("lax")?;
    }
    parser.steps.root = parser.either()?.0;
    match parser.next.token {
        Token::End => Ok(parser.steps),
        _ => Err(parser.wrong()),
    }
}

impl Parser<'_> {
    /// Returns the error of the next token.
    fn wrong(&self) -> SqlError {
        wrong("syntax error", self.text, self.next.near.clone())
    }

    /// Takes the next token.
    fn take(&mut self) -> Result<Token, SqlError> {
        let next = self.tokens.token()?;
        Ok(std::mem::replace(&mut self.next, next).token)
    }

    fn is(&self, sign: &str) -> bool {
        matches!(self.next.token, Token::Sign(next) if next == sign)
    }

    /// Takes a sign, if it is the next token.
    fn takes(&mut self, sign: &str) -> Result<bool, SqlError> {
        let takes = self.is(sign);
        if takes {
            self.take()?;
        }
        Ok(takes)
    }

    /// Takes a sign. Fails if it is not the next token.
    fn expect(&mut self, sign: &str) -> Result<(), SqlError> {
        if self.takes(sign)? { Ok(()) } else { Err(self.wrong()) }
    }

    /// True if the next token is a keyword: in any case, but for the values.
    fn is_keyword(&self, keyword: &str) -> bool {
        match &self.next.token {
            Token::Name(name) if matches!(keyword, "null" | "true" | "false") => name == keyword,
            Token::Name(name) => name.eq_ignore_ascii_case(keyword),
            _ => false,
        }
    }

    /// Takes a keyword, if it is the next token.
    fn takes_keyword(&mut self, keyword: &str) -> Result<bool, SqlError> {
        let takes = self.is_keyword(keyword);
        if takes {
            self.take()?;
        }
        Ok(takes)
    }

    fn expect_keyword(&mut self, keyword: &str) -> Result<(), SqlError> {
        if self.takes_keyword(keyword)? { Ok(()) } else { Err(self.wrong()) }
    }

    /// Fails at the next token if what is before it is no condition.
    fn condition_of(&self, (id, form): (Id, Form)) -> Result<Id, SqlError> {
        if form == Form::Value { Err(self.wrong()) } else { Ok(id) }
    }

    /// Fails at the next token if what is before it is no value.
    fn value_of(&self, (id, form): (Id, Form)) -> Result<Id, SqlError> {
        if form == Form::Value { Ok(id) } else { Err(self.wrong()) }
    }

    /// Reads what is a level deeper.
    fn level<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, SqlError>,
    ) -> Result<T, SqlError> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(limits::too_deep("Levels of a jsonpath inside each other", DEEPEST));
        }
        let read = stack::level(|| read(self));
        self.depth -= 1;
        read
    }

    fn either(&mut self) -> Read {
        let mut left = self.both()?;
        while self.is("||") {
            let before = self.condition_of(left)?;
            self.take()?;
            let right = self.both()?;
            let right = self.condition_of(right)?;
            left = (self.steps.add(Kind::Or(before, right))?, Form::Condition);
        }
        Ok(left)
    }

    fn both(&mut self) -> Read {
        let mut left = self.condition()?;
        while self.is("&&") {
            let before = self.condition_of(left)?;
            self.take()?;
            let right = self.condition()?;
            let right = self.condition_of(right)?;
            left = (self.steps.add(Kind::And(before, right))?, Form::Condition);
        }
        Ok(left)
    }

    fn condition(&mut self) -> Read {
        if self.takes("!")? {
            let of = match self.is("(") {
                true => self.brackets()?,
                false if self.is_keyword("exists") => (self.exists()?, Form::Condition),
                false => return Err(self.wrong()),
            };
            let of = self.condition_of(of)?;
            return Ok((self.steps.add(Kind::Not(of))?, Form::Condition));
        }
        if self.is_keyword("exists") {
            return Ok((self.exists()?, Form::Condition));
        }
        let left = self.sum()?;
        if left.1 == Form::Bracketed && self.takes_keyword("is")? {
            self.expect_keyword("unknown")?;
            return Ok((self.steps.add(Kind::IsUnknown(left.0))?, Form::Condition));
        }
        self.comparison(left)
    }

    /// Reads what compares a value, if it follows.
    fn comparison(&mut self, left: (Id, Form)) -> Read {
        let comparison = match self.next.token {
            Token::Sign("==") => Some(Comparison::Equal),
            Token::Sign("!=") => Some(Comparison::NotEqual),
            Token::Sign("<") => Some(Comparison::Less),
            Token::Sign("<=") => Some(Comparison::LessOrEqual),
            Token::Sign(">") => Some(Comparison::Greater),
            Token::Sign(">=") => Some(Comparison::GreaterOrEqual),
            _ => None,
        };
        let kind = if let Some(comparison) = comparison {
            let left = self.value_of(left)?;
            self.take()?;
            let right = self.sum()?;
            Kind::Compare(comparison, left, self.value_of(right)?)
        } else if self.is_keyword("starts") {
            let left = self.value_of(left)?;
            self.take()?;
            self.expect_keyword("with")?;
            let start = match &self.next.token {
                Token::String(text) => Kind::String(text.as_str().into()),
                Token::Variable(name) => Kind::Variable(name.as_str().into()),
                _ => return Err(self.wrong()),
            };
            self.take()?;
            Kind::StartsWith(left, self.steps.add(start)?)
        } else if self.is_keyword("like_regex") {
            let left = self.value_of(left)?;
            self.take()?;
            Kind::LikeRegex(left, Box::new(self.regex()?))
        } else {
            return Ok(left);
        };
        Ok((self.steps.add(kind)?, Form::Condition))
    }

    /// Takes a text in quotes.
    fn string(&mut self) -> Result<String, SqlError> {
        match &self.next.token {
            Token::String(_) => match self.take()? {
                Token::String(text) => Ok(text),
                _ => Err(self.wrong()),
            },
            _ => Err(self.wrong()),
        }
    }

    /// Reads a pattern and its flags.
    fn regex(&mut self) -> Result<Regex, SqlError> {
        let pattern = self.string()?;
        let written = if self.takes_keyword("flag")? { self.string()? } else { String::new() };
        const KNOWN: &str = "ismxq";
        if let Some(unknown) = written.chars().find(|flag| !KNOWN.contains(*flag)) {
            let message = "invalid input syntax for type jsonpath";
            let detail =
                format!("Unrecognized flag character \"{unknown}\" in LIKE_REGEX predicate.");
            return Err(SqlError::new(state::SYNTAX, message).detail(detail));
        }
        let flags: String = KNOWN.chars().filter(|flag| written.contains(*flag)).collect();
        let compiled = PathPattern::new(&pattern, &flags)?;
        Ok(Regex { pattern: pattern.into(), flags: flags.into(), compiled })
    }

    fn exists(&mut self) -> Result<Id, SqlError> {
        self.take()?;
        self.expect("(")?;
        let of = self.level(Self::sum)?;
        let of = self.value_of(of)?;
        self.expect(")")?;
        self.steps.add(Kind::Exists(of))
    }

    /// Reads a value or a condition in brackets.
    fn brackets(&mut self) -> Read {
        self.expect("(")?;
        let (id, form) = self.level(Self::either)?;
        self.expect(")")?;
        Ok((id, if form == Form::Value { form } else { Form::Bracketed }))
    }

    fn sum(&mut self) -> Read {
        let mut left = self.product()?;
        loop {
            let arithmetic = match self.next.token {
                Token::Sign("+") => Arithmetic::Plus,
                Token::Sign("-") => Arithmetic::Minus,
                _ => return Ok(left),
            };
            left = self.arithmetic(left, arithmetic, Self::product)?;
        }
    }

    fn product(&mut self) -> Read {
        let mut left = self.unary()?;
        loop {
            let arithmetic = match self.next.token {
                Token::Sign("*") => Arithmetic::Times,
                Token::Sign("/") => Arithmetic::Over,
                Token::Sign("%") => Arithmetic::Rest,
                _ => return Ok(left),
            };
            left = self.arithmetic(left, arithmetic, Self::unary)?;
        }
    }

    fn arithmetic(
        &mut self,
        left: (Id, Form),
        arithmetic: Arithmetic,
        operand: fn(&mut Self) -> Read,
    ) -> Read {
        let left = self.value_of(left)?;
        self.take()?;
        let right = operand(self)?;
        let right = self.value_of(right)?;
        Ok((self.steps.add(Kind::Arithmetic(arithmetic, left, right))?, Form::Value))
    }

    fn unary(&mut self) -> Read {
        let is_minus = self.is("-");
        if !is_minus && !self.is("+") {
            return self.accessed();
        }
        self.take()?;
        let of = self.level(Self::unary)?;
        let of = self.value_of(of)?;
        // A number takes its sign.
        let step = &mut self.steps.list[of];
        if let (Kind::Number(n), None) = (&mut step.kind, step.next) {
            if is_minus {
                *n = n.negated();
            }
            return Ok((of, Form::Value));
        }
        Ok((self.steps.add(Kind::Sign(is_minus, of))?, Form::Value))
    }

    /// Reads a value and its accessors.
    fn accessed(&mut self) -> Read {
        let (first, form) =
            if self.is("(") { self.brackets()? } else { (self.primary()?, Form::Value) };
        if ![".", "[", "?"].iter().any(|sign| self.is(sign)) {
            return Ok((first, form));
        }
        let mut last = first;
        while let Some(next) = self.steps.next(last) {
            last = next;
        }
        while let Some(kind) = self.accessor()? {
            let next = self.steps.add(kind)?;
            self.steps.list[last].next = Some(next);
            last = next;
        }
        Ok((first, Form::Value))
    }

    fn primary(&mut self) -> Result<Id, SqlError> {
        let kind = match &self.next.token {
            Token::String(text) => Kind::String(text.as_str().into()),
            Token::Variable(name) => Kind::Variable(name.as_str().into()),
            Token::Whole(digits) | Token::Number(digits) => {
                Kind::Number(Numeric::from_text(digits)?)
            }
            Token::Sign("$") => Kind::Root,
            Token::Sign("@") if self.filters == 0 => {
                return Err(SqlError::new(state::SYNTAX, "@ is not allowed in root expressions"));
            }
            Token::Sign("@") => Kind::Current,
            Token::Name(_) if self.is_keyword("null") => Kind::Null,
            Token::Name(_) if self.is_keyword("true") => Kind::Bool(true),
            Token::Name(_) if self.is_keyword("false") => Kind::Bool(false),
            Token::Name(_) if self.is_keyword("last") => {
                if self.subscripts == 0 {
                    let message = "LAST is allowed only in array subscripts";
                    return Err(SqlError::new(state::SYNTAX, message));
                }
                Kind::Last
            }
            _ => return Err(self.wrong()),
        };
        self.take()?;
        self.steps.add(kind)
    }

    /// Reads an accessor, if it follows.
    fn accessor(&mut self) -> Result<Option<Kind>, SqlError> {
        Ok(Some(match self.next.token {
            Token::Sign("?") => {
                self.take()?;
                self.expect("(")?;
                self.filters += 1;
                let condition = self.level(Self::either)?;
                self.filters -= 1;
                let condition = self.condition_of(condition)?;
                self.expect(")")?;
                Kind::Filter(condition)
            }
            Token::Sign("[") => {
                self.take()?;
                self.subscripts()?
            }
            Token::Sign(".") => {
                self.take()?;
                self.member()?
            }
            _ => return Ok(None),
        }))
    }

    /// Reads subscripts, behind their bracket.
    fn subscripts(&mut self) -> Result<Kind, SqlError> {
        if self.takes("*")? {
            self.expect("]")?;
            return Ok(Kind::AnyItem);
        }
        self.subscripts += 1;
        let mut ranges = Vec::new();
        loop {
            let from = self.level(Self::sum)?;
            let from = self.value_of(from)?;
            let to = match self.takes_keyword("to")? {
                true => {
                    let to = self.level(Self::sum)?;
                    Some(self.value_of(to)?)
                }
                false => None,
            };
            ranges.push((from, to));
            if !self.takes(",")? {
                break;
            }
        }
        self.subscripts -= 1;
        self.expect("]")?;
        Ok(Kind::Items(ranges))
    }

    /// Reads what is behind a point.
    fn member(&mut self) -> Result<Kind, SqlError> {
        if self.takes("*")? {
            return Ok(Kind::AnyKey);
        }
        if self.takes("**")? {
            return self.levels();
        }
        match &self.next.token {
            Token::String(_) | Token::Name(_) => {}
            _ => return Err(self.wrong()),
        }
        let (name, is_name) = match self.take()? {
            Token::Name(name) => (name, true),
            Token::String(name) => (name, false),
            _ => return Err(self.wrong()),
        };
        if !is_name || !self.is("(") {
            return Ok(Kind::Key(name.into()));
        }
        let name = name.to_ascii_lowercase();
        let kind = match Method::named(&name) {
            Some(method) => {
                self.take()?;
                Kind::Method(method)
            }
            None if name == "datetime" => {
                self.take()?;
                let has_template = matches!(self.next.token, Token::String(_));
                Kind::Datetime(if has_template { Some(self.string()?.into()) } else { None })
            }
            None => return Err(self.wrong()),
        };
        self.expect(")")?;
        Ok(kind)
    }

    /// Reads the levels behind `**`.
    fn levels(&mut self) -> Result<Kind, SqlError> {
        if !self.takes("{")? {
            return Ok(Kind::AnyLevel(Some(0), None));
        }
        let from = self.one_level()?;
        let to = if self.takes_keyword("to")? { self.one_level()? } else { from };
        self.expect("}")?;
        Ok(Kind::AnyLevel(from, to))
    }

    /// Reads a number of levels; `None` for `last`.
    fn one_level(&mut self) -> Result<Option<u32>, SqlError> {
        if self.takes_keyword("last")? {
            return Ok(None);
        }
        let Token::Whole(digits) = &self.next.token else { return Err(self.wrong()) };
        let level: Result<i32, _> = digits.parse();
        let level = level.map_err(|_| {
            let message = format!("value \"{digits}\" is out of range for type integer");
            SqlError::new(state::OUT_OF_RANGE, message)
        })?;
        self.take()?;
        Ok(Some(level as u32))
    }
}
