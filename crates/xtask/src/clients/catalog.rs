//! The clients, in the order of the matrix.

use std::time::Duration;

/// The language of a client, which decides how its libraries are installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    Python,
    Node,
    Java,
    Go,
}

/// A library and the program that uses it.
#[derive(Debug)]
pub struct Client {
    /// The name, which is that of its folder too.
    pub name: &'static str,
    /// The libraries, as their users call them.
    pub libraries: &'static str,
    /// The language of its program.
    pub language: Language,
    /// The runs of its program.
    pub runs: &'static [Run],
}

/// A run of a client's program.
#[derive(Debug)]
pub struct Run {
    /// The name, empty if it is the only one.
    pub name: &'static str,
    /// The program, if it is not that of the language.
    program: Option<&'static [&'static str]>,
    /// Its arguments.
    pub arguments: &'static [&'static str],
    /// The minutes it may take.
    minutes: u64,
}

impl Run {
    const fn only() -> Run {
        Run { name: "", program: None, arguments: &[], minutes: 20 }
    }

    /// Returns a run of one of Django's suites.
    const fn suite(arguments: &'static [&'static str]) -> Run {
        Run { name: arguments[0], program: Some(DJANGO), arguments, minutes: 15 }
    }

    /// Returns the beginning of the names of its files.
    pub fn prefix(&self) -> String {
        if self.name.is_empty() { String::new() } else { format!("{}-", self.name) }
    }

    /// Returns the time it may take.
    pub fn limit(&self) -> Duration {
        Duration::from_secs(self.minutes * 60)
    }
}

/// The runner of Django's own tests, with settings and a runner of ours.
const DJANGO: &[&str] = &["sh", "suite.sh"];
const ONLY: &[Run] = &[Run::only()];

impl Client {
    const fn new(name: &'static str, libraries: &'static str, language: Language) -> Client {
        Client { name, libraries, language, runs: ONLY }
    }

    /// Returns the program of a run, with the arguments that are the same in all runs.
    pub fn program(&self, run: &Run) -> &'static [&'static str] {
        run.program.unwrap_or(match self.language {
            Language::Python => &["env/bin/python", "-W", "ignore", "main.py"],
            Language::Node => &["node", "main.mjs"],
            Language::Java => &["java", "-cp", "classes:target/dependency/*", "Main"],
            Language::Go => &["./client"],
        })
    }
}

/// All clients.
pub static CLIENTS: &[Client] = &[
    Client::new("psycopg", "psycopg 3", Language::Python),
    Client::new("asyncpg", "asyncpg", Language::Python),
    Client::new("sqlalchemy", "SQLAlchemy 2 and Alembic", Language::Python),
    Client {
        name: "django",
        libraries: "Django 5, its own suites",
        language: Language::Python,
        runs: &[
            Run::suite(&["basic"]),
            Run::suite(&["queries"]),
            Run::suite(&["model_fields"]),
            Run::suite(&["transactions"]),
            Run::suite(&["migrations"]),
            Run::suite(&["schema"]),
            Run::suite(&["select_for_update"]),
        ],
    },
    Client::new("node-postgres", "node-postgres", Language::Node),
    Client::new("knex", "Knex", Language::Node),
    Client::new("drizzle", "Drizzle", Language::Node),
    Client::new("pgjdbc", "pgjdbc", Language::Java),
    Client::new("hibernate", "Hibernate", Language::Java),
    Client::new("flyway", "Flyway", Language::Java),
    Client::new("pgx", "pgx", Language::Go),
    Client::new("gorm", "GORM", Language::Go),
    Client::new("pg_dump", "pg_dump, psql and pg_restore", Language::Python),
];

/// Returns a client by its name.
pub fn named(name: &str) -> Result<&'static Client, String> {
    let known = || CLIENTS.iter().map(|client| client.name).collect::<Vec<_>>().join(", ");
    let found = CLIENTS.iter().find(|client| client.name == name);
    found.ok_or_else(|| format!("no client is called {name}; there are {}", known()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn every_client_has_a_folder_with_a_manifest() {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/clients");
        for client in CLIENTS {
            let manifest = sources.join(client.name).join(client.language.manifest());
            assert!(manifest.exists(), "{}", manifest.display());
        }
        let folders = sources.read_dir().expect("sources").flatten();
        let names = folders.filter(|entry| entry.path().is_dir()).map(|entry| entry.file_name());
        let strange: Vec<_> =
            names.filter(|name| !CLIENTS.iter().any(|client| *name == *client.name)).collect();
        assert!(strange.is_empty(), "no client runs {strange:?}");
    }
}
