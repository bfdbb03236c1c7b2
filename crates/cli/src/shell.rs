//! The SQL shell, on an embedded database or on a server.
//!
//! Lines are collected until a statement ends with `;`. A line that begins with a backslash is a
//! command of the shell itself (psql's, where psql has one). Each statement is sent alone, so that
//! an error's position is a place in the text that the user sees.
//!
//! On a terminal: line editing, history, completion, tables that fit the width. In a pipe: plain
//! aligned text, and the first error ends the script with exit code 1.

mod backend;
mod catalog;
mod command;
mod editor;
mod embedded;
mod fault;
mod remote;
mod render;

pub use backend::Backend;
pub use catalog::query;
pub use embedded::Embedded;
pub use remote::Remote;

use backend::Answer;
use clap::Args;
use meridian::script::{Piece, Splitter};
use render::Style;
use std::io::{BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// The shell's flags.
#[derive(Clone, Debug, Default, Args)]
#[group(id = "shell")]
pub struct Options {
    /// Run this and exit; may be given several times.
    #[arg(short = 'e', long = "execute", value_name = "SQL")]
    pub execute: Vec<String>,
    /// Run a file and exit; `-` is the standard input.
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    pub file: Vec<PathBuf>,
    /// Never prompt: read statements from the standard input.
    #[arg(long)]
    pub no_shell: bool,
    /// Store no history of the input.
    #[arg(long)]
    pub no_history: bool,
}

/// The handler of `\demo`, which returns the text to print.
pub type Extension = Box<dyn FnMut(&str) -> Result<String, String>>;

/// A shell.
pub struct Shell {
    backend: Box<dyn Backend>,
    extension: Option<Extension>,
    style: Style,
    timing: bool,
    /// The nesting depth of included files.
    depth: usize,
}

/// The reason why a script stopped.
enum Stop {
    /// `\q`
    Quit,
    /// A statement failed, and its error has been printed.
    Failed,
}

/// The largest nesting depth of `\i`.
const INCLUDES: usize = 16;

impl Shell {
    /// Creates a shell on a database.
    pub fn new(backend: Box<dyn Backend>) -> Shell {
        let terminal = std::io::stdout().is_terminal();
        Shell {
            backend,
            extension: None,
            style: Style { terminal, expanded: false },
            timing: false,
            depth: 0,
        }
    }

    /// Adds the handler of `\demo`.
    pub fn with_extension(mut self, extension: Extension) -> Shell {
        self.extension = Some(extension);
        self
    }

    /// Runs the statements, files, standard input or dialogue that the options name.
    pub fn run(mut self, options: &Options) -> ExitCode {
        let code = match self.batch(options) {
            Some(Ok(()) | Err(Stop::Quit)) => ExitCode::SUCCESS,
            Some(Err(Stop::Failed)) => ExitCode::FAILURE,
            None => editor::dialogue(&mut self, options),
        };
        // A closed pipe is not an error of the shell.
        let _ = std::io::stdout().flush();
        code
    }

    fn batch(&mut self, options: &Options) -> Option<Result<(), Stop>> {
        let interactive =
            std::io::stdin().is_terminal() && std::io::stdout().is_terminal() && !options.no_shell;
        if options.execute.is_empty() && options.file.is_empty() {
            return if interactive { None } else { Some(self.stdin()) };
        }
        Some((|| {
            for sql in &options.execute {
                self.execute(sql)?;
            }
            for file in &options.file {
                if file.as_os_str() == "-" {
                    self.stdin()?;
                } else {
                    self.include(file)?;
                }
            }
            Ok(())
        })())
    }

    /// Runs a text of the command line; the rows of a COPY at its end are on the standard input.
    fn execute(&mut self, sql: &str) -> Result<(), Stop> {
        let mut splitter = Splitter::default();
        for line in sql.split_inclusive('\n') {
            self.feed(&mut splitter, line, None)?;
        }
        if !splitter.wants_data() {
            // Ends the statement as a `;` would, so that its rows are read.
            self.feed(&mut splitter, "\n;", None)?;
        }
        if splitter.wants_data() {
            self.read(&mut splitter)
        } else {
            self.last(&mut splitter, None)
        }
    }

    fn stdin(&mut self) -> Result<(), Stop> {
        self.read(&mut Splitter::default())
    }

    /// Reads the standard input to its end.
    fn read(&mut self, splitter: &mut Splitter) -> Result<(), Stop> {
        let mut stdin = std::io::stdin().lock();
        let mut bytes = Vec::new();
        loop {
            bytes.clear();
            match stdin.read_until(b'\n', &mut bytes) {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) => {
                    return self.complain(&format!("cannot read the standard input: {error}"));
                }
            }
            let Ok(line) = std::str::from_utf8(&bytes) else {
                return self.complain("the standard input is not UTF-8 text");
            };
            self.feed(splitter, line, None)?;
        }
        self.last(splitter, None)
    }

    /// Runs a file.
    fn include(&mut self, path: &std::path::Path) -> Result<(), Stop> {
        if self.depth >= INCLUDES {
            return self.complain("\\i: files include each other too deeply");
        }
        match std::fs::read(path).map(String::from_utf8) {
            Ok(Ok(text)) => {
                self.depth += 1;
                let done = self.script(&text, Some(&path.display().to_string()));
                self.depth -= 1;
                done
            }
            Ok(Err(_)) => self.complain(&format!("{} is not UTF-8 text", path.display())),
            Err(error) => self.complain(&format!("cannot read {}: {error}", path.display())),
        }
    }

    fn complain(&mut self, message: &str) -> Result<(), Stop> {
        eprintln!("meridian: {message}");
        Err(Stop::Failed)
    }

    fn script(&mut self, text: &str, file: Option<&str>) -> Result<(), Stop> {
        let mut splitter = Splitter::default();
        for line in text.split_inclusive('\n') {
            self.feed(&mut splitter, line, file)?;
        }
        self.last(&mut splitter, file)
    }

    fn feed(
        &mut self,
        splitter: &mut Splitter,
        line: &str,
        file: Option<&str>,
    ) -> Result<(), Stop> {
        if splitter.is_empty() && line.trim_start().starts_with('\\') {
            splitter.skip_line();
            return self.command(line.trim());
        }
        splitter.push(line);
        while let Some(statement) = splitter.next_statement() {
            self.statement(&statement, file)?;
        }
        Ok(())
    }

    /// Runs the last statement of a script, which needs no `;`.
    fn last(&mut self, splitter: &mut Splitter, file: Option<&str>) -> Result<(), Stop> {
        match splitter.rest() {
            Some(statement) => self.statement(&statement, file),
            None => Ok(()),
        }
    }

    /// Runs one statement and prints its results.
    fn statement(&mut self, statement: &Piece, file: Option<&str>) -> Result<(), Stop> {
        let place = file.map(|file| (file, statement.line));
        self.send(&statement.sql, statement.data.as_deref().map(str::as_bytes), None, place)
    }

    /// Sends one statement, with the data of COPY … FROM, and prints its results. The data of COPY
    /// … TO goes to a file, or to the standard output.
    fn send(
        &mut self,
        sql: &str,
        data: Option<&[u8]>,
        into: Option<&Path>,
        place: Option<(&str, usize)>,
    ) -> Result<(), Stop> {
        let began = Instant::now();
        let answers = match data {
            Some(data) => self.backend.copy(sql, data),
            None => self.backend.run(sql),
        };
        let took = began.elapsed();
        let mut failed = false;
        for answer in answers {
            match answer {
                Answer::Rows { headings, rows, tag } => {
                    self.print(&self.style.rows(&headings, &rows, &tag))
                }
                Answer::Copied(data) => match into {
                    Some(file) => match std::fs::write(file, &data) {
                        Ok(()) => self.print(&format!("wrote {}\n", file.display())),
                        Err(error) => {
                            let message = format!("cannot write {}: {error}", file.display());
                            return self.complain(&message);
                        }
                    },
                    None => self.write(&data),
                },
                Answer::Done(tag) => self.print(&format!("{tag}\n")),
                Answer::Notice(fault) => eprint!("{}", fault.show(sql, place)),
                Answer::Failed(fault) => {
                    failed = true;
                    // Earlier output comes first, even if both streams go to one file.
                    let _ = std::io::stdout().flush();
                    eprint!("{}", fault.show(sql, place));
                }
            }
        }
        if self.timing {
            self.print(&format!("Time: {}\n", milliseconds(took)));
        }
        if failed { Err(Stop::Failed) } else { Ok(()) }
    }

    /// Prints; a closed reader (`| head`) ends the program quietly, as with other tools.
    fn print(&self, text: &str) {
        self.write(text.as_bytes());
    }

    fn write(&self, bytes: &[u8]) {
        if std::io::stdout().write_all(bytes).is_err() {
            std::process::exit(0);
        }
    }
}

fn milliseconds(time: Duration) -> String {
    format!("{:.3} ms", time.as_secs_f64() * 1000.0)
}
