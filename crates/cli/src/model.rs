//! `meridian model`: what a protocol's analytical model predicts, before anything is measured.

use clap::{Args, Subcommand};
use meridian_clock::duration;
use meridian_figures::clock_si_model::{Delay, Model};
use std::process::ExitCode;
use std::time::Duration;

/// The largest skew that an age of snapshots is suggested for, in standard deviations.
const DEVIATIONS: f64 = 3.0;

/// The probability below which a delay is not worth its digits.
const RARE: f64 = 1e-6;

/// The models.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Clock-SI (§IV of the paper): how often and how long transactions are delayed, how often
    /// updates abort, and which age of snapshots avoids delays. The defaults are the paper's
    /// example.
    ClockSi(ClockSi),
}

/// The inputs of Clock-SI's model.
#[derive(Clone, Debug, Args)]
pub struct ClockSi {
    /// The number of items, which are accessed uniformly (DBSize)
    #[arg(long, default_value = "10000000", value_parser = positive)]
    dbsize: f64,
    /// Update transactions in a second (TPS_u)
    #[arg(long, default_value = "10000", value_parser = number)]
    tps: f64,
    /// The items that a read transaction reads (R)
    #[arg(long, default_value = "10", value_parser = number)]
    reads: f64,
    /// The items that an update transaction writes (W)
    #[arg(long, default_value = "10", value_parser = number)]
    writes: f64,
    /// How long a read transaction lasts (L_r)
    #[arg(long, default_value = "4ms", value_parser = time)]
    read_time: Duration,
    /// How long an update transaction lasts (L_u)
    #[arg(long, default_value = "32ms", value_parser = time)]
    update_time: Duration,
    /// How long it takes to make a commit durable (S)
    #[arg(long, default_value = "8ms", value_parser = time)]
    sync: Duration,
    /// The round trip between two partitions (RRD)
    #[arg(long, default_value = "200us", value_parser = time)]
    round_trip: Duration,
    /// The standard deviation of the skew between two clocks (δ)
    #[arg(long, default_value = "0ms", value_parser = time)]
    skew: Duration,
    /// The mean of the skew (μ)
    #[arg(long, default_value = "0ms", value_parser = time)]
    skew_mean: Duration,
    /// The age of snapshots (Δ); several with commas
    #[arg(long, default_value = "0ms", value_delimiter = ',', value_parser = time)]
    age: Vec<Duration>,
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
pub fn run(command: &Command) -> ExitCode {
    let Command::ClockSi(inputs) = command;
    print!("{}", inputs.told());
    ExitCode::SUCCESS
}

impl ClockSi {
    fn model(&self) -> Model {
        Model {
            items: self.dbsize,
            updates_per_s: self.tps,
            reads: self.reads,
            writes: self.writes,
            read_s: self.read_time.as_secs_f64(),
            update_s: self.update_time.as_secs_f64(),
            sync_s: self.sync.as_secs_f64(),
            round_trip_s: self.round_trip.as_secs_f64(),
            skew_mean_s: self.skew_mean.as_secs_f64(),
            skew_deviation_s: self.skew.as_secs_f64(),
            age_s: 0.0,
        }
    }

    fn told(&self) -> String {
        let model = self.model();
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
        format!(
            "{}\n\nCommitting window {}. The suggested age is the larger of the window, and of a \
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
        Ok(inputs.told())
    }

    #[test]
    fn the_defaults_are_the_papers_example() {
        let line = Line::try_parse_from(["model", "clock-si"]).unwrap();
        let Command::ClockSi(inputs) = line.command;
        assert_eq!(inputs.model(), Model::EXAMPLE);
        let told = told(&[]).unwrap();
        let fresh = "| 0 ms | 0.082 % for 4.1 ms, 3.36 µs on average | none | 0.32 % |";
        let old = "| 8.2 ms, suggested | none | none | 0.402 % |";
        assert!(told.contains(fresh) && told.contains(old), "{told}");
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
