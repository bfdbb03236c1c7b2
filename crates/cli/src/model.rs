//! `meridian model`: what a protocol's analytical model predicts, of inputs that are given or that
//! a node has measured.

use crate::workload::connect;
use clap::{Args, Subcommand};
use meridian_clock::duration;
use meridian_figures::clock_si_model::{Delay, Model};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use tokio_postgres::{Client, SimpleQueryMessage};

/// The largest skew that an age of snapshots is suggested for, in standard deviations.
const DEVIATIONS: f64 = 3.0;

/// The probability below which a delay is not worth its digits.
const RARE: f64 = 1e-6;

/// The models.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Clock-SI (§IV of the paper): how often and how long transactions are delayed, how often
    /// updates abort, and which age of snapshots avoids delays. The defaults are the paper's
    /// example; with --url, what the node has measured.
    ClockSi(ClockSi),
}

/// The inputs of Clock-SI's model.
#[derive(Clone, Debug, Args)]
pub struct ClockSi {
    /// A node of a running cluster, and a database with `PROTOCOL = clock_si`: S, RRD, δ and TPS_u
    /// are what it has measured, unless given
    #[arg(long)]
    url: Option<String>,
    /// How long the node's commits are counted
    #[arg(long, default_value = "2s", value_parser = time, requires = "url")]
    interval: Duration,
    /// The number of items, which are accessed uniformly (DBSize)
    #[arg(long, default_value = "10000000", value_parser = positive)]
    dbsize: f64,
    /// Update transactions in a second (TPS_u) [default: 10000]
    #[arg(long, value_parser = number)]
    tps: Option<f64>,
    /// The items that a read transaction reads (R)
    #[arg(long, default_value = "10", value_parser = number)]
    reads: f64,
    /// The items that an update transaction writes (W)
    #[arg(long, default_value = "10", value_parser = number)]
    writes: f64,
    /// How long a read transaction lasts (L_r) [default: 4ms; with --url, RRD]
    #[arg(long, value_parser = time)]
    read_time: Option<Duration>,
    /// How long an update transaction lasts (L_u) [default: 32ms; with --url, S + RRD]
    #[arg(long, value_parser = time)]
    update_time: Option<Duration>,
    /// How long it takes to make a commit durable (S) [default: 8ms]
    #[arg(long, value_parser = time)]
    sync: Option<Duration>,
    /// The round trip between two partitions (RRD) [default: 200us]
    #[arg(long, value_parser = time)]
    round_trip: Option<Duration>,
    /// The standard deviation of the skew between two clocks (δ) [default: 0ms; with --url, a third
    /// of the uncertainty of the node's clock]
    #[arg(long, value_parser = time)]
    skew: Option<Duration>,
    /// The mean of the skew (μ)
    #[arg(long, default_value = "0ms", value_parser = time)]
    skew_mean: Duration,
    /// The age of snapshots (Δ); several with commas
    #[arg(long, default_value = "0ms", value_delimiter = ',', value_parser = time)]
    age: Vec<Duration>,
}

/// The inputs that are neither given nor have one default.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Base {
    tps: f64,
    read_s: f64,
    update_s: f64,
    sync_s: f64,
    round_trip_s: f64,
    skew_s: f64,
}

impl Base {
    /// The paper's example.
    const EXAMPLE: Base = Base {
        tps: Model::EXAMPLE.updates_per_s,
        read_s: Model::EXAMPLE.read_s,
        update_s: Model::EXAMPLE.update_s,
        sync_s: Model::EXAMPLE.sync_s,
        round_trip_s: Model::EXAMPLE.round_trip_s,
        skew_s: Model::EXAMPLE.skew_deviation_s,
    };

    /// Returns what a node has measured, and counts its commits for a while.
    async fn measured(url: &str, interval: Duration) -> Result<Base, String> {
        let client = connect::open(url).await?;
        let began = Instant::now();
        let before = Measured::ask(&client).await?;
        tokio::time::sleep(interval).await;
        let now = Measured::ask(&client).await?;
        let (sync_s, round_trip_s) = (now.sync_ms / 1e3, now.round_trip_ms / 1e3);
        Ok(Base {
            tps: (now.commits - before.commits) / began.elapsed().as_secs_f64(),
            read_s: round_trip_s,
            update_s: sync_s + round_trip_s,
            sync_s,
            round_trip_s,
            skew_s: now.skew_ms / 1e3 / DEVIATIONS,
        })
    }
}

/// A node's measurements, as SHOW gives them.
struct Measured {
    sync_ms: f64,
    round_trip_ms: f64,
    skew_ms: f64,
    commits: f64,
}

impl Measured {
    async fn ask(client: &Client) -> Result<Measured, String> {
        const SHOW: &str = "SHOW meridian.snapshot_age_auto";
        let answers = client.simple_query(SHOW).await.map_err(|error| connect::explain(&error))?;
        let row = answers.iter().find_map(|answer| match answer {
            SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        });
        let part = |name: &str| {
            let text = row.and_then(|row| row.try_get(name).ok().flatten());
            let found = text.and_then(|text| text.parse().ok());
            found.ok_or_else(|| format!("the server does not know {name} of {SHOW}: is it older?"))
        };
        Ok(Measured {
            sync_ms: part("commit_delay_ms")?,
            round_trip_ms: part("round_trip_ms")?,
            skew_ms: part("skew_ms")?,
            commits: part("commits")?,
        })
    }
}

fn number(text: &str) -> Result<f64, String> {
    let found = text.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0);
    found.ok_or_else(|| "a number that is not negative".to_owned())
}

fn positive(text: &str) -> Result<f64, String> {
    number(text).ok().filter(|number| *number > 0.0).ok_or_else(|| "a number above zero".to_owned())
}

fn time(text: &str) -> Result<Duration, String> {
    duration::parse(text).ok_or_else(|| "a duration, for example 200us or 8.2ms".to_owned())
}

/// Runs the command.
pub async fn run(command: &Command) -> ExitCode {
    let Command::ClockSi(inputs) = command;
    let base = match &inputs.url {
        Some(url) => Base::measured(url, inputs.interval).await,
        None => Ok(Base::EXAMPLE),
    };
    match base {
        Ok(base) => {
            print!("{}", inputs.told(&base));
            ExitCode::SUCCESS
        }
        Err(message) => {
            eprintln!("meridian: {message}");
            ExitCode::FAILURE
        }
    }
}

impl ClockSi {
    fn model(&self, base: &Base) -> Model {
        let seconds =
            |given: Option<Duration>, base_s: f64| given.map_or(base_s, |time| time.as_secs_f64());
        Model {
            items: self.dbsize,
            updates_per_s: self.tps.unwrap_or(base.tps),
            reads: self.reads,
            writes: self.writes,
            read_s: seconds(self.read_time, base.read_s),
            update_s: seconds(self.update_time, base.update_s),
            sync_s: seconds(self.sync, base.sync_s),
            round_trip_s: seconds(self.round_trip, base.round_trip_s),
            skew_mean_s: self.skew_mean.as_secs_f64(),
            skew_deviation_s: seconds(self.skew, base.skew_s),
            age_s: 0.0,
        }
    }

    fn told(&self, base: &Base) -> String {
        let model = self.model(base);
        let largest_s = model.skew_mean_s + DEVIATIONS * model.skew_deviation_s;
        let suggested = duration_of(model.suggested_age_s(largest_s));
        let mut ages = self.age.clone();
        ages.push(suggested);
        ages.sort();
        ages.dedup();
        let mut lines = vec![
            "| snapshot age | delayed by commits | delayed by skew | updates that abort |"
                .to_owned(),
            "|---|---|---|---|".to_owned(),
        ];
        lines.extend(ages.into_iter().map(|age| {
            let aged = model.aged(age.as_secs_f64());
            let (by_commits, by_skew) = (delay(aged.by_commits()), delay(aged.by_skew()));
            let note = if age == suggested { ", suggested" } else { "" };
            let aborts = percent(aged.aborts());
            format!("| {}{note} | {by_commits} | {by_skew} | {aborts} |", span(age.as_secs_f64()))
        }));
        let Model { updates_per_s, sync_s, round_trip_s, skew_deviation_s, .. } = model;
        let inputs = match &self.url {
            None => String::new(),
            Some(_) => format!(
                "S {}, RRD {}, δ {}, {} updates in a second.\n\n",
                span(sync_s),
                span(round_trip_s),
                span(skew_deviation_s),
                significant(updates_per_s)
            ),
        };
        format!(
            "{inputs}{}\n\nCommitting window {}. The suggested age is the larger of the window, and of a \
             skew of\n{} ({DEVIATIONS} deviations) less half a round trip. Delays by skew are those \
             of reads at another\npartition.\n",
            lines.join("\n"),
            span(model.window_s()),
            span(largest_s)
        )
    }
}

/// Returns a duration of whole nanoseconds, at most 584 years.
fn duration_of(seconds: f64) -> Duration {
    Duration::from_nanos((seconds * 1e9).round() as u64)
}

fn delay(delay: Delay) -> String {
    match delay.probability {
        0.0 => return "none".to_owned(),
        rare if rare < RARE => return "less than one in a million".to_owned(),
        _ => {}
    }
    let Delay { probability, duration_s } = delay;
    let mean = span(delay.mean_s());
    format!("{} for {}, {mean} on average", percent(probability), span(duration_s))
}

/// Returns a share in percent, with three significant digits.
fn percent(share: f64) -> String {
    format!("{} %", significant(share * 100.0))
}

/// Returns seconds in a unit that suits them, with three significant digits.
fn span(seconds: f64) -> String {
    let (scale, unit) = match seconds {
        0.0 => return "0 ms".to_owned(),
        short if short < 1e-6 => (1e9, "ns"),
        short if short < 1e-3 => (1e6, "µs"),
        short if short < 1.0 => (1e3, "ms"),
        _ => (1.0, "s"),
    };
    format!("{} {unit}", significant(seconds * scale))
}

fn significant(number: f64) -> String {
    if number == 0.0 {
        return "0".to_owned();
    }
    let decimals = (2 - number.abs().log10().floor() as i32).clamp(0, 12) as usize;
    let text = format!("{number:.decimals$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(subcommand)]
        command: Command,
    }

    fn told(flags: &[&str]) -> Result<String, String> {
        let line = ["model", "clock-si"].into_iter().chain(flags.iter().copied());
        let line = Line::try_parse_from(line).map_err(|error| error.to_string())?;
        let Command::ClockSi(inputs) = line.command;
        Ok(inputs.told(&Base::EXAMPLE))
    }

    #[test]
    fn the_defaults_are_the_papers_example() {
        let line = Line::try_parse_from(["model", "clock-si"]).unwrap();
        let Command::ClockSi(inputs) = line.command;
        assert_eq!(inputs.model(&Base::EXAMPLE), Model::EXAMPLE);
        let told = told(&[]).unwrap();
        let fresh = "| 0 ms | 0.082 % for 4.1 ms, 3.36 µs on average | none | 0.32 % |";
        let old = "| 8.2 ms, suggested | none | none | 0.402 % |";
        assert!(told.contains(fresh) && told.contains(old), "{told}");
    }

    #[test]
    fn what_a_node_has_measured_counts_unless_it_is_given() {
        let line = ["model", "clock-si", "--url", "postgresql://h/d", "--sync", "9ms"];
        let Command::ClockSi(inputs) = Line::try_parse_from(line).unwrap().command;
        let base =
            Base { tps: 5.0, sync_s: 1.0, round_trip_s: 2e-3, skew_s: 3e-3, ..Base::EXAMPLE };
        let text = inputs.told(&base);
        assert!(
            text.starts_with("S 9 ms, RRD 2 ms, δ 3 ms, 5 updates in a second.\n\n|"),
            "{text}"
        );
        let why = told(&["--interval", "1s"]).unwrap_err();
        assert!(why.contains("--url"), "{why}");
    }

    #[test]
    fn skew_is_a_reason_for_older_snapshots() {
        let told = told(&["--skew", "10ms", "--age", "0ms,5ms"]).unwrap();
        assert!(told.contains("| 29.9 ms, suggested | none | 0.135 % for"), "{told}");
        assert_eq!(told.matches("| 5 ms |").count(), 1, "{told}");
    }

    #[test]
    fn an_age_is_printed_once_and_what_is_rare_without_digits() {
        let told = told(&["--age", "7ms", "--sync", "6.8ms", "--skew", "1.2ms"]).unwrap();
        assert!(told.contains("| 7 ms, suggested | none | less than one in a million |"), "{told}");
        assert_eq!(told.matches("| 7 ms").count(), 1, "{told}");
    }

    #[test]
    fn what_is_no_input_is_refused_by_name() {
        for (flag, names) in [
            ("--dbsize=0", "above zero"),
            ("--tps=-1", "not negative"),
            ("--tps=inf", "not negative"),
            ("--tps=NaN", "not negative"),
            ("--age=soon", "200us"),
            ("--age=-5ms", "200us"),
        ] {
            let why = told(&[flag]).unwrap_err();
            let (name, _) = flag.split_once('=').unwrap();
            assert!(why.contains(names) && why.contains(name), "{why}");
        }
    }
}
