//! The output of a run: a moving line on a terminal, plain lines in a pipe, a table at the end.

use hdrhistogram::Histogram;
use indicatif::{ProgressBar, ProgressStyle};
use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The transactions by outcome.
#[derive(Default)]
pub struct Counts {
    /// COMMIT was acknowledged.
    pub ok: AtomicU64,
    /// Retried after a conflict.
    pub retried: AtomicU64,
    /// Definitely did not happen.
    pub failed: AtomicU64,
    /// May have happened.
    pub unknown: AtomicU64,
    first_error: Mutex<Option<String>>,
}

impl Counts {
    /// Keeps the first error, which the report shows.
    pub fn remember(&self, error: String) {
        let mut first = self.first_error.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        first.get_or_insert(error);
    }
}

/// The latencies of committed transactions, by the kind of transaction, in microseconds.
#[derive(Default)]
pub struct Latencies {
    by_kind: BTreeMap<&'static str, Histogram<u64>>,
}

impl Latencies {
    /// Adds a transaction.
    pub fn record(&mut self, kind: &'static str, took: Duration) {
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.by_kind.entry(kind).or_insert_with(histogram).saturating_record(us);
    }

    /// Adds those of another client.
    pub fn add(&mut self, other: Latencies) {
        for (kind, us) in other.by_kind {
            // The bounds are the same.
            let _ = self.by_kind.entry(kind).or_insert_with(histogram).add(us);
        }
    }

    fn all(&self) -> Histogram<u64> {
        let mut all = histogram();
        for us in self.by_kind.values() {
            let _ = all.add(us); // The bounds are the same.
        }
        all
    }
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 3_600_000_000, 3).expect("invariant: these bounds are valid")
}

fn ms(us: u64) -> f64 {
    us as f64 / 1000.0
}

fn on_terminal() -> bool {
    std::io::stderr().is_terminal()
}

/// Progress of filling a table.
pub struct Filling {
    bar: Option<ProgressBar>,
}

impl Filling {
    /// Begins; small tables show no progress.
    pub fn new(table: &str, rows: u64) -> Filling {
        let show = on_terminal() && rows > 1000;
        let bar = show.then(|| {
            let style = ProgressStyle::with_template(
                "{msg} {bar:30} {human_pos}/{human_len} rows, {eta} left",
            )
            .unwrap_or_else(|_| ProgressStyle::default_bar());
            ProgressBar::new(rows).with_style(style).with_message(table.to_owned())
        });
        Filling { bar }
    }

    /// Shows that `rows` rows are loaded.
    pub fn at(&self, rows: u64) {
        if let Some(bar) = &self.bar {
            bar.set_position(rows);
        }
    }

    /// Ends the progress display.
    pub fn done(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// The report of a run in progress.
pub struct Report {
    title: String,
    began: Instant,
    counts: Arc<Counts>,
    last_ok: AtomicU64,
    bar: Option<ProgressBar>,
}

impl Report {
    /// Begins the report.
    pub fn begin(workload: &str, clients: u32, duration_s: f64, counts: Arc<Counts>) -> Report {
        let title = format!("{workload}, {clients} clients, {duration_s} s");
        let bar = on_terminal().then(|| {
            let style = ProgressStyle::with_template("{spinner} {msg}")
                .unwrap_or_else(|_| ProgressStyle::default_spinner());
            let bar =
                ProgressBar::new_spinner().with_style(style).with_message(format!("{title} …"));
            bar.enable_steady_tick(Duration::from_millis(100));
            bar
        });
        Report { title, began: Instant::now(), counts, last_ok: AtomicU64::new(0), bar }
    }

    /// Prints the progress; called once a second.
    pub fn progress(&self) {
        let ok = self.counts.ok.load(Relaxed);
        let since = ok - self.last_ok.swap(ok, Relaxed);
        let line = format!(
            "{:>4.0} s  {since:>7} tx/s  ok {ok}  retried {}  failed {}  unknown {}",
            self.began.elapsed().as_secs_f64(),
            self.counts.retried.load(Relaxed),
            self.counts.failed.load(Relaxed),
            self.counts.unknown.load(Relaxed),
        );
        match &self.bar {
            Some(bar) => bar.set_message(line),
            None => println!("{line}"),
        }
    }

    /// Prints the table.
    pub fn finish(self, latencies: &Latencies) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        let ok = self.counts.ok.load(Relaxed);
        let took = self.began.elapsed().as_secs_f64();
        println!("{}", self.title);
        println!("  ok       {ok:>10}   {:.1} transactions/s", ok as f64 / took);
        println!(
            "  retried  {:>10}   the server asked for it (40001, 40P01)",
            self.counts.retried.load(Relaxed)
        );
        println!("  failed   {:>10}   definitely did not happen", self.counts.failed.load(Relaxed));
        println!(
            "  unknown  {:>10}   no response to COMMIT: may have happened",
            self.counts.unknown.load(Relaxed)
        );
        let all = latencies.all();
        if !all.is_empty() {
            println!(
                "  latency ms   mean {:.2}   p50 {:.2}   p90 {:.2}   p99 {:.2}   p99.9 {:.2}   max {:.2}",
                all.mean() / 1000.0,
                ms(all.value_at_quantile(0.5)),
                ms(all.value_at_quantile(0.9)),
                ms(all.value_at_quantile(0.99)),
                ms(all.value_at_quantile(0.999)),
                ms(all.max()),
            );
        }
        if latencies.by_kind.len() > 1 {
            for (kind, us) in &latencies.by_kind {
                println!(
                    "  {kind:<13} {:>6}   {:.0} per minute   p50 {:.2} ms   p99 {:.2} ms",
                    us.len(),
                    us.len() as f64 / took * 60.0,
                    ms(us.value_at_quantile(0.5)),
                    ms(us.value_at_quantile(0.99)),
                );
            }
        }
        let first =
            self.counts.first_error.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(error) = &*first {
            println!("  first error: {error}");
        }
    }
}
