//! Concurrent clients, each on its own connection, each counting the outcomes of its transactions.

use super::bank::Bank;
use super::report::{Counts, Latencies, Report};
use super::tpcb::Tpcb;
use super::tpcc::Tpcc;
use super::{Kind, connect};
use rand::SeedableRng;
use rand::rngs::StdRng;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use tokio_postgres::{Client, Error};

/// The number of retries before a transaction counts as failed.
const RETRIES: usize = 100;
/// The pause before a lost connection is opened again.
const PAUSE: Duration = Duration::from_millis(100);
/// The time after the end within which a response still counts.
const GRACE: Duration = Duration::from_secs(10);

/// The current attempt. Once COMMIT has been sent, a lost connection leaves the outcome unknown.
#[derive(Default)]
pub struct Step {
    commit_sent: Cell<bool>,
}

impl Step {
    /// Sends COMMIT and waits for its response.
    pub async fn commit(&self, client: &Client) -> Result<(), Error> {
        self.commit_sent.set(true);
        client.batch_execute("COMMIT").await
    }
}

/// The conclusion from an error.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    /// Aborted for a conflict: the client retries.
    Again,
    /// Definitely did not happen.
    Failed,
    /// May have happened.
    Unknown,
}

fn verdict(sqlstate: Option<&str>, commit_sent: bool) -> Verdict {
    match sqlstate {
        Some("40001" | "40P01") => Verdict::Again,
        // The server does not know the outcome, or crashed during the commit.
        Some("40003" | "08007") => Verdict::Unknown,
        Some("57P01" | "57P02") if commit_sent => Verdict::Unknown,
        Some(_) => Verdict::Failed,
        None if commit_sent => Verdict::Unknown,
        None => Verdict::Failed,
    }
}

/// The workload, prepared on one connection.
enum Prepared {
    Bank(Bank),
    Tpcb(Box<Tpcb>),
    Tpcc(Box<Tpcc>),
}

impl Prepared {
    async fn on(kind: Kind, client: &Client) -> Result<Prepared, String> {
        Ok(match kind {
            Kind::Bank { plain_reads } => Prepared::Bank(Bank::prepare(client, plain_reads).await?),
            Kind::Tpcb => Prepared::Tpcb(Box::new(Tpcb::prepare(client).await?)),
            Kind::Tpcc => Prepared::Tpcc(Box::new(Tpcc::prepare(client).await?)),
        })
    }

    /// Runs one transaction, and returns its kind.
    async fn step(
        &self,
        client: &Client,
        random: &mut StdRng,
        step: &Step,
    ) -> Result<&'static str, Error> {
        match self {
            Prepared::Bank(bank) => bank.step(client, random, step).await.map(|()| "transfer"),
            Prepared::Tpcb(tpcb) => tpcb.step(client, random, step).await.map(|()| "tpcb"),
            Prepared::Tpcc(tpcc) => tpcc.step(client, random, step).await,
        }
    }
}

/// Runs the workload and prints the report.
pub async fn run(kind: Kind, url: &str, clients: u32, duration_s: f64) -> Result<(), String> {
    let counts = Arc::new(Counts::default());
    let mut opened = Vec::new();
    for _ in 0..clients {
        // Sequentially, so that a wrong URL or a missing table is reported once and at once.
        let client = connect::open(url).await?;
        let prepared = Prepared::on(kind, &client).await?;
        opened.push((client, prepared));
    }
    let report = Report::begin(kind.name(), clients, duration_s, counts.clone());
    let end = Instant::now() + Duration::from_secs_f64(duration_s);
    let mut workers = JoinSet::new();
    let local = tokio::task::LocalSet::new();
    for connected in opened {
        let (url, counts) = (url.to_owned(), counts.clone());
        workers
            .spawn_local_on(async move { work(kind, url, connected, end, counts).await }, &local);
    }
    let mut latencies = Latencies::default();
    let all = local.run_until(async {
        let mut tick = tokio::time::interval(Duration::from_secs(1));
        tick.tick().await;
        let late = tokio::time::sleep_until((end + GRACE).into());
        tokio::pin!(late);
        loop {
            tokio::select! {
                worker = workers.join_next() => match worker {
                    None => return true,
                    Some(Ok(one)) => latencies.add(one),
                    Some(Err(_)) => {}
                },
                _ = tick.tick() => report.progress(),
                () = &mut late => return false,
            }
        }
    });
    let answered = all.await;
    report.finish(&latencies);
    if !answered {
        return Err(format!(
            "some clients had no response {} s after the end; their transactions are not counted",
            GRACE.as_secs()
        ));
    }
    if counts.ok.load(Relaxed) == 0 {
        return Err("no transaction committed".to_owned());
    }
    Ok(())
}

/// Returns another seed for every client, from the random keys of the standard library's hash maps.
fn seed() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::hash::RandomState::new().build_hasher().finish()
}

/// Runs one client until the end.
async fn work(
    kind: Kind,
    url: String,
    connected: (Client, Prepared),
    end: Instant,
    counts: Arc<Counts>,
) -> Latencies {
    let mut latencies = Latencies::default();
    let mut random = StdRng::seed_from_u64(seed());
    let mut connected = Some(connected);
    while Instant::now() < end {
        let Some((client, prepared)) = &connected else {
            connected = reopen(kind, &url).await;
            if connected.is_none() {
                tokio::time::sleep(PAUSE).await;
            }
            continue;
        };
        let began = Instant::now();
        let mut retries = 0;
        // A repetition makes the choices of the first attempt.
        let choices = random.clone();
        loop {
            let step = Step::default();
            random.clone_from(&choices);
            let error = match prepared.step(client, &mut random, &step).await {
                Ok(which) => {
                    counts.ok.fetch_add(1, Relaxed);
                    latencies.record(which, began.elapsed());
                    break;
                }
                Err(error) => error,
            };
            let found = verdict(error.code().map(|code| code.code()), step.commit_sent.get());
            let alive = !client.is_closed() && client.batch_execute("ROLLBACK").await.is_ok();
            if found == Verdict::Again && alive && retries < RETRIES {
                retries += 1;
                counts.retried.fetch_add(1, Relaxed);
                continue;
            }
            match found {
                Verdict::Unknown => counts.unknown.fetch_add(1, Relaxed),
                Verdict::Again | Verdict::Failed => counts.failed.fetch_add(1, Relaxed),
            };
            counts.remember(connect::explain(&error));
            if !alive {
                connected = None;
            }
            break;
        }
    }
    latencies
}

async fn reopen(kind: Kind, url: &str) -> Option<(Client, Prepared)> {
    let client = connect::open(url).await.ok()?;
    let prepared = Prepared::on(kind, &client).await.ok()?;
    Some((client, prepared))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conflict_is_retried_whenever_it_is_reported() {
        assert_eq!(verdict(Some("40001"), false), Verdict::Again);
        assert_eq!(verdict(Some("40001"), true), Verdict::Again);
        assert_eq!(verdict(Some("40P01"), false), Verdict::Again);
    }

    #[test]
    fn a_connection_lost_after_commit_was_sent_leaves_the_outcome_unknown() {
        assert_eq!(verdict(None, true), Verdict::Unknown);
        assert_eq!(verdict(Some("57P01"), true), Verdict::Unknown);
        assert_eq!(verdict(Some("40003"), true), Verdict::Unknown);
    }

    #[test]
    fn what_was_never_committed_failed_for_sure() {
        assert_eq!(verdict(None, false), Verdict::Failed);
        assert_eq!(verdict(Some("57P01"), false), Verdict::Failed);
        assert_eq!(verdict(Some("53100"), true), Verdict::Failed);
    }
}
