//! `meridian clock`: what a node knows of the time, and what this machine could know.

use crate::shell::{Options, Remote, Shell};
use clap::Subcommand;
use meridian_host::kernel::{self, KernelClock};
use std::io::ErrorKind;
use std::process::ExitCode;
use std::time::Duration;
use tokio::runtime::Runtime;

/// What to look at.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// What a node knows of the time: SHOW CLOCK.
    Status {
        /// The server.
        #[arg(default_value = "postgresql://root@127.0.0.1:5544/meridian", env = "MERIDIAN_URL")]
        url: String,
    },
    /// The same, every second, until it is interrupted.
    Watch {
        /// The server.
        #[arg(default_value = "postgresql://root@127.0.0.1:5544/meridian", env = "MERIDIAN_URL")]
        url: String,
    },
    /// What limits how well this machine knows the time, and what would help.
    Doctor,
}

/// Does it.
pub fn run(runtime: &Runtime, command: &Command) -> ExitCode {
    match command {
        Command::Status { url } => show(runtime, url),
        Command::Watch { url } => loop {
            if show(runtime, url) != ExitCode::SUCCESS {
                return ExitCode::FAILURE;
            }
            std::thread::sleep(Duration::from_secs(1));
        },
        Command::Doctor => {
            println!("{}", Findings::here().told());
            ExitCode::SUCCESS
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

/// What there is on a machine that tells the time.
#[derive(Debug)]
struct Findings {
    kernel: Result<KernelClock, String>,
    /// What else tells it, where that was looked for, and whether it is there.
    others: Vec<(&'static str, &'static str, bool)>,
}

/// What might be there: what it is, and where. This version reads none of them: they are what may tell the kernel, or will be read one day.
const OTHERS: [(&str, &str); 4] = [
    ("chrony", "/run/chrony/chronyd.sock"),
    ("ClockBound", "/var/run/clockbound/shm0"),
    ("PTP", "/dev/ptp0"),
    ("VMClock", "/dev/vmclock0"),
];

impl Findings {
    fn here() -> Findings {
        let missing = |path| matches!(std::fs::metadata(path), Err(error) if error.kind() == ErrorKind::NotFound);
        let others = OTHERS.map(|(what, path)| (what, path, !missing(path))).to_vec();
        Findings { kernel: kernel::ask().map_err(|error| error.to_string()), others }
    }

    fn has(&self, what: &str) -> bool {
        self.others.iter().any(|(name, _, there)| *name == what && *there)
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
                "kernel      NOT synchronised (STA_UNSYNC): nobody tells it how far its clock is off; the {} that it names are no bound",
                ms(said.max_error_ns)
            ),
        });
        for (what, path, there) in &self.others {
            let state = if *there { "here, and not read by this version" } else { "not here" };
            lines.push(format!("{what:<11} {state} ({path})"));
        }
        lines.push(String::new());
        lines.extend(self.advice());
        lines.join("\n")
    }

    /// What would help, the most useful first.
    fn advice(&self) -> Vec<String> {
        let mut advice = Vec::new();
        let synchronised = self.kernel.as_ref().is_ok_and(|said| said.synchronised);
        match (synchronised, self.has("chrony")) {
            (true, _) => advice.push("`meridian start --clock-bound kernel` uses what the kernel says.".to_owned()),
            (false, false) => advice.push(
                "Without a bound on the system clock, several nodes ask each other (cluster time, the default). For the time of day, run chrony with `rtcsync`."
                    .to_owned(),
            ),
            (false, true) => advice.push(
                "chrony runs, and does not tell the kernel: add `rtcsync` to its configuration and restart it.".to_owned(),
            ),
        }
        if self.kernel.as_ref().is_ok_and(|said| said.leap) {
            advice.push(
                "A leap second is announced: have chrony smear it (`leapsecmode slew`), on every machine alike."
                    .to_owned(),
            );
        }
        if self.has("PTP") {
            advice.push(
                "A hardware clock is here: chrony follows it with `refclock PHC /dev/ptp0`, to some microseconds."
                    .to_owned(),
            );
        }
        advice
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(synchronised: bool, chrony: bool) -> Findings {
        let kernel = KernelClock { synchronised, max_error_ns: 16_000_000_000, likely_error_ns: 1_000, leap: false };
        let others = OTHERS.map(|(what, path)| (what, path, chrony && what == "chrony")).to_vec();
        Findings { kernel: Ok(kernel), others }
    }

    #[test]
    fn each_finding_has_its_advice() {
        let told = findings(false, false).told();
        assert!(told.contains("NOT synchronised (STA_UNSYNC)") && told.contains("run chrony with `rtcsync`"), "{told}");
        let told = findings(false, true).told();
        assert!(told.contains("add `rtcsync`") && told.contains("chrony      here"), "{told}");
        let told = findings(true, true).told();
        assert!(told.contains("synchronised, ±16000 ms") && told.contains("--clock-bound kernel"), "{told}");
        let silent = Findings { kernel: Err("no".into()), others: Vec::new() };
        assert!(silent.told().contains("does not say: no"));
    }
}
