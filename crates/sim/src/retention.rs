//! The state that replicas retain after transactions end, drawn for each world.

use rand::Rng;
use rand_chacha::ChaCha8Rng;

/// The amount of state that a member retains after transactions end: less than in a server, so that
/// it is trimmed within a run.
#[derive(Clone, Copy, Debug)]
pub struct Retention {
    /// The number of outcomes that it remembers for repeated requests.
    pub outcomes: usize,
    /// The bytes of the log, of entries that its store has, that it keeps for slow members.
    pub log_bytes: usize,
    /// The number of writes that every other leader remembers by key for certification. The others
    /// remember all of them.
    pub recent_writes: usize,
}

/// The writes of a run.
pub const ALL_WRITES: usize = 65_536;

impl Retention {
    /// Remembers every commit of a run.
    pub const LONG: Retention =
        Retention { outcomes: 10_000, log_bytes: 2 << 10, recent_writes: ALL_WRITES };

    /// Draws a retention: in half of the seeds few or no outcomes; in half a short log.
    pub fn draw(keepers: &mut ChaCha8Rng) -> Retention {
        let few = keepers.random_bool(0.5).then(|| keepers.random_range(0..40));
        let short = keepers.random_bool(0.5).then(|| keepers.random_range(256..1 << 10));
        Retention {
            outcomes: few.unwrap_or(Self::LONG.outcomes),
            log_bytes: short.unwrap_or(Self::LONG.log_bytes),
            // So few that most rows are certified by the hash of their key.
            recent_writes: 16,
        }
    }
}
