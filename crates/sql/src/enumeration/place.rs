//! The places of labels: fractions of base 256, so that there is always one between two others.

/// Returns the shortest bytes above `low` and below `high`. Neither ends with a zero byte, and so
/// does the result: a place between two that differ in zeros at the end would not exist.
pub(super) fn between(low: &[u8], high: Option<&[u8]>) -> Vec<u8> {
    let mut high = high;
    let mut out = Vec::with_capacity(low.len() + 1);
    for at in 0.. {
        let under = u16::from(low.get(at).copied().unwrap_or(0));
        let over = high.map_or(256, |high| u16::from(high.get(at).copied().unwrap_or(0)));
        if over > under + 1 {
            // Labels are added at the end most often: the next byte leaves room for them.
            let next = if high.is_none() { under + 1 } else { under.midpoint(over) };
            out.push(next as u8);
            break;
        }
        out.push(under as u8);
        if over > under {
            // All that begins like this is below `high`.
            high = None;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::between;
    use proptest::prelude::*;

    #[test]
    fn a_new_type_has_short_places() {
        let mut last = Vec::new();
        let places = (0..600).map(|_| {
            last = between(&last, None);
            last.clone()
        });
        let places: Vec<_> = places.collect();
        assert!(places.is_sorted() && places[0] == [1] && places[254] == [255]);
        assert_eq!((&places[255][..], &places[599][..]), (&[255, 1][..], &[255, 255, 90][..]));
    }

    proptest! {
        /// Wherever labels are put, there is a place, and their places stay in their order.
        #[test]
        fn there_is_a_place_between_any_two(
            positions in prop::collection::vec(any::<u16>(), 1..300),
        ) {
            let mut places: Vec<Vec<u8>> = Vec::new();
            for position in positions {
                let at = usize::from(position) % (places.len() + 1);
                let low = at.checked_sub(1).map_or(&[][..], |at| &places[at]);
                let new = between(low, places.get(at).map(Vec::as_slice));
                prop_assert!(new.last().is_some_and(|byte| *byte > 0));
                places.insert(at, new);
                prop_assert!(places.is_sorted_by(|a, b| a < b));
            }
        }

        /// Also if all are put before one.
        #[test]
        fn a_gap_never_closes(times in 1usize..500) {
            let (mut low, high) = (between(&[], None), between(&between(&[], None), None));
            for _ in 0..times {
                let new = between(&low, Some(&high));
                prop_assert!(low < new && new < high);
                low = new;
            }
        }
    }
}
