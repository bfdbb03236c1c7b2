//! Clock-SI, Figure 8: the latency of the reads of Figure 7 (§V-D).

use crate::clock_si_figure7::{figure, reads};
use crate::{Effort, Figure};

/// The name, as in `meridian figure NAME`.
pub const NAME: &str = "clock_si_figure8";
/// The title.
pub const TITLE: &str = "latency of reads of hot spots (Clock-SI, Figure 8)";

pub(crate) fn draw(effort: Effort, progress: &mut dyn FnMut(&str)) -> Figure {
    let reads = reads(effort, progress);
    let most = reads.iter().map(|read| read.mean_ms).fold(1.0, f64::max);
    figure((NAME, TITLE), &reads, ("mean latency, ms", 1.3 * most), |read| read.mean_ms)
}
