//! The time that several intervals agree on although some of them are wrong (Marzullo's algorithm;
//! Spanner §3).

use meridian_machine::Interval;

/// Returns the hull of all times that lie in all but `liars` of the intervals. If at most so many
/// are wrong, the hull contains the true time. `None` if the intervals contradict each other so
/// much that more must be wrong, or if there are no more than `liars`.
pub fn agree(told: &[Interval], liars: usize) -> Option<Interval> {
    let enough = told.len().checked_sub(liars).filter(|enough| *enough > 0)?;
    let mut ends: Vec<(u64, bool)> = told
        .iter()
        .flat_map(|interval| [(interval.earliest, false), (interval.latest, true)])
        .collect();
    ends.sort_unstable(); // At the same time a begin sorts before an end: both contain it.
    let (mut within, mut first, mut last) = (0, None, 0);
    for (moment, ends_here) in ends {
        if ends_here {
            if within >= enough {
                last = moment;
            }
            within -= 1;
        } else {
            within += 1;
            if within >= enough {
                first.get_or_insert(moment);
            }
        }
    }
    first.map(|earliest| Interval { earliest, latest: last })
}

/// Returns the intersection of two intervals.
pub fn both(one: Interval, other: Interval) -> Option<Interval> {
    let both = Interval {
        earliest: one.earliest.max(other.earliest),
        latest: one.latest.min(other.latest),
    };
    (both.earliest <= both.latest).then_some(both)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn told(intervals: &[(u64, u64)]) -> Vec<Interval> {
        intervals
            .iter()
            .map(|(earliest, latest)| Interval { earliest: *earliest, latest: *latest })
            .collect()
    }

    #[test]
    fn a_liar_among_three_is_outvoted_and_one_of_two_is_not() {
        let expected = Some(Interval { earliest: 11, latest: 12 });
        assert_eq!(agree(&told(&[(8, 12), (11, 13), (90, 95)]), 1), expected);
        assert_eq!(agree(&told(&[(8, 12), (11, 13)]), 0), expected);
        assert_eq!(
            agree(&told(&[(8, 12), (12, 13)]), 0),
            Some(Interval { earliest: 12, latest: 12 })
        );
        assert_eq!(agree(&told(&[(8, 12), (13, 14)]), 0), None);
        assert_eq!(agree(&told(&[(8, 12)]), 1), None, "a source that may lie is not trusted alone");
        assert_eq!(agree(&[], 0), None);
    }

    proptest! {
        #[test]
        fn it_holds_the_truth_if_no_more_lie_than_may(
            true_ones in proptest::collection::vec((0u64..50, 0u64..50), 0..6),
            false_ones in proptest::collection::vec((0u64..200, 0u64..200), 0..4),
        ) {
            let truth = 100;
            let mut told: Vec<Interval> = true_ones
                .iter()
                .map(|(before, after)| Interval { earliest: truth - before, latest: truth + after })
                .collect();
            told.extend(false_ones.iter().map(|(a, b)| Interval { earliest: *a.min(b), latest: *a.max(b) }));
            match agree(&told, false_ones.len()) {
                Some(agreed) => prop_assert!(agreed.earliest <= truth && truth <= agreed.latest),
                None => prop_assert!(true_ones.is_empty()),
            }
            // Compare with a check of every time.
            let enough = told.len() - false_ones.len();
            let holds = |moment: &u64| {
                told.iter().filter(|interval| interval.earliest <= *moment && *moment <= interval.latest).count() >= enough
            };
            let mut moments = (0..=200).filter(holds);
            let first = moments.next().filter(|_| enough > 0);
            let expected = first.map(|first| Interval { earliest: first, latest: moments.next_back().unwrap_or(first) });
            prop_assert_eq!(agree(&told, false_ones.len()), expected);
        }
    }
}
