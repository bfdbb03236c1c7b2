//! Puts a client's program and its libraries into a folder of its own.

use super::catalog::{Client, Language};
use super::process;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// The time that one step may take: a first install loads the libraries.
const LIMIT: Duration = Duration::from_secs(20 * 60);
/// The file that holds the manifest of what is installed.
const INSTALLED: &str = "installed";
/// The step that a client has beside those of its language.
const MORE: &str = "install.sh";

impl Language {
    /// Returns the name of the file with the libraries and their versions.
    pub fn manifest(self) -> &'static str {
        match self {
            Language::Python => "requirements.txt",
            Language::Node => "package.json",
            Language::Java => "pom.xml",
            Language::Go => "go.mod",
        }
    }

    /// Returns the name of the file that all programs of this language share, if they do.
    fn shared(self) -> &'static str {
        match self {
            Language::Python => "checks.py",
            Language::Node => "checks.mjs",
            Language::Java => "Checks.java",
            Language::Go => "checks.go",
        }
    }

    /// Returns the commands that install the libraries.
    fn install(self) -> &'static [&'static [&'static str]] {
        match self {
            Language::Python => &[
                &["python3", "-m", "venv", "--clear", "env"],
                &["env/bin/python", "-m", "pip", "install", "-q", "-r", "requirements.txt"],
            ],
            Language::Node => &[&["npm", "install", "--no-audit", "--no-fund"]],
            Language::Java => &[&["mvn", "-q", "-B", "dependency:copy-dependencies"]],
            Language::Go => &[&["go", "mod", "download"]],
        }
    }

    /// Returns the commands that build the program.
    fn build(self) -> &'static [&'static [&'static str]] {
        match self {
            Language::Python | Language::Node => &[],
            Language::Java => &[&["sh", "-c", "javac -d classes -cp 'target/dependency/*' *.java"]],
            Language::Go => &[&["go", "build", "-o", "client", "."]],
        }
    }
}

/// Copies the program, installs the libraries unless those of this manifest are there, and builds
/// the program.
pub fn install(client: &Client, sources: &Path, home: &Path) -> Result<(), String> {
    let language = client.language;
    copy(&sources.join(client.name), home)?;
    let shared = sources.join(language.shared());
    fs::copy(&shared, home.join(language.shared())).map_err(|error| wrong(&shared, &error))?;
    let wanted = wanted(language, home)?;
    let installed = home.join(INSTALLED);
    if fs::read_to_string(&installed).ok().as_ref() != Some(&wanted) {
        for step in language.install() {
            run(home, step)?;
        }
        if home.join(MORE).exists() {
            run(home, &["sh", MORE])?;
        }
        fs::write(&installed, wanted).map_err(|error| wrong(&installed, &error))?;
    }
    language.build().iter().try_for_each(|step| run(home, step))
}

/// Returns what decides which libraries are installed.
fn wanted(language: Language, home: &Path) -> Result<String, String> {
    let manifest = home.join(language.manifest());
    let text = fs::read_to_string(&manifest).map_err(|error| wrong(&manifest, &error))?;
    Ok(text + &fs::read_to_string(home.join(MORE)).unwrap_or_default())
}

fn run(home: &Path, step: &[&str]) -> Result<(), String> {
    let log = home.join("install.log");
    let ended = process::run(&mut process::command(home, step), &log, LIMIT)?;
    let Some(complaint) = ended.complaint() else { return Ok(()) };
    let said = fs::read_to_string(&log).unwrap_or_default();
    let last = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
    Err(format!("`{}`: {complaint}: {last}", step.join(" ")))
}

/// Copies a folder with the folders in it.
fn copy(from: &Path, to: &Path) -> Result<(), String> {
    fs::create_dir_all(to).map_err(|error| wrong(to, &error))?;
    for entry in from.read_dir().map_err(|error| wrong(from, &error))? {
        let path = entry.map_err(|error| wrong(from, &error))?.path();
        let Some(name) = path.file_name() else { continue };
        if path.is_dir() {
            copy(&path, &to.join(name))?;
        } else {
            fs::copy(&path, to.join(name)).map_err(|error| wrong(&path, &error))?;
        }
    }
    Ok(())
}

fn wrong(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", path.display())
}
