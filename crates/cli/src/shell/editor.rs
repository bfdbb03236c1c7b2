//! The interactive dialogue on a terminal: editing, history, completion, colours.

use super::backend::State;
use super::{Options, Shell, Stop, catalog};
use meridian::script::{self, Splitter};
use reedline::{
    Color, ColumnarMenu, Completer, CompletionResult, Emacs, FileBackedHistory, Highlighter,
    KeyCode, KeyModifiers, MenuBuilder, Prompt, PromptEditMode, PromptHistorySearch, Reedline,
    ReedlineEvent, ReedlineMenu, Signal, Span, StyledText, Suggestion, ValidationResult, Validator,
    default_emacs_keybindings,
};
use std::borrow::Cow;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

const HISTORY_LINES: usize = 10_000;

type Names = Arc<Mutex<Vec<String>>>;

/// Reads and runs statements until ctrl-D or `\q`.
pub fn dialogue(shell: &mut Shell, options: &Options) -> ExitCode {
    let names: Names = Arc::new(Mutex::new(catalog::names(shell.backend.as_mut())));
    let mut editor = editor(names.clone(), options);
    loop {
        let prompt = ShellPrompt {
            database: shell.backend.database().to_owned(),
            state: shell.backend.state(),
        };
        let text = match editor.read_line(&prompt) {
            Ok(Signal::Success(text)) => text,
            Ok(Signal::CtrlC) => continue,
            Ok(Signal::CtrlD) => return ExitCode::SUCCESS,
            Ok(_) => continue,
            Err(error) => {
                eprintln!("meridian: cannot read from the terminal: {error}");
                return ExitCode::FAILURE;
            }
        };
        let mut splitter = Splitter::default();
        let done = text
            .split_inclusive('\n')
            .try_for_each(|line| shell.feed(&mut splitter, line, None))
            .and_then(|()| if splitter.wants_data() { lines(shell, &mut splitter) } else { Ok(()) })
            .and_then(|()| shell.last(&mut splitter, None));
        if let Err(Stop::Quit) = done {
            return ExitCode::SUCCESS;
        }
        if changes_names(&text) && shell.backend.state() == State::Idle {
            *names.lock().unwrap_or_else(PoisonError::into_inner) =
                catalog::names(shell.backend.as_mut());
        }
    }
}

/// Reads the rows of a COPY as they are typed, without history or completion.
fn lines(shell: &mut Shell, splitter: &mut Splitter) -> Result<(), Stop> {
    println!("Enter the rows, one on each line; a line \\. or ctrl-D ends them.");
    let mut line = String::new();
    while splitter.wants_data() {
        line.clear();
        match std::io::stdin().read_line(&mut line) {
            Ok(0) => break,
            Ok(_) => shell.feed(splitter, &line, None)?,
            Err(error) => {
                return shell
                    .complain(&format!("cannot read the rows, so there was no COPY: {error}"));
            }
        }
    }
    Ok(())
}

fn changes_names(text: &str) -> bool {
    let upper = text.to_uppercase();
    ["CREATE", "DROP", "ALTER", "COMMIT", "\\C", "\\I"].iter().any(|word| upper.contains(word))
}

fn editor(names: Names, options: &Options) -> Reedline {
    let menu = ColumnarMenu::default().with_name("completion");
    let mut keys = default_emacs_keybindings();
    keys.add_binding(
        KeyModifiers::NONE,
        KeyCode::Tab,
        ReedlineEvent::UntilFound(vec![
            ReedlineEvent::Menu("completion".into()),
            ReedlineEvent::MenuNext,
        ]),
    );
    let mut editor = Reedline::create()
        .with_validator(Box::new(WholeStatements))
        .with_completer(Box::new(Words { names }))
        .with_menu(ReedlineMenu::EngineCompleter(Box::new(menu)))
        .with_edit_mode(Box::new(Emacs::new(keys)))
        .with_quick_completions(true)
        .use_bracketed_paste(true);
    if std::env::var_os("NO_COLOR").is_none() {
        editor = editor.with_highlighter(Box::new(Colours));
    } else {
        editor = editor.with_ansi_colors(false);
    }
    if !options.no_history
        && let Some(path) = history_file()
    {
        match FileBackedHistory::with_file(HISTORY_LINES, path.clone()) {
            Ok(history) => editor = editor.with_history(Box::new(history)),
            Err(error) => eprintln!("meridian: no history: {}: {error}", path.display()),
        }
    }
    editor
}

/// Returns the history file in the user's data folder.
fn history_file() -> Option<PathBuf> {
    let folder = std::env::var_os("XDG_DATA_HOME")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
        .or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".local/share")))?;
    Some(folder.join("meridian").join("history"))
}

/// Enter runs a complete statement, and opens a new line otherwise.
struct WholeStatements;

impl Validator for WholeStatements {
    fn validate(&self, line: &str) -> ValidationResult {
        if line.trim_start().starts_with('\\') || script::complete(line) {
            ValidationResult::Complete
        } else {
            ValidationResult::Incomplete
        }
    }
}

/// Completes keywords, names of the catalog, and commands.
struct Words {
    names: Names,
}

impl Completer for Words {
    fn complete(&mut self, line: &str, pos: usize) -> CompletionResult {
        let names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let (start, words) = suggestions(&line[..pos.min(line.len())], &names);
        let span = Span::new(start, pos.max(start));
        CompletionResult::fresh(
            words
                .into_iter()
                .map(|value| Suggestion {
                    value,
                    span,
                    append_whitespace: true,
                    ..Suggestion::default()
                })
                .collect::<Vec<_>>(),
        )
    }
}

/// Returns the place where the word under the cursor begins, and its completions.
fn suggestions(before: &str, names: &[String]) -> (usize, Vec<String>) {
    if before.trim_start().starts_with('\\') && !before.trim_start().contains(char::is_whitespace) {
        let typed = before.trim_start();
        let commands = catalog::COMMANDS
            .iter()
            .map(|(command, _)| command.split(' ').next().unwrap_or(command));
        let found =
            commands.filter(|command| command.starts_with(typed)).map(str::to_owned).collect();
        return (before.len() - typed.len(), found);
    }
    let start = before
        .rfind(|c: char| !c.is_alphanumeric() && c != '_')
        .map_or(0, |at| at + before[at..].chars().next().map_or(1, char::len_utf8));
    let word = &before[start..];
    if word.is_empty() {
        return (start, Vec::new());
    }
    let lower = word.to_lowercase();
    let mut found: Vec<String> = names
        .iter()
        .filter(|name| name.to_lowercase().starts_with(&lower))
        .map(|name| quoted(name))
        .collect();
    let upper = word.to_uppercase();
    // A keyword is completed in the case that the user types.
    let small = word.chars().next().is_some_and(char::is_lowercase);
    found.extend(
        catalog::KEYWORDS
            .iter()
            .filter(|keyword| keyword.starts_with(&upper))
            .map(|keyword| if small { keyword.to_lowercase() } else { (*keyword).to_owned() }),
    );
    (start, found)
}

/// Quotes a name if SQL needs it.
fn quoted(name: &str) -> String {
    let plain = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    if plain { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

/// Colours keywords blue and strings green.
struct Colours;

impl Highlighter for Colours {
    fn highlight(&self, line: &str, _cursor: usize) -> StyledText {
        let mut styled = StyledText::new();
        let mut rest = line;
        while let Some(first) = rest.chars().next() {
            let length = if first == '\'' {
                rest[1..].find('\'').map_or(rest.len(), |end| end + 2)
            } else if first.is_alphabetic() || first == '_' {
                rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len())
            } else {
                first.len_utf8()
            };
            let (word, behind) = rest.split_at(length);
            let style = if first == '\'' {
                Color::Green.normal()
            } else if is_keyword(word) {
                Color::LightBlue.normal()
            } else {
                Color::Default.normal()
            };
            styled.push((style, word.to_owned()));
            rest = behind;
        }
        styled
    }
}

fn is_keyword(word: &str) -> bool {
    let upper = word.to_uppercase();
    catalog::KEYWORDS.iter().any(|keyword| keyword.split(' ').any(|part| part == upper))
}

/// The prompt: `shop=> `, with `*` in a transaction and `!` in a failed one.
struct ShellPrompt {
    database: String,
    state: State,
}

impl Prompt for ShellPrompt {
    fn render_prompt_left(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.database)
    }

    fn render_prompt_right(&self) -> Cow<'_, str> {
        Cow::Borrowed("")
    }

    fn render_prompt_indicator(&self, _mode: PromptEditMode) -> Cow<'_, str> {
        Cow::Borrowed(match self.state {
            State::Idle => "> ",
            State::InTransaction => "*> ",
            State::Failed => "!> ",
        })
    }

    fn render_prompt_multiline_indicator(&self) -> Cow<'_, str> {
        Cow::Owned(format!("{:>1$}> ", "-", self.database.chars().count()))
    }

    fn render_prompt_history_search_indicator(&self, search: PromptHistorySearch) -> Cow<'_, str> {
        Cow::Owned(format!("(search: {}) ", search.term))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_complete_to_names_first_and_keep_the_users_case() {
        let names = vec!["orders".to_owned(), "Order Lines".to_owned()];
        assert_eq!(
            suggestions("select * from or", &names),
            (14, vec!["orders".into(), "\"Order Lines\"".into(), "or".into(), "order by".into()])
        );
        assert_eq!(suggestions("SEL", &names), (0, vec!["SELECT".into()]));
        assert_eq!(suggestions("\\ti", &names), (0, vec!["\\timing".into()]));
        assert_eq!(suggestions("select ", &names).1, Vec::<String>::new());
        assert_eq!(suggestions("ä", &names).1, Vec::<String>::new());
    }

    #[test]
    fn colours_lose_no_character() {
        for line in ["select 'a' from t;", "sel 'open", "ä ß 'ü'", ""] {
            assert_eq!(Colours.highlight(line, 0).raw_string(), line);
        }
    }
}
