//! The choices of a terminal: warehouses, districts, customers and items, by the specification's
//! non-uniform function (§2.1.6).

use rand::Rng;
use rand::rngs::StdRng;

/// The size of the database, on which choices depend.
pub struct Choices {
    /// The number of warehouses.
    pub warehouses: i32,
}

impl Choices {
    /// Draws a warehouse and one of its districts.
    pub fn home(&self, random: &mut StdRng) -> (i32, i32) {
        (random.random_range(1..=self.warehouses), district(random))
    }

    /// Draws another warehouse, where there is one.
    pub fn other_warehouse(&self, home: i32, random: &mut StdRng) -> i32 {
        if self.warehouses == 1 {
            return home;
        }
        let drawn = random.random_range(1..self.warehouses);
        if drawn >= home { drawn + 1 } else { drawn }
    }
}

/// Draws a district of a warehouse.
pub fn district(random: &mut StdRng) -> i32 {
    random.random_range(1..=super::DISTRICTS)
}

/// The constants of the non-uniform function. A run may choose them; those of the names differ
/// between population and run by an amount that §2.1.6.1 bounds.
const C_ITEM: i32 = 5_987;
const C_CUSTOMER: i32 = 259;
const C_NAME_FILL: i32 = 157;
const C_NAME_RUN: i32 = 223;

/// Draws a number from `first` to `last`, some of which are drawn far more often than others.
fn non_uniform(random: &mut StdRng, a: i32, c: i32, first: i32, last: i32) -> i32 {
    let drawn = random.random_range(0..=a) | random.random_range(first..=last);
    (drawn + c) % (last - first + 1) + first
}

/// Draws an item.
pub fn item(random: &mut StdRng) -> i32 {
    non_uniform(random, 8_191, C_ITEM, 1, super::ITEMS)
}

/// Draws a customer of a district.
pub fn customer(random: &mut StdRng) -> i32 {
    non_uniform(random, 1_023, C_CUSTOMER, 1, super::CUSTOMERS)
}

/// Draws the number of a last name, for a customer that is called by it.
pub fn name_of_customer(random: &mut StdRng) -> i32 {
    non_uniform(random, 255, C_NAME_RUN, 0, 999)
}

/// Draws the number of a last name, for a customer that is filled in.
pub fn name_to_fill(random: &mut StdRng) -> i32 {
    non_uniform(random, 255, C_NAME_FILL, 0, 999)
}

/// Returns the last name with a number from 0 to 999 (§4.3.2.3).
pub fn last_name(number: i32) -> String {
    const SYLLABLES: [&str; 10] =
        ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];
    let syllable = |digit: i32| SYLLABLES[digit.rem_euclid(10) as usize];
    [syllable(number / 100), syllable(number / 10), syllable(number)].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    #[test]
    fn names_are_made_of_the_digits_of_their_number() {
        assert_eq!(last_name(371), "PRICALLYOUGHT");
        assert_eq!(last_name(40), "BARPRESBAR");
        assert_eq!(last_name(999), "EINGEINGEING");
    }

    #[test]
    fn choices_stay_in_their_ranges_and_are_not_uniform() {
        let mut random = StdRng::seed_from_u64(1);
        let mut drawn = std::collections::BTreeMap::<i32, u32>::new();
        for _ in 0..100_000 {
            assert!((1..=super::super::ITEMS).contains(&item(&mut random)));
            let customer = customer(&mut random);
            assert!((1..=super::super::CUSTOMERS).contains(&customer));
            *drawn.entry(customer).or_default() += 1;
            assert!((0..1_000).contains(&name_of_customer(&mut random)));
            assert!((0..1_000).contains(&name_to_fill(&mut random)));
        }
        let most = drawn.values().max().copied().unwrap_or_default();
        assert!(most > 200, "33 would be the mean: {most}");
    }

    #[test]
    fn another_warehouse_is_another_one() {
        let mut random = StdRng::seed_from_u64(2);
        let choices = Choices { warehouses: 3 };
        for home in 1..=3 {
            for _ in 0..50 {
                let other = choices.other_warehouse(home, &mut random);
                assert!(other != home && (1..=3).contains(&other));
            }
        }
        assert_eq!(Choices { warehouses: 1 }.other_warehouse(1, &mut random), 1);
    }
}
