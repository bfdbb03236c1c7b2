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
/// The file that lists the files that were copied, so that those whose source is gone go, too.
const COPIED: &str = "copied";
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
            Language::Java => &[&[
                "sh",
                "-c",
                "rm -rf classes && javac -d classes -cp 'target/dependency/*' *.java",
            ]],
            Language::Go => &[&["go", "build", "-o", "client", "."]],
        }
    }
}

/// Copies the program, installs the libraries unless those of this manifest are there, and builds
/// the program.
pub fn install(client: &Client, sources: &Path, home: &Path) -> Result<(), String> {
    let language = client.language;
    fs::create_dir_all(home).map_err(|error| wrong(home, &error))?;
    let before = fs::read_to_string(home.join(COPIED)).unwrap_or_default();
    before.lines().try_for_each(|name| remove(&home.join(name)))?;
    let mut copied = Vec::new();
    copy(&sources.join(client.name), home, Path::new(""), &mut copied)?;
    let shared = sources.join(language.shared());
    fs::copy(&shared, home.join(language.shared())).map_err(|error| wrong(&shared, &error))?;
    copied.push(language.shared().to_owned());
    let list = home.join(COPIED);
    fs::write(&list, copied.join("\n")).map_err(|error| wrong(&list, &error))?;
    let wanted = wanted(language, home)?;
    let installed = home.join(INSTALLED);
    if fs::read_to_string(&installed).ok().as_ref() != Some(&wanted) {
        // What a step that fails leaves is not installed.
        remove(&installed)?;
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

/// Copies what a place inside a folder has to that place in another one, with the folders in it.
/// Adds the files' names there to `copied`.
fn copy(from: &Path, to: &Path, place: &Path, copied: &mut Vec<String>) -> Result<(), String> {
    let (from_here, to_here) = (from.join(place), to.join(place));
    fs::create_dir_all(&to_here).map_err(|error| wrong(&to_here, &error))?;
    for entry in from_here.read_dir().map_err(|error| wrong(&from_here, &error))? {
        let path = entry.map_err(|error| wrong(&from_here, &error))?.path();
        let Some(name) = path.file_name() else { continue };
        let place = place.join(name);
        if path.is_dir() {
            copy(from, to, &place, copied)?;
        } else {
            fs::copy(&path, to.join(&place)).map_err(|error| wrong(&path, &error))?;
            copied.push(place.to_string_lossy().into_owned());
        }
    }
    Ok(())
}

/// Removes a file, if it is there.
fn remove(file: &Path) -> Result<(), String> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(wrong(file, &error)),
        _ => Ok(()),
    }
}

fn wrong(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_has_the_files_of_its_source_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let (sources, home) = (folder.path().join("sources"), folder.path().join("home"));
        let client = super::super::catalog::named("node-postgres").expect("a client");
        let program = sources.join(client.name);
        fs::create_dir_all(program.join("steps")).expect("is made");
        let manifest = client.language.manifest();
        for name in [manifest, "main.mjs", "steps/one.sql", "steps/two.sql"] {
            fs::write(program.join(name), "{}").expect("is written");
        }
        fs::write(sources.join("checks.mjs"), "").expect("is written");
        // It is installed already: no step runs.
        fs::create_dir_all(&home).expect("is made");
        fs::write(home.join(INSTALLED), "{}").expect("is written");
        fs::write(home.join("made.log"), "").expect("is written");
        install(client, &sources, &home).expect("is there");
        assert!(home.join("steps/two.sql").exists());
        fs::remove_file(program.join("steps/two.sql")).expect("is removed");
        install(client, &sources, &home).expect("is there");
        assert!(home.join("steps/one.sql").exists() && home.join("checks.mjs").exists());
        assert!(!home.join("steps/two.sql").exists(), "its source is gone");
        assert!(home.join("made.log").exists(), "it was no copy");
    }
}
