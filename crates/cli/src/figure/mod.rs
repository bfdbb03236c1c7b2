//! `meridian figure`: the papers' figures, measured in the lab.

use clap::Args;
use meridian_figures::{Effort, all, draw};
use std::path::PathBuf;
use std::process::ExitCode;

/// `meridian figure`
#[derive(Debug, Args)]
pub struct Options {
    /// Which; without it, all names are listed.
    name: Option<String>,
    /// The folder that the plot is written to, as NAME.svg.
    #[arg(long, value_name = "DIR", default_value = ".", requires = "name")]
    out: PathBuf,
}

/// Measures a figure, prints it and writes the plot.
pub fn run(options: &Options) -> ExitCode {
    let Some(name) = &options.name else {
        all().for_each(|(name, title)| println!("{name:<18}{title}"));
        return ExitCode::SUCCESS;
    };
    let figure = match draw(name, Effort::Full, &mut |line| eprintln!("{name}: {line}")) {
        Ok(figure) => figure,
        Err(why) => return crate::fail(&why.to_string()),
    };
    print!("{}", figure.text());
    let path = options.out.join(format!("{name}.svg"));
    match std::fs::write(&path, figure.svg()) {
        Ok(()) => {
            println!("\nThe plot is in {}.", path.display());
            ExitCode::SUCCESS
        }
        Err(error) => crate::fail(&format!("{}: {error}", path.display())),
    }
}
