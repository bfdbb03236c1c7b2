//! `to_char` of numbers.
//!
//! A template's digits say where a number's digits stand. Where the number has fewer, there are
//! blanks, or zeros from the first `0` of the template on; where it has more before the point, all
//! digits become `#`.

use super::ordinal;
use crate::datum::Datum;
use crate::error::{SqlError, state};
use crate::interrupt;
use crate::number;

/// A part of a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Node {
    Nine,
    Zero,
    Point,
    Comma,
    /// `L`: the symbol of the currency, of which there is none.
    Currency,
    Sign,
    /// `MI`
    Minus,
    /// `PL`
    Plus,
    /// `SG`
    PlusOrMinus,
    /// `PR`
    Brackets,
    /// `TH` or `th`; true if it is upper case.
    Ordinal(bool),
    Text(char),
}

/// The place of the sign of `S`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Anchor {
    Before,
    After,
}

#[derive(Debug, Default)]
struct Template {
    nodes: Vec<Node>,
    /// The digits before and behind the point.
    before: usize,
    after: usize,
    has_point: bool,
    /// The digits before the first `0`, and those up to the last.
    zero_start: Option<usize>,
    zero_end: usize,
    /// `FM`
    bare: bool,
    sign: Option<Anchor>,
    minus: bool,
    plus: bool,
    brackets: bool,
}

fn syntax(message: &str) -> SqlError {
    SqlError::new(state::SYNTAX, message)
}

impl Template {
    fn of(text: &str) -> Result<Template, SqlError> {
        let mut made = Template::default();
        // The digits before the `S` that stands before the point.
        let mut before_sign = None;
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            interrupt::step();
            let starts = |name: &str| {
                rest.get(..name.len())
                    .is_some_and(|start| start == name || start == name.to_ascii_lowercase())
            };
            for name in ["EEEE", "RN", "SP", "B", "C", "V"] {
                if starts(name) {
                    return Err(SqlError::unsupported(format!("the pattern {name} of to_char")));
                }
            }
            let two = [
                ("MI", Node::Minus),
                ("PL", Node::Plus),
                ("PR", Node::Brackets),
                ("SG", Node::PlusOrMinus),
                ("TH", Node::Ordinal(rest.starts_with('T'))),
            ];
            if starts("FM") {
                (made.bare, rest) = (true, &rest[2..]);
                continue;
            }
            if let Some((_, node)) = two.into_iter().find(|(name, _)| starts(name)) {
                made.add(node)?;
                rest = &rest[2..];
                continue;
            }
            let mut chars = rest.chars();
            chars.next();
            match first {
                '9' => made.add(Node::Nine)?,
                '0' => made.add(Node::Zero)?,
                '.' | 'D' | 'd' => made.add(Node::Point)?,
                ',' | 'G' | 'g' => made.nodes.push(Node::Comma),
                'L' | 'l' => made.nodes.push(Node::Currency),
                'S' | 's' => {
                    made.add(Node::Sign)?;
                    if made.sign == Some(Anchor::Before) {
                        before_sign = Some(made.before);
                    }
                }
                '"' => {
                    while let Some(mut shown) = chars.next() {
                        if shown == '"' {
                            break;
                        }
                        if shown == '\\' {
                            shown = chars.next().unwrap_or('\\');
                        }
                        made.nodes.push(Node::Text(shown));
                    }
                }
                '\\' if chars.as_str().starts_with('"') => {
                    chars.next();
                    made.nodes.push(Node::Text('"'));
                }
                other => made.nodes.push(Node::Text(other)),
            }
            rest = chars.as_str();
        }
        // A sign behind all digits before the point stands behind the number.
        if before_sign == Some(made.before) {
            made.sign = Some(Anchor::After);
        }
        Ok(made)
    }

    fn add(&mut self, node: Node) -> Result<(), SqlError> {
        let signs = self.minus || self.plus || self.brackets;
        match node {
            Node::Nine | Node::Zero if self.brackets => {
                return Err(syntax("\"9\" must be ahead of \"PR\""));
            }
            Node::Nine | Node::Zero => {
                if node == Node::Zero && !self.has_point {
                    self.zero_start.get_or_insert(self.before);
                }
                *if self.has_point { &mut self.after } else { &mut self.before } += 1;
                if node == Node::Zero {
                    self.zero_end = self.before + self.after;
                }
            }
            Node::Point if self.has_point => return Err(syntax("multiple decimal points")),
            Node::Point => self.has_point = true,
            Node::Sign if self.sign.is_some() => return Err(syntax("cannot use \"S\" twice")),
            Node::Sign if signs => {
                let message = "cannot use \"S\" and \"PL\"/\"MI\"/\"SG\"/\"PR\" together";
                return Err(syntax(message));
            }
            Node::Sign => {
                self.sign = Some(if self.has_point { Anchor::After } else { Anchor::Before });
            }
            Node::Minus | Node::Plus | Node::PlusOrMinus if self.sign.is_some() => {
                let name = match node {
                    Node::Minus => "MI",
                    Node::Plus => "PL",
                    _ => "SG",
                };
                return Err(syntax(&format!("cannot use \"S\" and \"{name}\" together")));
            }
            Node::Brackets if self.sign.is_some() || self.minus || self.plus => {
                let message = "cannot use \"PR\" and \"S\"/\"PL\"/\"MI\"/\"SG\" together";
                return Err(syntax(message));
            }
            Node::Minus => self.minus = true,
            Node::Plus => self.plus = true,
            Node::PlusOrMinus => (self.minus, self.plus) = (true, true),
            Node::Brackets => self.brackets = true,
            _ => {}
        }
        self.nodes.push(node);
        Ok(())
    }
}

/// Returns the digits of a number with as many behind the point as the template has, and true for
/// one below zero.
fn digits(value: &Datum, template: &mut Template) -> Result<(String, bool), SqlError> {
    // The digits that a float surely has.
    let float = match value {
        Datum::Float4(x) => Some((f64::from(*x), 6usize)),
        Datum::Float8(x) => Some((*x, 15)),
        _ => None,
    };
    match (value, float) {
        (_, Some((x, _))) if !x.is_finite() => Err(SqlError::unsupported("to_char of no number")),
        (_, Some((x, digits))) => {
            let whole = format!("{:.0}", x.abs()).len();
            template.after = template.after.min(digits.saturating_sub(whole));
            Ok((format!("{:.*}", template.after, x.abs()), x < 0.0))
        }
        (other, None) => {
            let n = number::to_numeric(other)?;
            let shown = n.round(template.after as i64)?;
            let mut text = shown.abs().to_string();
            // Beyond the digits of any number.
            let places = shown.finite().map_or(template.after, |n| n.scale() as usize);
            text.extend(std::iter::repeat_n('0', template.after - places));
            Ok((text, shown.sign().is_lt()))
        }
    }
}

/// Renders a number by a template; an empty text for an empty template.
pub(super) fn to_char(value: &Datum, text: &str) -> Result<Datum, SqlError> {
    let mut template = Template::of(text)?;
    let (mut number, negative) = digits(value, &mut template)?;
    let whole = number.find('.').unwrap_or(number.len());
    if whole > template.before {
        number = "#".repeat(template.before);
        number.push('.');
        number.push_str(&"#".repeat(template.after));
    }
    let blanks = template.before.saturating_sub(whole);
    Writer::new(&template, number.as_bytes(), negative, blanks).write().map(Datum::text)
}

/// The state of a number while it is written.
struct Writer<'a> {
    template: &'a Template,
    number: &'a [u8],
    negative: bool,
    brackets: bool,
    /// The digits of the template before those of the number.
    blanks: usize,
    /// The place of the last digit that is shown without padding.
    last_relevant: Option<usize>,
    sign_written: bool,
    in_number: bool,
    /// The place in the number.
    at: usize,
    /// The digits of the template that are done.
    done: usize,
    count: usize,
    out: String,
}

impl<'a> Writer<'a> {
    fn new(template: &'a Template, number: &'a [u8], negative: bool, blanks: usize) -> Self {
        let has_own_sign = template.plus || template.minus;
        let brackets = template.brackets && (negative || !template.bare);
        let sign_written = match has_own_sign {
            true => !template.plus || template.minus,
            false => !negative && template.bare && template.sign.is_none(),
        };
        let point = number.iter().position(|byte| *byte == b'.');
        let mut last_relevant =
            point.filter(|_| template.bare && template.has_point).map(|point| {
                let digits = number[point..].iter().rposition(|byte| *byte != b'0');
                point + digits.unwrap_or(0)
            });
        if let Some(last) = &mut last_relevant
            && template.zero_end > blanks
        {
            *last = (*last).max((number.len() - 1).min(template.zero_end - blanks));
        }
        let count = (template.before + template.after).saturating_sub(1)
            + usize::from(!sign_written && blanks == 0);
        Writer {
            template,
            number,
            negative,
            brackets,
            blanks,
            last_relevant,
            sign_written,
            in_number: false,
            at: 0,
            done: 0,
            count,
            out: String::new(),
        }
    }

    fn write(mut self) -> Result<String, SqlError> {
        let (bare, negative) = (self.template.bare, self.negative);
        for node in &self.template.nodes {
            match *node {
                Node::Nine | Node::Zero | Node::Point if self.is_over(*node) => break,
                Node::Nine | Node::Zero | Node::Point => self.digit(*node),
                Node::Comma if self.in_number => self.out.push(','),
                Node::Currency => self.out.push(' '),
                Node::Minus if negative => self.out.push('-'),
                Node::Plus if !negative => self.out.push('+'),
                Node::Comma | Node::Minus | Node::Plus if bare => {}
                Node::Comma | Node::Minus | Node::Plus => self.out.push(' '),
                Node::PlusOrMinus => self.out.push(if negative { '-' } else { '+' }),
                Node::Ordinal(upper) => {
                    let is_whole = !self.template.has_point && self.number.first() != Some(&b'#');
                    if !negative && is_whole {
                        let text = String::from_utf8_lossy(self.number);
                        if !text.ends_with(|c: char| c.is_ascii_digit()) {
                            let message = format!("\"{text}\" is not a number");
                            return Err(SqlError::new(state::BAD_TEXT, message));
                        }
                        self.out.push_str(ordinal(&text, upper));
                    }
                }
                Node::Sign | Node::Brackets => {}
                Node::Text(shown) => self.out.push(shown),
            }
        }
        Ok(self.out)
    }

    /// True at a point or a digit for which the number has nothing. The text ends there, as in
    /// PostgreSQL.
    fn is_over(&self, node: Node) -> bool {
        let is_past = self.last_relevant.is_some_and(|last| self.at > last);
        self.done >= self.blanks && self.at >= self.number.len() && !(is_past && node != Node::Zero)
    }

    /// True at a zero before the point that is not shown.
    fn hides_zero(&self) -> bool {
        self.template.zero_start.is_none()
            && self.at == 0
            && self.number.first() == Some(&b'0')
            && self.template.after != 0
    }

    fn is_point(&self, at: Option<usize>) -> bool {
        at.is_some_and(|at| self.number.get(at) == Some(&b'.'))
    }

    fn digit(&mut self, node: Node) {
        let sign = if self.negative { '-' } else { '+' };
        let zeros_from = self.template.zero_start;
        let starts = self.done >= self.blanks || zeros_from == Some(self.done);
        if !self.sign_written && starts && (!self.hides_zero() || self.is_point(self.last_relevant))
        {
            match self.template.sign {
                Some(Anchor::Before) => self.out.push(sign),
                Some(Anchor::After) => {}
                None if self.brackets => self.out.push(if self.negative { '<' } else { ' ' }),
                None if self.negative => self.out.push('-'),
                None if !self.template.bare => self.out.push(' '),
                None => {}
            }
            self.sign_written = self.template.sign != Some(Anchor::After);
        }
        if self.done < self.blanks && zeros_from.is_none_or(|from| from > self.done) {
            if !self.template.bare {
                self.out.push(' ');
            }
        } else if self.done < self.blanks {
            self.out.push('0');
            self.in_number = true;
        } else {
            self.own_digit(node);
        }
        let mut end =
            self.count + usize::from(self.blanks > 0) + usize::from(self.template.has_point);
        if self.last_relevant == Some(self.at) {
            end = self.done;
        }
        if self.done + 1 == end {
            if self.sign_written && self.brackets {
                self.out.push(if self.negative { '>' } else { ' ' });
            } else if self.template.sign == Some(Anchor::After) {
                self.out.push(sign);
            }
        }
        self.done += 1;
    }

    /// Writes the next character of the number.
    fn own_digit(&mut self, node: Node) {
        match self.number.get(self.at) {
            None => return,
            Some(b'.') => {
                let ends_here = self.is_point(self.last_relevant);
                if !ends_here || self.template.bare {
                    self.out.push('.');
                }
            }
            Some(digit) => {
                let is_past = self.last_relevant.is_some_and(|last| self.at > last);
                if is_past && node != Node::Zero {
                    // Not shown without padding.
                } else if self.hides_zero() {
                    if !self.template.bare {
                        self.out.push(' ');
                    } else if self.is_point(self.last_relevant) {
                        self.out.push('0');
                    }
                } else {
                    self.out.push(char::from(*digit));
                    self.in_number = true;
                }
            }
        }
        self.at += 1;
    }
}
