//! `meridian clock`: the state of the nodes' clocks, and of this machine's time sources.

use crate::shell::{Options, Remote, Shell, query};
use clap::Subcommand;
use meridian_host::sources::Reference;
use meridian_host::sources::chrony::{Chrony, Tracking};
use meridian_host::sources::kernel::{self, KernelClock};
use std::process::ExitCode;
use std::time::Duration;
use tokio::runtime::Runtime;

/// The subcommands of `meridian clock`.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Show the state of a node's clock and of its peers' clocks: SHOW CLOCK.
    Status {
        /// The server.
        #[arg(default_value = "postgresql://root@127.0.0.1:5544/meridian", env = "MERIDIAN_URL")]
        url: String,
    },
    /// Show it every second, until interrupted.
    Watch {
        /// The server.
        #[arg(default_value = "postgresql://root@127.0.0.1:5544/meridian", env = "MERIDIAN_URL")]
        url: String,
    },
    /// Show what limits the accuracy of this machine's clock, and what would help; with a server's
    /// address, also the clocks of its nodes.
    Doctor {
        /// A server.
        url: Option<String>,
    },
}

/// Runs the command.
pub fn run(runtime: &Runtime, command: &Command) -> ExitCode {
    match command {
        Command::Status { url } => show(runtime, url),
        Command::Watch { url } => loop {
            if show(runtime, url) != ExitCode::SUCCESS {
                return ExitCode::FAILURE;
            }
            std::thread::sleep(Duration::from_secs(1));
        },
        Command::Doctor { url } => {
            println!("{}", Findings::here().told());
            match url.as_deref().map(|url| of_cluster(runtime, url)) {
                None => ExitCode::SUCCESS,
                Some(Ok(lines)) => {
                    println!("\n{}", lines.join("\n"));
                    ExitCode::SUCCESS
                }
                Some(Err(error)) => {
                    eprintln!("meridian: {}", error.trim_end());
                    ExitCode::FAILURE
                }
            }
        }
    }
}

fn show(runtime: &Runtime, url: &str) -> ExitCode {
    match Remote::open(runtime.handle().clone(), url) {
        Ok(remote) => {
            let options = Options { execute: vec!["SHOW CLOCK".into()], ..Options::default() };
            Shell::new(Box::new(remote)).run(&options)
        }
        Err(error) => {
            eprintln!("meridian: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Returns the state of the clocks of a server's nodes, each with its meaning.
fn of_cluster(runtime: &Runtime, url: &str) -> Result<Vec<String>, String> {
    let mut remote = Remote::open(runtime.handle().clone(), url)?;
    let (_, rows) = query(&mut remote, "SHOW CLOCK")?;
    let number = |row: &[Option<String>], at: usize| row.get(at)?.as_ref()?.parse().ok();
    let text = |row: &[Option<String>], at: usize| row.get(at).cloned().flatten();
    let clock = |row: &Vec<Option<String>>| NodeClock {
        node: text(row, 0).unwrap_or_default(),
        state: text(row, 1),
        source: text(row, 2),
        uncertainty_ns: number(row, 5),
        ahead_ns: number(row, 6),
    };
    Ok(rows.iter().map(|row| clock(row).told()).collect())
}

/// The state of one node's clock.
struct NodeClock {
    node: String,
    state: Option<String>,
    source: Option<String>,
    uncertainty_ns: Option<i64>,
    ahead_ns: Option<i64>,
}

impl NodeClock {
    fn told(&self) -> String {
        let (state, source) = (
            self.state.as_deref().unwrap_or("says nothing"),
            self.source.as_deref().unwrap_or("?"),
        );
        let sure =
            self.uncertainty_ns.map_or(String::new(), |ns| format!(", ±{} ms", ns as f64 / 1e6));
        let ahead = self
            .ahead_ns
            .map_or(String::new(), |ns| format!(", {:+} ms from here", ns as f64 / 1e6));
        // Two ways of spreading a leap second over a day differ by up to half a second; a way that
        // does not spread it differs by a whole one.
        let leap =
            self.ahead_ns.is_some_and(|ns| (100_000_000..=1_000_000_000).contains(&ns.abs()));
        let meaning = match state {
            "not believed" if leap => {
                ": it contradicts the other nodes' clocks. An offset of this size comes from a leap second that is handled differently: have all machines smear alike, or none"
            }
            "not believed" => {
                ": it contradicts the other nodes' clocks, and is left out. Check its source, or make another node a time master"
            }
            "fenced" => {
                ": this node serves nothing that needs the time. Run `meridian clock doctor` on its machine"
            }
            "starting" => ": it has not received enough answers from other nodes yet",
            "free-running" => {
                ": it has received no time for two seconds, and its uncertainty grows"
            }
            "wide" => {
                ": commits on this node wait about twice that long. A closer or a better source would help"
            }
            "says nothing" => {
                ": no answer for three seconds, or it is not polled (nodes on one machine share its clock)"
            }
            _ => "",
        };
        format!("node {:<6} {state} ({source}{sure}{ahead}){meaning}", self.node)
    }
}

/// The time sources of this machine.
#[derive(Debug)]
struct Findings {
    kernel: Result<KernelClock, String>,
    chrony: Result<Tracking, String>,
    /// ClockBound's error bound of the system clock, in nanoseconds.
    clockbound: Result<u64, String>,
    /// Hardware clocks.
    devices: Vec<String>,
}

impl Findings {
    fn here() -> Findings {
        let device = |number: u32| format!("/dev/ptp{number}");
        Findings {
            kernel: kernel::ask().map_err(|error| error.to_string()),
            chrony: Chrony::default().tracking(),
            clockbound: Reference::ClockBound
                .open()
                .ask()
                .map(|said| said.interval.half_width_ns()),
            devices: (0..4)
                .map(device)
                .filter(|path| std::path::Path::new(path).exists())
                .collect(),
        }
    }

    fn told(&self) -> String {
        let mut lines = Vec::new();
        let ms = |ns: u64| format!("±{} ms", ns as f64 / 1e6);
        lines.push(match &self.kernel {
            Err(error) => format!("kernel      does not say: {error}"),
            Ok(said) if said.synchronised => {
                format!("kernel      synchronised, {} at most, {} likely", ms(said.max_error_ns), ms(said.likely_error_ns))
            }
            Ok(said) => format!(
                "kernel      NOT synchronised (STA_UNSYNC): no time source disciplines the clock; the {} that it names are no bound",
                ms(said.max_error_ns)
            ),
        });
        lines.push(match &self.chrony {
            Err(why) => format!("chrony      {why}"),
            Ok(said) if said.synchronised => {
                format!("chrony      synchronised, {} at most", ms(said.max_error_ns))
            }
            Ok(_) => {
                "chrony      runs, and is not synchronised: it has reached no server that it trusts"
                    .into()
            }
        });
        lines.push(match &self.clockbound {
            Err(why) => format!("ClockBound  {why}"),
            Ok(half_width_ns) => format!("ClockBound  {}", ms(*half_width_ns)),
        });
        lines.push(match self.devices.as_slice() {
            [] => "PTP         no hardware clock (/dev/ptp0)".into(),
            devices => format!("PTP         {}", devices.join(", ")),
        });
        lines.push(String::new());
        lines.extend(self.advice());
        lines.join("\n")
    }

    /// Returns advice, the most useful first.
    fn advice(&self) -> Vec<String> {
        let mut advice = Vec::new();
        let kernel = self.kernel.as_ref().is_ok_and(|said| said.synchronised);
        let chrony = self.chrony.as_ref().is_ok_and(|said| said.synchronised);
        if self.clockbound.is_ok() {
            advice.push(
                "`meridian start --clock-bound clockbound` uses what ClockBound says.".to_owned(),
            );
        }
        match (kernel, chrony) {
            (_, true) => advice.push("`meridian start --clock-bound chrony` uses what chrony says.".to_owned()),
            (true, false) => advice.push("`meridian start --clock-bound kernel` uses what the kernel says.".to_owned()),
            (false, false) => advice.push(
                "Without a bound on the system clock, several nodes ask each other (cluster time, the default). For the time of day, run chrony with `rtcsync`."
                    .to_owned(),
            ),
        }
        if chrony && !kernel {
            advice.push(
                "chrony does not tell the kernel: with `rtcsync` in its configuration it does."
                    .to_owned(),
            );
        }
        if self.chrony.as_ref().is_err_and(|why| why.contains("no permission")) {
            advice.push(
                "chrony's socket is for its group: run the node as a member of that group."
                    .to_owned(),
            );
        }
        if self.kernel.as_ref().is_ok_and(|said| said.leap) {
            advice.push(
                "A leap second is announced: have chrony smear it (`leapsecmode slew`), on every machine alike; a mixture is half a second wrong."
                    .to_owned(),
            );
        }
        if let Some(device) = self.devices.first() {
            advice.push(format!(
                "A hardware clock is here: chrony follows it with `refclock PHC {device}`, to some microseconds; or `--clock-bound {device}:5us` \
                 reads it, if a service keeps it that well."
            ));
        }
        advice
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(kernel: bool, chrony: Option<bool>) -> Findings {
        let said = KernelClock {
            synchronised: kernel,
            max_error_ns: 16_000_000_000,
            likely_error_ns: 1_000,
            leap: false,
        };
        let tracking = |synchronised| Tracking { synchronised, max_error_ns: 300_000 };
        Findings {
            kernel: Ok(said),
            chrony: chrony.map(tracking).ok_or_else(|| "no permission".into()),
            clockbound: Err("does it run?".into()),
            devices: Vec::new(),
        }
    }

    #[test]
    fn each_node_s_clock_has_its_meaning() {
        let clock = |state: Option<&str>, ahead_ns| NodeClock {
            node: "2".into(),
            state: state.map(str::to_owned),
            source: Some("chrony".into()),
            uncertainty_ns: Some(300_000),
            ahead_ns,
        };
        for (clock, expected) in [
            (
                clock(Some("good"), Some(-20_000)),
                "node 2      good (chrony, ±0.3 ms, -0.02 ms from here)",
            ),
            (clock(Some("not believed"), Some(500_000_000)), "smear alike"),
            (clock(Some("not believed"), Some(60_000_000_000)), "is left out"),
            (clock(Some("free-running"), None), "two seconds"),
            (clock(None, None), "no answer for three seconds"),
        ] {
            assert!(clock.told().contains(expected), "{}", clock.told());
        }
    }

    #[test]
    fn each_finding_has_its_advice() {
        let told = findings(false, None).told();
        assert!(
            told.contains("NOT synchronised (STA_UNSYNC)")
                && told.contains("run chrony with `rtcsync`"),
            "{told}"
        );
        assert!(told.contains("is for its group"), "{told}");
        let told = findings(false, Some(true)).told();
        assert!(
            told.contains("--clock-bound chrony") && told.contains("with `rtcsync` in its"),
            "{told}"
        );
        let told = findings(false, Some(false)).told();
        assert!(told.contains("has reached no server"), "{told}");
        let told = findings(true, None).told();
        assert!(
            told.contains("synchronised, ±16000 ms") && told.contains("--clock-bound kernel"),
            "{told}"
        );
        let rich = Findings {
            kernel: Err("no".into()),
            clockbound: Ok(50_000),
            devices: vec!["/dev/ptp0".into()],
            ..findings(true, None)
        };
        let told = rich.told();
        assert!(
            told.contains("does not say: no") && told.contains("ClockBound  ±0.05 ms"),
            "{told}"
        );
        assert!(told.contains("refclock PHC /dev/ptp0"), "{told}");
    }
}
