//! Connections to any PostgreSQL-compatible server, and complete error messages.

use tokio_postgres::{Client, Config, NoTls};

/// Connects; the connection's driver runs until the client is dropped.
pub async fn open(url: &str) -> Result<Client, String> {
    let mut config: Config = url.parse().map_err(|error| {
        format!(
            "not a connection URL: {url}: {error}; expected postgresql://USER@HOST:PORT/DATABASE"
        )
    })?;
    if config.get_application_name().is_none() {
        config.application_name("meridian workload");
    }
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(std::time::Duration::from_secs(5));
    }
    let (client, connection) = config.connect(NoTls).await.map_err(|error| {
        format!(
            "cannot connect to {}: {}; is the server running there?",
            address(&config),
            explain(&error)
        )
    })?;
    tokio::spawn(async move {
        // The client sees the same failure at its next request.
        let _ = connection.await;
    });
    Ok(client)
}

/// Returns the URL's host and port, without its password.
fn address(config: &Config) -> String {
    use tokio_postgres::config::Host;
    let host = match config.get_hosts().first() {
        Some(Host::Tcp(name)) => name.clone(),
        Some(Host::Unix(path)) => path.display().to_string(),
        None => "localhost".to_owned(),
    };
    let port = config.get_ports().first().copied().unwrap_or(5432);
    format!("{host}:{port}")
}

/// Returns the server's message with its SQLSTATE, or the underlying error of the connection.
pub fn explain(error: &tokio_postgres::Error) -> String {
    use std::error::Error;
    if let Some(db) = error.as_db_error() {
        let mut text = format!("{} (SQLSTATE {})", db.message(), db.code().code());
        if let Some(detail) = db.detail() {
            text += &format!("; {detail}");
        }
        if let Some(hint) = db.hint() {
            text += &format!("; {hint}");
        }
        return text;
    }
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}
