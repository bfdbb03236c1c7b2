//! Checks the language of documents, comments and messages, as far as a test can.
//!
//! | where | rule |
//! |---|---|
//! | documents, Rust comments, string literals | no pronoun for a component, no retired term |
//! | documentation comments | the first line is a statement: it begins with none of [`OPENINGS`] |
//!
//! Code spans, code blocks and strings without a space are names, and are not checked. Dated notes
//! (`docs/decisions`) keep their words. `width.rs` checks the width of lines.

use std::path::{Path, PathBuf};

/// Words that name no component. The component is the subject: node, replica, leader, coordinator.
const PRONOUNS: [&str; 7] =
    ["nobody", "somebody", "everybody", "anybody", "whoever", "whomever", "whom"];

/// Retired terms, and the standard term of each.
const RETIRED: [(&str, &[&str]); 17] = [
    ("request router", &["desk", "desks"]),
    ("oneshot", &["rendezvous"]),
    ("replica id", &["seat", "seats"]),
    ("database handle", &["door", "doors"]),
    ("server", &["house", "houses", "plumbing", "surroundings"]),
    ("unconfirmed, or the name of what is tested", &["hearsay"]),
    ("transfer target", &["heir", "heirs"]),
    ("transfer leadership", &["abdicate", "abdicates", "abdicated", "abdicating", "abdication"]),
    ("background task", &["errand", "errands"]),
    ("apply a fault", &["befall", "befalls", "befell", "befallen"]),
    ("create, carry", &["bear", "bears", "bore", "borne"]),
    ("apply, follow", &["heed", "heeds", "heeded"]),
    ("lock epoch", &["footing", "footings"]),
    ("pinned entry", &["landmark", "landmarks"]),
    ("corruption", &["injury", "injuries", "injure", "injures", "injured"]),
    ("peer identities", &["acquaintance", "acquaintances", "stranger", "strangers"]),
    ("aborted", &["doomed"]),
];

/// Retired terms of two words, and the standard term of each.
const RETIRED_PAIRS: [(&str, &[[&str; 2]]); 2] = [
    ("release", &[["let", "go"], ["lets", "go"], ["letting", "go"]]),
    ("retry", &[["ask", "anew"], ["asks", "anew"], ["asked", "anew"], ["asking", "anew"]]),
];

/// The words with which the first line of a documentation comment does not begin.
const OPENINGS: [&[&str]; 8] = [
    &["the", "same"],
    &["one", "that"],
    &["what"],
    &["how"],
    &["who"],
    &["whom"],
    &["whose"],
    &["whoever"],
];

/// The words after a first "how" that make it a measure, with which a comment may begin.
const MEASURES: [&str; 5] = ["far", "long", "many", "much", "often"];

/// Words of committed transcripts, which stay as they were written.
const IN_TRANSCRIPTS: [&str; 4] = ["nobody it knows", "follows nobody", "nobody knows", "heir n{}"];

/// A part of a file that people read, on one line.
struct Prose {
    line: usize,
    text: String,
    opens_doc: bool,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The pages of the project, without dated notes.
fn documents() -> Vec<PathBuf> {
    let pages = |folder: PathBuf| {
        let entries = std::fs::read_dir(folder).expect("a folder of the project");
        let paths = entries.map(|entry| entry.expect("an entry").path());
        paths.filter(|path| path.extension().is_some_and(|extension| extension == "md"))
    };
    pages(root()).chain(pages(root().join("docs"))).collect()
}

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder of the project") {
        let path = entry.expect("an entry").path();
        if path.is_dir() && path.file_name().is_some_and(|name| name != "target") {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Removes code spans and the targets of links. `inside` says whether a span is open, across lines.
fn without_code(line: &str, inside: &mut bool) -> String {
    let mut text = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(next) = rest.chars().next() {
        rest = &rest[next.len_utf8()..];
        if next == '`' {
            *inside = !*inside;
            text.push('`');
        } else if *inside {
            continue;
        } else if next == ']' && rest.starts_with('(') {
            rest = rest.find(')').map_or("", |end| &rest[end + 1..]);
            text.push(' ');
        } else {
            text.push(next);
        }
    }
    text
}

/// Drops fenced blocks, code spans and the targets of links from lines that follow each other.
#[derive(Default)]
struct Markdown {
    fenced: bool,
    span: bool,
}

impl Markdown {
    fn read(&mut self, line: &str) -> String {
        if line.trim_start().starts_with("```") {
            self.fenced = !self.fenced;
            return String::new();
        }
        if self.fenced {
            return String::new();
        }
        // A span ends with its paragraph, and with its row of a table.
        if line.trim().is_empty() || line.trim_start().starts_with(['|', '-', '#']) {
            self.span = false;
        }
        without_code(line, &mut self.span)
    }
}

fn prose_of_page(text: &str) -> Vec<Prose> {
    let mut markdown = Markdown::default();
    let read = |(at, line)| Prose { line: at + 1, text: markdown.read(line), opens_doc: false };
    text.lines().enumerate().map(read).collect()
}

/// Reads the comments and the string literals of a Rust file.
struct Rust<'a> {
    rest: &'a str,
    line: usize,
    found: Vec<Prose>,
    markdown: Markdown,
    /// The line and the marker of the last line comment: the next one may go on with it.
    last_comment: (usize, &'a str),
}

impl<'a> Rust<'a> {
    fn read(text: &'a str) -> Vec<Prose> {
        let markdown = Markdown::default();
        let mut rust =
            Rust { rest: text, line: 1, found: Vec::new(), markdown, last_comment: (0, "") };
        // A character before a quote of which it may be a prefix.
        let mut before = ' ';
        while let Some(next) = rust.rest.chars().next() {
            if rust.rest.starts_with("//") {
                rust.line_comment();
                before = ' ';
            } else if rust.rest.starts_with("/*") {
                let end = rust.rest.find("*/").map_or(rust.rest.len(), |end| end + 2);
                rust.text(end);
            } else if next == '"' {
                rust.rest = &rust.rest[1..];
                let end = end_of_string(rust.rest);
                rust.text(end);
            } else if next == 'r' && !is_name(before) && raw_hashes(rust.rest).is_some() {
                let hashes = raw_hashes(rust.rest).expect("just seen");
                rust.rest = &rust.rest[hashes + 2..];
                let close = format!("\"{}", "#".repeat(hashes));
                let end = rust.rest.find(&close).map_or(rust.rest.len(), |end| end + close.len());
                rust.text(end);
                before = ' ';
            } else if next == '\'' {
                rust.skip(character(rust.rest));
                before = ' ';
            } else {
                rust.skip(next.len_utf8());
                // `br"…"` begins like `r"…"`.
                before = if next == 'b' && !is_name(before) { ' ' } else { next };
            }
        }
        rust.found
    }

    /// Leaves out this number of bytes.
    fn skip(&mut self, bytes: usize) {
        self.line += self.rest[..bytes].matches('\n').count();
        self.rest = &self.rest[bytes..];
    }

    /// Takes this number of bytes of a string or of a block comment.
    fn text(&mut self, bytes: usize) {
        let (text, rest) = self.rest.split_at(bytes);
        if text.trim().contains(' ') {
            let mut span = false;
            for (at, line) in text.split('\n').enumerate() {
                let text = without_code(line, &mut span).replace("\\n", " ");
                self.found.push(Prose { line: self.line + at, text, opens_doc: false });
            }
        }
        self.line += text.matches('\n').count();
        self.rest = rest;
    }

    fn line_comment(&mut self) {
        let end = self.rest.find('\n').unwrap_or(self.rest.len());
        let comment = &self.rest[..end];
        let marker = match comment.get(2..3) {
            Some("/") if !comment.starts_with("////") => "///",
            Some("!") => "//!",
            _ => "//",
        };
        let goes_on = self.last_comment == (self.line - 1, marker);
        if !goes_on {
            self.markdown = Markdown::default();
        }
        self.last_comment = (self.line, marker);
        let text = self.markdown.read(&comment[marker.len()..]);
        let opens_doc = !goes_on && marker != "//";
        self.found.push(Prose { line: self.line, text, opens_doc });
        self.rest = &self.rest[end..];
    }
}

fn is_name(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// The number of `#` of a raw string that begins here.
fn raw_hashes(text: &str) -> Option<usize> {
    let hashes = text[1..].bytes().take_while(|byte| *byte == b'#').count();
    text[1 + hashes..].starts_with('"').then_some(hashes)
}

/// The number of bytes up to the end of a string whose quote was read, with the closing quote.
fn end_of_string(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// The number of bytes of a character literal, or of the quote of a lifetime.
fn character(text: &str) -> usize {
    let mut characters = text.char_indices().skip(1);
    match (characters.next(), characters.next()) {
        (Some((_, '\\')), Some((at, escaped))) => {
            let after = at + escaped.len_utf8();
            text[after..].find('\'').map_or(text.len(), |end| after + end + 1)
        }
        (Some(_), Some((at, '\''))) => at + 1,
        _ => 1,
    }
}

/// The words of a line, in lower case. An identifier is one word, whatever it is made of.
fn words(text: &str) -> Vec<String> {
    let words = text.split(|character: char| !is_name(character)).filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect()
}

/// The rules that a line breaks.
fn breaches(prose: &Prose) -> Vec<String> {
    let text = IN_TRANSCRIPTS.iter().fold(prose.text.clone(), |text, old| text.replace(old, ""));
    let words = words(&text);
    let mut found = Vec::new();
    for word in &words {
        if PRONOUNS.contains(&word.as_str()) {
            found.push(format!("\"{word}\" names no component"));
        }
        for (term, _) in RETIRED.iter().filter(|(_, retired)| retired.contains(&word.as_str())) {
            found.push(format!("\"{word}\" is retired: {term}"));
        }
    }
    for (term, retired) in RETIRED_PAIRS {
        let is_retired = |pair: &[String]| retired.iter().any(|words| pair == words);
        if let Some(pair) = words.windows(2).find(|pair| is_retired(pair)) {
            found.push(format!("\"{} {}\" is retired: {term}", pair[0], pair[1]));
        }
    }
    // A line that begins with a code span or with a bracket begins with a name.
    let measures = words.get(1).is_some_and(|word| MEASURES.contains(&word.as_str()));
    let opens = prose.opens_doc
        && prose.text.trim_start().starts_with(char::is_alphabetic)
        && !(words[0] == "how" && measures);
    let begins = |opening: &&&[&str]| {
        words.len() >= opening.len() && words.iter().zip(**opening).all(|(word, of)| word == of)
    };
    if let Some(opening) = OPENINGS.iter().find(begins).filter(|_| opens) {
        found.push(format!("a documentation comment begins with \"{}\"", opening.join(" ")));
    }
    found
}

/// Reports each breach as `file:line: rule`.
fn report(path: &Path, prose: Vec<Prose>) -> Vec<String> {
    let name = path.strip_prefix(root()).unwrap_or(path).display().to_string();
    let place = |prose: &Prose, rule| format!("{name}:{}: {rule}", prose.line);
    prose
        .iter()
        .flat_map(|prose| breaches(prose).into_iter().map(|rule| place(prose, rule)))
        .collect()
}

fn text_of(path: &Path) -> String {
    std::fs::read_to_string(path).expect("text")
}

#[test]
fn documents_use_the_standard_language() {
    let found: Vec<String> =
        documents().iter().flat_map(|path| report(path, prose_of_page(&text_of(path)))).collect();
    assert!(found.is_empty(), "{} places:\n{}", found.len(), found.join("\n"));
}

#[test]
fn rust_comments_and_messages_use_the_standard_language() {
    let mut files = Vec::new();
    rust_files(&root().join("crates"), &mut files);
    files.sort();
    assert!(files.len() > 300, "only {} files are read", files.len());
    let own = Path::new(file!()).file_name();
    files.retain(|path| path.file_name() != own);
    let mut found = Vec::new();
    let mut crates: Vec<(String, usize)> = Vec::new();
    for path in files {
        let here = report(&path, Rust::read(&text_of(&path)));
        let of_crate = path.strip_prefix(root().join("crates")).expect("a file of a crate");
        let name = of_crate.iter().next().expect("a crate").display().to_string();
        match crates.last_mut().filter(|(last, _)| *last == name) {
            Some((_, places)) => *places += here.len(),
            None => crates.push((name, here.len())),
        }
        found.extend(here);
    }
    let crates: Vec<String> =
        crates.iter().map(|(name, places)| format!("{name} {places}")).collect();
    assert!(
        found.is_empty(),
        "{}\n{} places: {}",
        found.join("\n"),
        found.len(),
        crates.join(", ")
    );
}

#[test]
fn code_is_told_from_prose() {
    let rust = "\
/// Who waits, and `whoever` holds
/// the desk.
fn f<'a>(c: char) -> &'a str {
    // nobody
    let s = \"who is \\\"somebody\\\" there\"; let t = 'x'; let u = '\\''; let v = '\"';
    let raw = r#\"an \"heir\" of it\"#;
    let nobody_waits = \"desk\";
    call(\"first line
          and errand\");
}
/// ```text
/// whoever draws
/// ```
/// [`Desk`], and [a link](Desk::whom).
struct S;
";
    let found = report(Path::new("f.rs"), Rust::read(rust));
    let places: Vec<&str> =
        found.iter().map(|found| found.split(' ').next().expect("a place")).collect();
    let expected = ["f.rs:1:", "f.rs:2:", "f.rs:4:", "f.rs:5:", "f.rs:6:", "f.rs:9:"];
    assert_eq!(places, expected, "{found:#?}");
}
