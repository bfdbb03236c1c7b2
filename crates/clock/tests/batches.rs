//! K2's Property 4.1 in small simulations: oracles that are wrong within their bound, coordinators
//! whose timers are slow or fast, requests that take time.

use meridian_clock::oracle::{Batches, Oracle, Refused, Strawman, Terms};
use meridian_clock::rules;
use meridian_clock::{Drift, Health, Interval, Reading, Timestamp};
use meridian_machine::planted::plant;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Large enough for a drift of 200 ppm to be at least a nanosecond.
const TERMS: Terms =
    Terms { ttl_ns: 10_000_000, half_width_ns: 1_000_000, step_ns: 10_000, drift: Drift::WORST };

/// Returns a true time as shown by a timer that is wrong by this many millionths.
fn by(timer_ppm: i64, true_ns: u64) -> u64 {
    true_ns.saturating_add_signed((i128::from(true_ns) * i128::from(timer_ppm) / 1_000_000) as i64)
}

/// Runs transactions of one coordinator; an error names the first timestamp that is not between its
/// transaction's start and end.
fn run(seed: u64) -> Result<u32, String> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut oracles: Vec<Oracle> = (0..2).map(|_| Oracle::above(&TERMS, 0)).collect();
    oracles.iter_mut().for_each(|oracle| oracle.raise_ceiling(u64::MAX));
    // The timer begins with the simulation.
    let ppm = [-200, 0, 200][rng.random_range(0..3)];
    let begin: u64 = 1_700_000_000_000_000_000;
    let mut now = begin;
    let timer = |now: u64| by(ppm, now - begin);
    let mut batches = Batches::above(TERMS, 7, 0);
    let (mut last, mut drawn) = (Timestamp::ZERO, 0);
    let (fast, pace) = (rng.random_bool(0.5), [200, 20_000][rng.random_range(0..2)]);
    while drawn < 3_000 {
        let longest = if rng.random_bool(0.001) { 12_000_000 } else { pace };
        now += rng.random_range(0..longest);
        if fast && rng.random_bool(0.05) {
            // A batch is requested ahead of its need, from an exact oracle, and is first used when
            // it is about to expire.
            batches.ask(timer(now));
            let answer = oracles[0].answer(Reading::at(0, Interval { earliest: now, latest: now }));
            answer.into_iter().for_each(|answer| batches.receive(timer(now), answer));
            now += TERMS.ttl_ns - 500 + rng.random_range(0..3_000);
        }
        let start = now;
        now += rng.random_range(0..200);
        let at = loop {
            if let Some(at) = batches.next(timer(now)) {
                break at;
            }
            batches.ask(timer(now));
            now += if fast { 0 } else { rng.random_range(0..3_000_000) };
            let (half_width_ns, which) = (TERMS.half_width_ns, rng.random_range(0..2));
            let error = rng.random_range(-(half_width_ns as i64)..=half_width_ns as i64);
            // The narrowest true interval is the hardest case.
            let shown = if fast && rng.random_bool(0.5) {
                Interval { earliest: now, latest: now }
            } else {
                Interval::around(now.saturating_add_signed(error), half_width_ns)
            };
            let reading = Reading::at(0, shown);
            let Ok(answer) = oracles[which].answer(reading) else { continue };
            // Some answers take longer than the lifetime of a batch.
            let delay = if rng.random_bool(0.05) { 20_000_000 } else { 3_000_000 };
            now += if fast { 0 } else { rng.random_range(0..delay) };
            batches.receive(timer(now), answer);
        };
        drawn += 1;
        if at <= last {
            return Err(format!("{at} is drawn after {last}"));
        }
        last = at;
        // The wait is measured by the same timer, from the draw on.
        let about = TERMS.commit_wait_ns() * 1_000_000 / (1_000_000 + ppm) as u64;
        let mut end = now + about - 10;
        while timer(end) - timer(now) < TERMS.commit_wait_ns() {
            end += 1;
        }
        if at.nanos <= start || at.nanos >= end {
            return Err(format!("{at} is not between {start} and {end}"));
        }
    }
    Ok(drawn)
}

#[test]
fn a_timestamp_is_between_the_start_and_the_end_of_its_transaction() {
    for seed in 0..30 {
        run(seed).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
    }
}

/// The strawman requests each timestamp by itself: a shorter wait at the end, and a round trip to
/// the oracle at the beginning.
#[test]
fn a_timestamp_that_was_asked_for_by_itself_is_between_them_too() {
    for seed in 0..30 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut oracles: Vec<Oracle> = (0..2).map(|_| Oracle::above(&TERMS, 0)).collect();
        oracles.iter_mut().for_each(|oracle| oracle.raise_ceiling(u64::MAX));
        let ppm = [-200, 0, 200][rng.random_range(0..3)];
        let begin: u64 = 1_700_000_000_000_000_000;
        let (mut now, mut strawman) = (begin, Strawman::above(7, 0));
        let (mut last, mut drawn) = (Timestamp::ZERO, 0);
        while drawn < 2_000 {
            now += rng.random_range(1..20_000);
            let start = now;
            now += rng.random_range(0..500_000);
            let half_width_ns = TERMS.half_width_ns as i64;
            let error = rng.random_range(-half_width_ns..=half_width_ns);
            let shown = Interval::around(now.saturating_add_signed(error), TERMS.half_width_ns);
            let Ok(answer) = oracles[rng.random_range(0..2)].answer(Reading::at(0, shown)) else {
                continue;
            };
            now += rng.random_range(0..500_000);
            let Some(at) = strawman.stamp(answer) else { continue };
            drawn += 1;
            assert!(at > last, "seed {seed}: {at} is drawn after {last}");
            last = at;
            // The wait is measured by a timer that may be fast.
            let end = now + TERMS.strawman_wait_ns() * 1_000_000 / (1_000_000 + ppm) as u64;
            assert!(
                start < at.nanos && at.nanos <= end,
                "seed {seed}: {at} is not between {start} and {end}"
            );
        }
    }
}

#[test]
fn each_rule_of_batches_that_is_broken_shows() {
    for rule in rules::OF_BATCHES {
        plant(Some(rule), true);
        let first = (0..200).find(|seed| run(*seed).is_err());
        plant(None, false);
        println!("{rule:?}: first noticed by seed {first:?}");
        assert!(first.is_some(), "{rule:?} was not noticed by 200 seeds");
    }
}

#[test]
fn an_oracle_that_is_not_sure_enough_or_was_set_back_does_not_answer() {
    let terms = Terms::K2;
    let mut oracle = Oracle::above(&terms, 0);
    let at = |nanos| Reading::at(0, Interval::around(nanos, 60_000));
    assert_eq!(oracle.answer(at(1_000_000)), Err(Refused::Ceiling));
    oracle.raise_ceiling(2_000_000);
    let first = oracle.answer(at(1_000_000)).unwrap();
    let again = oracle.answer(at(1_000_000)).unwrap();
    assert!(again.latest > first.latest, "the answer grows even if the clock does not");
    // A small step back widens the interval; a large one is refused.
    assert!(oracle.answer(at(950_000)).is_ok());
    assert!(matches!(oracle.answer(at(800_000)), Err(Refused::Wide { .. })));
    assert!(matches!(
        oracle.answer(Reading::at(0, Interval::around(1_500_000, 100_001))),
        Err(Refused::Wide { .. })
    ));
    let fenced = Reading { health: Health::Fenced, ..at(1_100_000) };
    assert_eq!(oracle.answer(fenced), Err(Refused::Fenced));
    assert_eq!(oracle.answer(at(2_000_000)), Err(Refused::Ceiling));
    // 2 (100 µs + 100 µs), plus 200 millionths of that for a fast timer: the 400.08 µs of the
    // paper.
    assert!(
        (400_080..400_085).contains(&terms.commit_wait_ns())
            && terms.strawman_wait_ns() < terms.commit_wait_ns()
    );
}
