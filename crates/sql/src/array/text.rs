//! The text format of arrays: `{1,NULL,3}`, `[0:1]={a,"b c"}`, `{{1,2},{3,4}}`.

use super::{Array, Dimension, MOST_DIMENSIONS};
use crate::datetime::{Local, Zone};
use crate::datum::Datum;
use crate::error::{SqlError, state};
use crate::types::Type;
use std::fmt::Write;

impl Array {
    /// Appends the text format, with times in a session's zone.
    pub(crate) fn write_text(&self, zone: &Zone, out: &mut String) {
        if self.values.is_empty() {
            return out.push_str("{}");
        }
        if self.dimensions.iter().any(|dimension| dimension.lower != 1) {
            for dimension in &self.dimensions {
                let _ = write!(out, "[{}:{}]", dimension.lower, dimension.upper());
            }
            out.push('=');
        }
        self.write_part(&self.dimensions, &self.values, zone, out);
    }

    fn write_part(
        &self,
        dimensions: &[Dimension],
        values: &[Datum],
        zone: &Zone,
        out: &mut String,
    ) {
        let Some((first, rest)) = dimensions.split_first() else {
            let text = values.first().and_then(|datum| datum.to_text_in(self.element, zone));
            return match text {
                None => out.push_str("NULL"),
                Some(text) => write_element(&text, out),
            };
        };
        out.push('{');
        for (at, part) in values.chunks(values.len() / first.length).enumerate() {
            if at > 0 {
                out.push(',');
            }
            self.write_part(rest, part, zone, out);
        }
        out.push('}');
    }

    /// Parses an array; limits of length and scale are not applied here. Fails with 22P02 for text
    /// that is none, and as its elements do.
    pub(crate) fn from_text_in(
        element: Type,
        text: &str,
        local: Local<'_>,
    ) -> Result<Array, SqlError> {
        let element = element.base();
        let (values, lengths) = (Vec::new(), Vec::new());
        let mut reader = Reader { text, at: 0, element, local, values, lengths };
        let bounds = reader.bounds()?;
        reader.blanks();
        if reader.peek() != Some('{') {
            return Err(reader.malformed(match bounds.is_empty() {
                true => "Array value must start with \"{\" or dimension information.",
                false => "Array contents must start with \"{\".",
            }));
        }
        reader.list(0)?;
        reader.blanks();
        if reader.peek().is_some() {
            return Err(reader.malformed("Junk after closing right brace."));
        }
        let lengths: Vec<usize> = reader.lengths.iter().map(|length| length.unwrap_or(0)).collect();
        let dimensions = match bounds.as_slice() {
            [] => lengths.iter().map(|length| Dimension { lower: 1, length: *length }).collect(),
            bounds => {
                let given: Vec<usize> = bounds.iter().map(|bound| bound.length).collect();
                if !reader.values.is_empty() && given != lengths {
                    let detail = "Specified array dimensions do not match array contents.";
                    return Err(reader.malformed(detail));
                }
                bounds.to_vec()
            }
        };
        Array::with(element, dimensions, reader.values)
    }
}

fn write_element(text: &str, out: &mut String) {
    let special = |c: char| matches!(c, '{' | '}' | ',' | '"' | '\\') || is_blank(c);
    if !text.is_empty() && !text.contains(special) && !text.eq_ignore_ascii_case("null") {
        return out.push_str(text);
    }
    out.push('"');
    for c in text.chars() {
        if matches!(c, '"' | '\\') {
            out.push('\\');
        }
        out.push(c);
    }
    out.push('"');
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r' | '\u{b}' | '\u{c}')
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    element: Type,
    local: Local<'a>,
    values: Vec<Datum>,
    /// The lengths of the dimensions, as far as a list of each has ended.
    lengths: Vec<Option<usize>>,
}

impl Reader<'_> {
    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        Some(c)
    }

    fn blanks(&mut self) {
        while self.peek().is_some_and(is_blank) {
            self.at += 1;
        }
    }

    fn malformed(&self, detail: &str) -> SqlError {
        SqlError::new(state::BAD_TEXT, format!("malformed array literal: \"{}\"", self.text))
            .detail(detail)
    }

    /// Reads `[1:3][0:1]=`.
    fn bounds(&mut self) -> Result<Vec<Dimension>, SqlError> {
        let mut bounds = Vec::new();
        loop {
            self.blanks();
            if self.peek() != Some('[') {
                break;
            }
            self.at += 1;
            let missing = "\"[\" must introduce explicitly-specified array dimensions.";
            let end = self.text[self.at..].find(']').ok_or_else(|| self.malformed(missing))?;
            let inner = &self.text[self.at..self.at + end];
            let (low, high) = inner.split_once(':').unwrap_or(("1", inner));
            let number = |text: &str| text.parse::<i32>().map_err(|_| self.malformed(missing));
            let (lower, upper) = (number(low)?, number(high)?);
            if upper < lower {
                let message = "upper bound cannot be less than lower bound";
                return Err(SqlError::new(state::ARRAY_SUBSCRIPT, message));
            }
            self.at += end + 1;
            let length = (i64::from(upper) - i64::from(lower) + 1) as usize;
            bounds.push(Dimension { lower, length });
            if bounds.len() > MOST_DIMENSIONS {
                return Err(self.too_deep(bounds.len()));
            }
        }
        if !bounds.is_empty() {
            if self.peek() != Some('=') {
                return Err(self.malformed("Missing \"=\" after array dimensions."));
            }
            self.at += 1;
        }
        Ok(bounds)
    }

    fn too_deep(&self, depth: usize) -> SqlError {
        let message = format!(
            "number of array dimensions ({depth}) exceeds the maximum allowed ({MOST_DIMENSIONS})"
        );
        SqlError::new(state::TOO_LARGE, message)
    }

    /// Reads a list of elements, or of lists.
    fn list(&mut self, depth: usize) -> Result<(), SqlError> {
        if depth >= MOST_DIMENSIONS {
            return Err(self.too_deep(depth + 1));
        }
        self.at += 1;
        if self.lengths.len() == depth {
            self.lengths.push(None);
        }
        let is_innermost = |reader: &Self| reader.lengths.len() == depth + 1;
        let mut count = 0;
        loop {
            self.blanks();
            match self.peek() {
                None => return Err(self.malformed("Unexpected end of input.")),
                Some('}') if count == 0 && depth == 0 => break,
                Some('}') if count == 0 => {
                    return Err(self.malformed("Unexpected \"}\" character."));
                }
                Some('{') => {
                    if is_innermost(self) && self.lengths[depth].is_some()
                        || is_innermost(self) && count > 0
                    {
                        return Err(self.malformed("Unexpected \"{\" character."));
                    }
                    self.list(depth + 1)?;
                }
                Some(_) if !is_innermost(self) => {
                    let detail = "Unexpected array element.";
                    return Err(self.malformed(detail));
                }
                Some(_) => self.element()?,
            }
            count += 1;
            self.blanks();
            match self.peek() {
                Some(',') => self.at += 1,
                Some('}') => break,
                None => return Err(self.malformed("Unexpected end of input.")),
                Some(c) => {
                    let detail = format!("Unexpected \"{c}\" character.");
                    return Err(self.malformed(&detail));
                }
            }
            self.blanks();
            if self.peek() == Some('}') {
                return Err(self.malformed("Unexpected \"}\" character."));
            }
        }
        self.at += 1;
        match self.lengths[depth] {
            Some(length) if length != count => {
                let detail =
                    "Multidimensional arrays must have sub-arrays with matching dimensions.";
                Err(self.malformed(detail))
            }
            _ => {
                self.lengths[depth] = Some(count);
                Ok(())
            }
        }
    }

    fn element(&mut self) -> Result<(), SqlError> {
        let (mut text, mut quoted, mut end) = (String::new(), false, 0);
        let is_quoted = self.peek() == Some('"');
        if is_quoted {
            self.at += 1;
        }
        loop {
            let cut = "Unexpected end of input.";
            let c = self.peek().ok_or_else(|| self.malformed(cut))?;
            match c {
                '\\' => {
                    self.at += 1;
                    quoted = true;
                    text.push(self.next().ok_or_else(|| self.malformed(cut))?);
                    end = text.len();
                    continue;
                }
                '"' if is_quoted => {
                    self.at += 1;
                    break;
                }
                '"' => return Err(self.malformed("Unexpected array element.")),
                ',' | '}' if !is_quoted => break,
                '{' if !is_quoted => {
                    return Err(self.malformed("Unexpected \"{\" character."));
                }
                c => text.push(c),
            }
            self.at += c.len_utf8();
            if !is_blank(c) || is_quoted {
                end = text.len();
            }
        }
        if !is_quoted {
            text.truncate(end);
            if text.is_empty() {
                let next = self.peek().unwrap_or('}');
                return Err(self.malformed(&format!("Unexpected \"{next}\" character.")));
            }
        }
        let is_null = !is_quoted && !quoted && text.eq_ignore_ascii_case("null");
        self.values.push(match is_null {
            true => Datum::Null,
            false => Datum::from_text_in(self.element, &text, self.local)?,
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Texts, and the form that PostgreSQL 15 gives them.
    #[test]
    fn texts_are_read_and_shown_as_postgresql_does() {
        for (text, shown) in [
            ("{}", "{}"),
            (" { a , \"b c\" ,NULL, nUll,\"NULL\", \"\" } ", "{a,\"b c\",NULL,NULL,\"NULL\",\"\"}"),
            ("{a b, \\ c ,\"q\\\"w\\\\\"}", "{\"a b\",\" c\",\"q\\\"w\\\\\"}"),
            ("{{a,b},{c,d}}", "{{a,b},{c,d}}"),
            ("[0:1]={a,b}", "[0:1]={a,b}"),
            ("[1:2]={a,b}", "{a,b}"),
            ("[2:3][-1:-1]={{a},{b}}", "[2:3][-1:-1]={{a},{b}}"),
        ] {
            let array = Array::from_text_in(Type::Text, text, Local::utc())
                .unwrap_or_else(|e| panic!("{e:?}"));
            let mut out = String::new();
            array.write_text(Zone::utc(), &mut out);
            assert_eq!(out, shown, "{text}");
        }
        for wrong in [
            "",
            "a",
            "{",
            "{a",
            "{a}}",
            "{a},",
            "{,}",
            "{{},{}}",
            "{a,}",
            "{a,,b}",
            "{a b\"c\"}",
            "{\"a\"b}",
            "{{a},{b,c}}",
            "{{a},b}",
            "{a,{b}}",
            "[0:1]={a}",
            "[0:1]{a,b}",
            "[x:1]={a}",
            "{\"a",
        ] {
            let error = Array::from_text_in(Type::Text, wrong, Local::utc()).expect_err(wrong);
            assert_eq!(error.sqlstate, state::BAD_TEXT, "{wrong}");
        }
        for (wrong, sqlstate) in [("{1,x}", "22P02"), ("{99999999999}", "22003")] {
            let error = Array::from_text_in(Type::Int4, wrong, Local::utc()).expect_err(wrong);
            assert_eq!(error.sqlstate, sqlstate, "{wrong}");
        }
    }
}
