//! Where one statement ends and the next begins: at a `;` outside of quotes, dollar quotes and comments.

/// Collects lines and gives out statements.
#[derive(Debug)]
pub struct Splitter {
    text: String,
    /// The number of the line that `text` begins on.
    line: usize,
}

impl Default for Splitter {
    fn default() -> Self {
        Splitter { text: String::new(), line: 1 }
    }
}

impl Splitter {
    /// Whether no statement has begun.
    pub fn is_empty(&self) -> bool {
        blank(&self.text)
    }

    /// A line that was not for this splitter.
    pub fn skip_line(&mut self) {
        self.line += 1 + self.text.matches('\n').count();
        self.text.clear();
    }

    /// Adds text.
    pub fn push(&mut self, text: &str) {
        self.text.push_str(text);
    }

    /// The next whole statement without its `;`, and the number of its first line.
    pub fn next_statement(&mut self) -> Option<(usize, String)> {
        loop {
            let end = end_of_statement(&self.text)?;
            let rest = self.text.split_off(end);
            let statement = std::mem::replace(&mut self.text, rest);
            let found = self.cut(&statement);
            self.line += statement.matches('\n').count();
            if found.is_some() {
                return found;
            }
        }
    }

    /// What is left, which no `;` ends.
    pub fn rest(&mut self) -> Option<(usize, String)> {
        let statement = std::mem::take(&mut self.text);
        self.cut(&statement)
    }

    fn cut(&self, statement: &str) -> Option<(usize, String)> {
        let statement = statement.trim_end().strip_suffix(';').unwrap_or(statement);
        if blank(statement) {
            return None;
        }
        let start = statement.len() - statement.trim_start().len();
        let number = self.line + statement[..start].matches('\n').count();
        Some((number, statement.trim().to_owned()))
    }
}

/// Whether a text ends where a statement ends, so that it may be run.
pub fn complete(text: &str) -> bool {
    let mut rest = text;
    while let Some(end) = end_of_statement(rest) {
        rest = &rest[end..];
    }
    blank(rest)
}

/// Whether there is nothing but white space and comments.
fn blank(text: &str) -> bool {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        match skip_comment(bytes, at) {
            Some(Some(end)) => at = end,
            Some(None) => return true,
            None if bytes[at].is_ascii_whitespace() => at += 1,
            None => return false,
        }
    }
    true
}

/// The end of a comment that begins here; `Some(None)` when it does not end.
fn skip_comment(bytes: &[u8], at: usize) -> Option<Option<usize>> {
    if bytes[at..].starts_with(b"--") {
        return Some(bytes[at..].iter().position(|byte| *byte == b'\n').map(|length| at + length + 1));
    }
    if !bytes[at..].starts_with(b"/*") {
        return None;
    }
    let (mut at, mut depth) = (at + 2, 1);
    while at < bytes.len() {
        if bytes[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return Some(Some(at));
            }
        } else if bytes[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else {
            at += 1;
        }
    }
    Some(None)
}

/// The place behind the first `;` that ends a statement.
fn end_of_statement(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        if let Some(end) = skip_comment(bytes, at) {
            at = end?;
            continue;
        }
        match bytes[at] {
            b';' => return Some(at + 1),
            b'\'' => {
                let escapes = at > 0
                    && matches!(bytes[at - 1], b'e' | b'E')
                    && !(at > 1 && (bytes[at - 2].is_ascii_alphanumeric() || bytes[at - 2] == b'_'));
                at = end_of_quote(bytes, at, escapes)?;
            }
            b'"' => at = end_of_quote(bytes, at, false)?,
            b'$' => at = end_of_dollar_quote(text, at)?,
            _ => at += 1,
        }
    }
    None
}

fn end_of_quote(bytes: &[u8], start: usize, escapes: bool) -> Option<usize> {
    let mut at = start + 1;
    while at < bytes.len() {
        if escapes && bytes[at] == b'\\' {
            at += 2;
        } else if bytes[at] == bytes[start] {
            // A doubled quote opens again at once, which comes to the same.
            return Some(at + 1);
        } else {
            at += 1;
        }
    }
    None
}

/// Behind `$tag$ … $tag$`, or behind the `$` alone when it opens nothing.
fn end_of_dollar_quote(text: &str, start: usize) -> Option<usize> {
    let bytes = text.as_bytes();
    let joined = start > 0 && (bytes[start - 1].is_ascii_alphanumeric() || bytes[start - 1] == b'_');
    let tag = bytes[start + 1..].iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_').count();
    let opens =
        bytes.get(start + 1 + tag) == Some(&b'$') && !bytes.get(start + 1).is_some_and(u8::is_ascii_digit) && !joined;
    if !opens {
        return Some(start + 1);
    }
    let body = start + tag + 2;
    let quote = &text[start..body];
    text[body..].find(quote).map(|length| body + length + quote.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    type Numbered = (usize, String);

    fn split(text: &str) -> (Vec<Numbered>, Option<Numbered>) {
        let mut splitter = Splitter::default();
        splitter.push(text);
        let whole = std::iter::from_fn(|| splitter.next_statement()).collect();
        (whole, splitter.rest())
    }

    #[test]
    fn a_semicolon_ends_a_statement_only_outside_of_quotes_and_comments() {
        for (text, statements) in [
            ("select 1; select 2;", vec!["select 1", "select 2"]),
            ("select ';'; select 2;", vec!["select ';'", "select 2"]),
            ("select 'it''s;'; x;", vec!["select 'it''s;'", "x"]),
            (r"select e'\';'; x;", vec![r"select e'\';'", "x"]),
            (r"select '\'; x;", vec![r"select '\'", "x"]),
            ("select \"a;b\"; x;", vec!["select \"a;b\"", "x"]),
            ("select 1 -- one; still\n; x;", vec!["select 1 -- one; still", "x"]),
            ("/* a; /* b; */ c; */ select 1; x;", vec!["/* a; /* b; */ c; */ select 1", "x"]),
            ("select $$a;b$$; x;", vec!["select $$a;b$$", "x"]),
            ("select $t$a;$$;b$t$; x;", vec!["select $t$a;$$;b$t$", "x"]),
            ("select $1; x;", vec!["select $1", "x"]),
            (";;; x;", vec!["x"]),
        ] {
            let (whole, rest) = split(text);
            let whole: Vec<_> = whole.into_iter().map(|(_, statement)| statement).collect();
            assert_eq!(whole, statements, "{text}");
            assert_eq!(rest, None, "{text}");
        }
    }

    #[test]
    fn what_no_semicolon_ends_is_the_rest() {
        assert_eq!(split("a; b"), (vec![(1, "a".into())], Some((1, "b".into()))));
        assert_eq!(split("a; -- done\n"), (vec![(1, "a".into())], None));
        assert_eq!(split("select 'open; "), (vec![], Some((1, "select 'open;".trim_end_matches(';').into()))));
    }

    #[test]
    fn statements_know_their_line() {
        assert_eq!(split("\na;\n\nb\n;\nc;").0, vec![(2, "a".into()), (4, "b".into()), (6, "c".into())]);
    }

    #[test]
    fn an_editor_knows_when_to_run() {
        for text in ["", "  ", "select 1;", "select 1; -- x", "-- x"] {
            assert!(complete(text), "{text}");
        }
        for text in ["select 1", "select ';", "select 1; select", "select $$;"] {
            assert!(!complete(text), "{text}");
        }
    }
}
