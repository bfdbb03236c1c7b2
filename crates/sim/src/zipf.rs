//! Zipf's law, by which some keys are drawn more often than others.

use rand::Rng;
use rand_chacha::ChaCha8Rng;

/// A distribution of ranks from 0 on, each as likely as a power of its place.
pub struct Zipf {
    /// The sums of the weights up to each rank.
    sums: Vec<f64>,
}

impl Zipf {
    /// Creates the distribution of `many` ranks.
    pub fn of(many: u32, exponent: f64) -> Zipf {
        let weigh = |sum: &mut f64, place: u32| {
            *sum += f64::from(place).powf(-exponent);
            Some(*sum)
        };
        Zipf { sums: (1..=many).scan(0.0, weigh).collect() }
    }

    /// Draws a rank.
    pub fn draw(&self, rng: &mut ChaCha8Rng) -> u32 {
        let all = self.sums.last().copied().unwrap_or_default();
        let at = rng.random_range(0.0..=all);
        self.sums.partition_point(|sum| *sum < at) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    #[test]
    fn the_first_of_four_is_drawn_as_often_as_its_weight_says() {
        let (zipf, mut rng) = (Zipf::of(4, 0.6), ChaCha8Rng::seed_from_u64(1));
        let mut drawn = [0; 4];
        (0..100_000).for_each(|_| drawn[zipf.draw(&mut rng) as usize] += 1);
        let all: f64 = (1..=4).map(|place| f64::from(place).powf(-0.6)).sum();
        for (rank, times) in drawn.into_iter().enumerate() {
            let part = (rank as f64 + 1.0).powf(-0.6) / all;
            assert!((f64::from(times) / 100_000.0 - part).abs() < 0.01, "{rank}: {times}");
        }
    }
}
