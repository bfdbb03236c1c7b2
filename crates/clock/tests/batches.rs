//! K2's Property 4.1 in small simulations: oracles that are wrong within their bound, coordinators
//! whose timers are slow or fast, requests that take time.

use meridian_clock::oracle::{Batches, Drawn, Oracle, Refused, Strawman, Terms};
use meridian_clock::rules;
use meridian_clock::{Bound, Drift, Health, Interval, Reading, Timestamp};
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

/// Returns the first true time at which a timer that began at `begin` shows `shown` or more.
fn first_at_or_after(timer_ppm: i64, begin: u64, shown: u64) -> u64 {
    let about = i128::from(shown) * 1_000_000 / i128::from(1_000_000 + timer_ppm);
    let mut elapsed = (about as u64).saturating_sub(10);
    while by(timer_ppm, elapsed) < shown {
        elapsed += 1;
    }
    begin + elapsed
}

/// Runs transactions of one coordinator; an error names the first timestamp that is not between its
/// transaction's start and end.
fn run(seed: u64) -> Result<u32, String> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut oracles = [Oracle::default(); 2];
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
            let exact = Reading::at(0, Interval { earliest: now, latest: now });
            let answer = oracles[0].answer(exact, TERMS.half_width_ns);
            let spare = answer.ok().and_then(|answer| batches.receive(timer(now), answer));
            last = spare.map_or(last, |drawn| drawn.at);
            now += TERMS.ttl_ns - 500 + rng.random_range(0..3_000);
        }
        let start = now;
        now += rng.random_range(0..200);
        let Drawn { at, passed_ns } = loop {
            if let Some(drawn) = batches.next(timer(now)) {
                break drawn;
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
            let Ok(answer) = oracles[which].answer(reading, half_width_ns) else { continue };
            // Some answers take longer than the lifetime of a batch.
            let delay = if rng.random_bool(0.05) { 20_000_000 } else { 3_000_000 };
            now += if fast { 0 } else { rng.random_range(0..delay) };
            if let Some(drawn) = batches.receive(timer(now), answer) {
                break drawn;
            }
        };
        drawn += 1;
        if at <= last {
            return Err(format!("{at} is drawn after {last}"));
        }
        last = at;
        // The wait is measured by the same timer.
        let end = first_at_or_after(ppm, begin, passed_ns).max(now);
        if at.nanos <= start || at.nanos >= end {
            return Err(format!("{at} is not between {start} and {end}"));
        }
        if passed_ns > timer(now) + TERMS.commit_wait_ns() + 2 {
            return Err(format!("{at} waits longer than the terms say"));
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
        let mut oracles = [Oracle::default(); 2];
        let ppm = [-200, 0, 200][rng.random_range(0..3)];
        let begin: u64 = 1_700_000_000_000_000_000;
        let (mut now, mut strawman) = (begin, Strawman::above(TERMS, 7, 0));
        let (mut last, mut drawn) = (Timestamp::ZERO, 0);
        while drawn < 2_000 {
            now += rng.random_range(1..20_000);
            let start = now;
            now += rng.random_range(0..500_000);
            let half_width_ns = TERMS.half_width_ns as i64;
            let error = rng.random_range(-half_width_ns..=half_width_ns);
            let shown = Interval::around(now.saturating_add_signed(error), TERMS.half_width_ns);
            let oracle = &mut oracles[rng.random_range(0..2)];
            let Ok(answer) = oracle.answer(Reading::at(0, shown), TERMS.half_width_ns) else {
                continue;
            };
            now += rng.random_range(0..500_000);
            let asked = by(ppm, now - begin);
            let Some(Drawn { at, passed_ns }) = strawman.stamp(asked, answer) else { continue };
            drawn += 1;
            assert!(at > last, "seed {seed}: {at} is drawn after {last}");
            // Another oracle's time may have been ahead.
            let above_ns = at.nanos - answer.latest;
            last = at;
            let end = first_at_or_after(ppm, begin, passed_ns).max(now);
            assert!(
                start < at.nanos && at.nanos < end,
                "seed {seed}: {at} is not between {start} and {end}"
            );
            let longest_ns = TERMS.strawman_wait_ns() + above_ns + above_ns / 1_000 + 2;
            assert!(passed_ns <= asked + longest_ns, "seed {seed}: {at} waits long");
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
    let mut oracle = Oracle::default();
    let mut answer = |reading| oracle.answer(reading, terms.half_width_ns);
    let at = |nanos| Reading::at(0, Interval::around(nanos, 60_000));
    let first = answer(at(1_000_000)).unwrap();
    let again = answer(at(1_000_000)).unwrap();
    assert!(again.latest > first.latest, "the answer grows even if the clock does not");
    // A small step back widens the interval; a large one is refused.
    assert!(answer(at(950_000)).is_ok());
    assert!(matches!(answer(at(800_000)), Err(Refused::Wide { .. })));
    let wide = Reading::at(0, Interval::around(1_500_000, 100_001));
    assert!(matches!(answer(wide), Err(Refused::Wide { .. })));
    let fenced = Reading { health: Health::Fenced, ..at(1_100_000) };
    assert_eq!(answer(fenced), Err(Refused::Fenced));
    // 2 (100 µs + 100 µs), plus 200 millionths of that for a fast timer: the 400.08 µs of the
    // paper.
    assert!(
        (400_080..400_085).contains(&terms.commit_wait_ns())
            && terms.strawman_wait_ns() < terms.commit_wait_ns()
    );
}

/// §2.2: an oracle synchronizes sixteen times a second, its clock drifts by 200 ppm at most, and
/// ε = 100 µs is what eight lost synchronizations cost.
#[test]
fn an_oracle_withdraws_after_eight_lost_synchronizations() {
    const EVERY_NS: u64 = 1_000_000_000 / 16;
    let synchronized = Interval { earliest: 1_000_000_000, latest: 1_000_000_000 };
    let bound = Bound { at: 0, interval: synchronized };
    let mut oracle = Oracle::default();
    let lost = (1..).find(|lost| {
        // A microsecond before so many are lost: the drift is rounded up.
        let boot_ns = lost * EVERY_NS - 1_000;
        let reading = Reading::at(boot_ns, bound.on(boot_ns, Drift::WORST));
        oracle.answer(reading, Terms::K2.half_width_ns).is_err()
    });
    assert_eq!(lost, Some(9), "it answers until the ninth is due");
}

/// Several transactions of a node ask at once, and two oracles may tell the same time.
#[test]
fn answers_in_any_order_give_timestamps_that_grow_and_are_waited_for() {
    let mut strawman = Strawman::above(Terms::K2, 7, 1_000);
    let mut stamp = |earliest: u64| {
        let answer = Interval { earliest, latest: earliest + 500 };
        strawman.stamp(5, answer).map(|drawn| (drawn.at.nanos, drawn.passed_ns - 5))
    };
    let [first, before, same] = [3_000, 2_000, 3_000].map(|at| stamp(at).expect("a timestamp"));
    assert_eq!([first.0, before.0, same.0], [3_500, 3_501, 3_502]);
    assert!(before.1 > 1_501 && before.1 < 1_510, "it waits for longer: {before:?}");
    let mut ahead = Strawman::above(Terms::K2, 7, 1_000_000_000);
    let answer = Interval { earliest: 900_000_000, latest: 900_000_500 };
    assert_eq!(ahead.stamp(5, answer), None, "too far ahead");
}

/// The answer comes after the end of the batch: it serves the transaction that has asked.
#[test]
fn a_late_answer_gives_one_timestamp() {
    let mut batches = Batches::above(Terms::K2, 7, 0);
    batches.ask(1_000);
    let answer = Interval { earliest: 5_000_000, latest: 5_000_100 };
    let drawn = batches.receive(900_000, answer).expect("for the one that has asked");
    assert_eq!(drawn.at.nanos, 5_000_100);
    assert_eq!(batches.next(900_000), None, "the batch is over");
    assert_eq!(batches.receive(900_000, answer), None, "nothing was asked");
    batches.ask(1_000_000);
    let again = batches.receive(1_010_000, answer).expect("for the one that has asked");
    assert!(again.at > drawn.at);
    let next = batches.next(1_010_000).expect("of the batch");
    assert!(next.at.nanos >= answer.latest + Terms::K2.ttl_ns && next.at > again.at);
}
