//! The papers' figures, reproduced: a file for each.
//!
//! Each figure is measured in the simulator (`sim`): the replicas, coordinators, log, store engine
//! and clocks are the server's; the network, the disks, the processors and the time are simulated.
//! All figures use one cost model, which a benchmark wrote (`crates/sim/src/costs.txt`). No
//! measured number is written here, and of the papers' numbers only those that their text or tables
//! print.
//!
//! ```text
//!   spanner_table4.rs ── Scenario ──▶ sim ── Profile ──▶ rows, series ──▶ Figure ──▶ text, SVG
//!                             what the paper printed ─────────────────────┘
//! ```
//!
//! Measurements from elsewhere (`meridian figure NAME --processes`) are rendered by the same file:
//! its `figure` takes measurements, independent of their source.
//!
//! `clock_si_model.rs` computes what Clock-SI's analytical model predicts, and measures nothing.
//!
//! **The meaning of a comparison.** The paper's machines, disks and networks differ, so that
//! absolute milliseconds compare to little. The comparison is of the protocol's behaviour: which
//! quantities grow with which, and where the limits are.

mod clock_si;
pub mod clock_si_figure10;
pub mod clock_si_figure11;
pub mod clock_si_figure12;
pub mod clock_si_figure13;
pub mod clock_si_figure3;
pub mod clock_si_figure4;
pub mod clock_si_figure5;
pub mod clock_si_figure6;
pub mod clock_si_figure7;
pub mod clock_si_figure8;
pub mod clock_si_figure9;
pub mod clock_si_model;
mod clock_si_verified;
pub mod hybridtime;
pub mod hybridtime_figure2;
pub mod hybridtime_figure3;
pub mod hybridtime_figure4;
pub mod hybridtime_figure5;
mod k2;
pub mod k2_figure15;
pub mod k2_figure16;
pub mod k2_figure4;
pub mod k2_ycsb_t;
mod measure;
mod plot;
pub mod spanner_figure5;
pub mod spanner_figure6;
pub mod spanner_table3;
pub mod spanner_table4;
pub mod tapir_figure10;

pub use measure::{Runs, mean_ms, quantile};
pub use plot::{Axis, Panel, Series, Style};

use std::fmt;

/// The extent of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// As documented: minutes.
    Full,
    /// Less of everything: for tests.
    Small,
}

impl Effort {
    fn pick<T>(self, full: T, small: T) -> T {
        match self {
            Effort::Full => full,
            Effort::Small => small,
        }
    }
}

/// A table with a head.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// The column heads.
    pub head: Vec<String>,
    /// The measured values, and the paper's.
    pub rows: Vec<Vec<String>>,
}

/// A measured figure of a paper.
#[derive(Clone, Debug)]
pub struct Figure {
    /// The name, as in `meridian figure NAME`.
    pub name: &'static str,
    /// The title.
    pub title: String,
    /// The measured numbers beside the paper's.
    pub table: Table,
    /// Notes for the reader.
    pub notes: Vec<String>,
    /// The plots, one above the other.
    pub panels: Vec<Panel>,
}

type Draw = fn(Effort, &mut dyn FnMut(&str)) -> Figure;

const FIGURES: [(&str, &str, Draw); 24] = [
    (spanner_table3::NAME, spanner_table3::TITLE, spanner_table3::draw),
    (spanner_table4::NAME, spanner_table4::TITLE, spanner_table4::draw),
    (spanner_figure5::NAME, spanner_figure5::TITLE, spanner_figure5::draw),
    (spanner_figure6::NAME, spanner_figure6::TITLE, spanner_figure6::draw),
    (tapir_figure10::NAME, tapir_figure10::TITLE, tapir_figure10::draw),
    (hybridtime_figure2::NAME, hybridtime_figure2::TITLE, hybridtime_figure2::draw),
    (hybridtime_figure3::NAME, hybridtime_figure3::TITLE, hybridtime_figure3::draw),
    (hybridtime_figure4::NAME, hybridtime_figure4::TITLE, hybridtime_figure4::draw),
    (hybridtime_figure5::NAME, hybridtime_figure5::TITLE, hybridtime_figure5::draw),
    (clock_si_figure3::NAME, clock_si_figure3::TITLE, clock_si_figure3::draw),
    (clock_si_figure4::NAME, clock_si_figure4::TITLE, clock_si_figure4::draw),
    (clock_si_figure5::NAME, clock_si_figure5::TITLE, clock_si_figure5::draw),
    (clock_si_figure6::NAME, clock_si_figure6::TITLE, clock_si_figure6::draw),
    (clock_si_figure7::NAME, clock_si_figure7::TITLE, clock_si_figure7::draw),
    (clock_si_figure8::NAME, clock_si_figure8::TITLE, clock_si_figure8::draw),
    (clock_si_figure9::NAME, clock_si_figure9::TITLE, clock_si_figure9::draw),
    (clock_si_figure10::NAME, clock_si_figure10::TITLE, clock_si_figure10::draw),
    (clock_si_figure11::NAME, clock_si_figure11::TITLE, clock_si_figure11::draw),
    (clock_si_figure12::NAME, clock_si_figure12::TITLE, clock_si_figure12::draw),
    (clock_si_figure13::NAME, clock_si_figure13::TITLE, clock_si_figure13::draw),
    (k2_figure4::NAME, k2_figure4::TITLE, k2_figure4::draw),
    (k2_figure15::NAME, k2_figure15::TITLE, k2_figure15::draw),
    (k2_figure16::NAME, k2_figure16::TITLE, k2_figure16::draw),
    (k2_ycsb_t::NAME, k2_ycsb_t::TITLE, k2_ycsb_t::draw),
];

/// Returns the names and titles of all figures.
pub fn all() -> impl Iterator<Item = (&'static str, &'static str)> {
    FIGURES.iter().map(|(name, title, _)| (*name, *title))
}

/// The error for an unknown figure name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unknown(pub String);

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = all().map(|(name, _)| name).collect();
        write!(f, "no figure is called {}; there are {}", self.0, names.join(", "))
    }
}

impl std::error::Error for Unknown {}

/// Measures a figure, and reports progress now and then.
pub fn draw(name: &str, effort: Effort, progress: &mut dyn FnMut(&str)) -> Result<Figure, Unknown> {
    let found = FIGURES.iter().find(|(known, ..)| *known == name);
    found.map(|(_, _, draw)| draw(effort, progress)).ok_or_else(|| Unknown(name.to_owned()))
}

/// The largest width of the text, in columns.
const WIDTH: usize = 100;

impl Figure {
    /// Renders the figure as text: a table, and notes.
    pub fn text(&self) -> String {
        let Table { head, rows } = &self.table;
        let all = || std::iter::once(head).chain(rows);
        let width = |column: usize| {
            all().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max()
        };
        let widths: Vec<usize> = (0..head.len()).map(|column| width(column).unwrap_or(0)).collect();
        let mut text = format!("{}: {}\n\n", self.name, self.title);
        for row in all() {
            let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:>width$}"));
            text += cells.collect::<Vec<_>>().join("  ").trim_end();
            text.push('\n');
        }
        for note in &self.notes {
            text.push('\n');
            let mut line = String::new();
            for word in note.split_whitespace() {
                if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > WIDTH {
                    text += &std::mem::take(&mut line);
                    text.push('\n');
                }
                line += if line.is_empty() { "" } else { " " };
                line += word;
            }
            text += &line;
            text.push('\n');
        }
        text
    }

    /// Renders the figure as SVG.
    pub fn svg(&self) -> String {
        plot::svg(&self.title, &self.panels)
    }
}
