//! Splits a script into statements: at a `;` outside of quotes, dollar quotes and comments.
//!
//! After `COPY … FROM STDIN;` come rows that are no SQL, up to a line `\.` or the end; they belong
//! to the statement.

/// Collects lines, and returns complete statements.
#[derive(Debug)]
pub struct Splitter {
    text: String,
    /// The number of the line that `text` begins on.
    line: usize,
    copying: Option<Copying>,
}

/// A COPY that waits for its rows.
#[derive(Debug)]
struct Copying {
    copy: Piece,
    ended: bool,
}

/// A statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The number of its first line.
    pub line: usize,
    /// The text without its `;`.
    pub sql: String,
    /// The rows of a COPY FROM STDIN.
    pub data: Option<String>,
}

impl Default for Splitter {
    fn default() -> Self {
        Splitter { text: String::new(), line: 1, copying: None }
    }
}

impl Splitter {
    /// True if no statement has begun.
    pub fn is_empty(&self) -> bool {
        self.copying.is_none() && blank(&self.text)
    }

    /// True if the next lines are rows of a COPY.
    pub fn wants_data(&self) -> bool {
        self.copying.as_ref().is_some_and(|copying| !copying.ended)
    }

    /// Skips a line that is not part of a statement.
    pub fn skip_line(&mut self) {
        self.line += 1 + self.text.matches('\n').count();
        self.text.clear();
    }

    /// Adds a line, with its line end.
    pub fn push(&mut self, line: &str) {
        let Some(Copying { copy: Piece { data: Some(data), .. }, ended }) = &mut self.copying
        else {
            return self.text.push_str(line);
        };
        self.line += 1;
        match line.trim_end_matches(['\r', '\n']) {
            r"\." => *ended = true,
            _ => data.push_str(line),
        }
    }

    /// Returns the next complete statement.
    pub fn next_statement(&mut self) -> Option<Piece> {
        loop {
            match self.copying.take() {
                Some(Copying { copy, ended: true }) => return Some(copy),
                waiting => self.copying = waiting,
            }
            if self.copying.is_some() {
                return None;
            }
            let end = end_of_statement(&self.text)?;
            let rest = self.text.split_off(end);
            let statement = std::mem::replace(&mut self.text, rest);
            let found = self.cut(&statement);
            self.line += statement.matches('\n').count();
            match found {
                Some(copy) if copy.data.is_some() => {
                    // The rest of its line is no data.
                    self.copying = Some(Copying { copy, ended: false });
                    if self.text.trim().is_empty() {
                        self.line += self.text.matches('\n').count();
                        self.text.clear();
                    }
                }
                Some(statement) => return Some(statement),
                None => {}
            }
        }
    }

    /// Returns the rest: a statement without `;`, or a COPY whose rows end with the text.
    pub fn rest(&mut self) -> Option<Piece> {
        if let Some(Copying { copy, .. }) = self.copying.take() {
            return Some(copy);
        }
        let statement = std::mem::take(&mut self.text);
        self.cut(&statement)
    }

    fn cut(&self, statement: &str) -> Option<Piece> {
        let statement = statement.trim_end().strip_suffix(';').unwrap_or(statement);
        if blank(statement) {
            return None;
        }
        let start = statement.len() - statement.trim_start().len();
        let line = self.line + statement[..start].matches('\n').count();
        let data = is_copy_from_stdin(statement).then(String::new);
        Some(Piece { line, sql: statement.trim().to_owned(), data })
    }
}

/// True if a text ends where a statement ends, so that it may run. The rows of a COPY may follow.
pub fn complete(text: &str) -> bool {
    let mut splitter = Splitter::default();
    for line in text.split_inclusive('\n') {
        splitter.push(line);
        while splitter.next_statement().is_some() {}
    }
    match &splitter.copying {
        Some(Copying { copy, .. }) => copy.data.as_ref().is_some_and(String::is_empty),
        None => blank(&splitter.text),
    }
}

/// Returns the text after the white space and comments at the start of a statement.
pub fn uncommented(statement: &str) -> &str {
    let mut rest = statement.trim_start();
    while let Some(end) = skip_comment(rest.as_bytes(), 0) {
        rest = end.map_or("", |end| rest[end.min(rest.len())..].trim_start());
    }
    rest
}

/// True if rows of data follow the statement.
fn is_copy_from_stdin(statement: &str) -> bool {
    is_copy(statement, "from", "stdin")
}

/// True if the statement's rows are sent as data.
pub fn is_copy_to_stdout(statement: &str) -> bool {
    is_copy(statement, "to", "stdout")
}

fn is_copy(statement: &str, direction: &str, stream: &str) -> bool {
    let separates = |c: char| c.is_whitespace() || c == '(' || c == ')';
    let words: Vec<&str> =
        uncommented(statement).split(separates).filter(|word| !word.is_empty()).collect();
    words.first().is_some_and(|word| word.eq_ignore_ascii_case("copy"))
        && words.windows(2).any(|two| {
            two[0].eq_ignore_ascii_case(direction) && two[1].eq_ignore_ascii_case(stream)
        })
}

/// True if the text has only white space and comments.
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

/// Returns the end of a comment that begins here; `Some(None)` if it does not end.
fn skip_comment(bytes: &[u8], at: usize) -> Option<Option<usize>> {
    if bytes[at..].starts_with(b"--") {
        return Some(
            bytes[at..].iter().position(|byte| *byte == b'\n').map(|length| at + length + 1),
        );
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

/// Returns the position after the first `;` that ends a statement.
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
                    && !(at > 1
                        && (bytes[at - 2].is_ascii_alphanumeric() || bytes[at - 2] == b'_'));
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
            // A doubled quote opens again at once, with the same effect.
            return Some(at + 1);
        } else {
            at += 1;
        }
    }
    None
}

/// Returns the position after `$tag$ … $tag$`, or after the `$` alone if it opens no quote.
fn end_of_dollar_quote(text: &str, start: usize) -> Option<usize> {
    let bytes = text.as_bytes();
    let joined =
        start > 0 && (bytes[start - 1].is_ascii_alphanumeric() || bytes[start - 1] == b'_');
    let tag = bytes[start + 1..]
        .iter()
        .take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_')
        .count();
    let opens = bytes.get(start + 1 + tag) == Some(&b'$')
        && !bytes.get(start + 1).is_some_and(u8::is_ascii_digit)
        && !joined;
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
        let numbered = |piece: Piece| (piece.line, piece.sql);
        let whole = std::iter::from_fn(|| splitter.next_statement()).map(numbered).collect();
        (whole, splitter.rest().map(numbered))
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
        assert_eq!(
            split("select 'open; "),
            (vec![], Some((1, "select 'open;".trim_end_matches(';').into())))
        );
    }

    #[test]
    fn statements_know_their_line() {
        assert_eq!(
            split("\na;\n\nb\n;\nc;").0,
            vec![(2, "a".into()), (4, "b".into()), (6, "c".into())]
        );
    }

    #[test]
    fn a_copy_takes_its_lines_along() {
        let mut splitter = Splitter::default();
        let mut found = Vec::new();
        for line in "select 0;\n-- in\nCOPY t (a, b) FROM stdin;\n1\t;\n\n\\N\t'\n\\.\nselect 1;\ncopy t from stdin;\n2"
            .split_inclusive('\n')
        {
            splitter.push(line);
            found.extend(std::iter::from_fn(|| splitter.next_statement()));
        }
        assert!(splitter.wants_data());
        found.extend(splitter.rest());
        let found: Vec<_> = found.iter().map(|piece| (piece.line, piece.data.as_deref())).collect();
        assert_eq!(found, [(1, None), (2, Some("1\t;\n\n\\N\t'\n")), (8, None), (9, Some("2"))]);
        for sql in
            ["select 'copy from stdin'", "copy t to stdout", "copy t from 'f'", "-- copy\nselect 1"]
        {
            assert!(!is_copy_from_stdin(sql), "{sql}");
            assert_eq!(is_copy_to_stdout(sql), sql == "copy t to stdout", "{sql}");
        }
    }

    #[test]
    fn an_editor_knows_when_to_run() {
        let copy = "copy t from stdin;\n1\n\\.";
        for text in ["", "  ", "select 1;", "select 1; -- x", "-- x", "copy t from stdin;", copy] {
            assert!(complete(text), "{text}");
        }
        for text in
            ["select 1", "select ';", "select 1; select", "select $$;", "copy t from stdin;\n1\n"]
        {
            assert!(!complete(text), "{text}");
        }
    }
}
