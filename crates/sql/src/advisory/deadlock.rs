//! Cycles of sessions that wait for each other's advisory locks.

use super::row::{Entry, Name, Owner};
use std::collections::BTreeSet;

/// Returns the sessions that a session waits for, directly or through others.
fn blockers(of: Owner, locks: &[(Name, Vec<Entry>)]) -> BTreeSet<Owner> {
    let (mut found, mut waiting) = (BTreeSet::new(), vec![of]);
    while let Some(owner) = waiting.pop() {
        for (_, entries) in locks {
            let wants = entries.iter().filter(|entry| entry.waits && entry.owner == owner);
            for want in wants {
                let blocking = entries.iter().filter(|it| it.blocks(owner, want.is_shared));
                let new = blocking.map(|entry| entry.owner).filter(|one| found.insert(*one));
                waiting.extend(new);
            }
        }
    }
    found
}

/// True if a session is to end a cycle that it is in: of all in the cycle, it began last.
pub(super) fn is_victim(owner: Owner, locks: &[(Name, Vec<Entry>)]) -> bool {
    let all = blockers(owner, locks);
    let mut others = all.iter().filter(|other| **other != owner);
    all.contains(&owner)
        && others.all(|other| *other < owner || !blockers(*other, locks).contains(&owner))
}

#[cfg(test)]
mod tests {
    use super::*;
    use meridian_txn::Age;

    fn owner(session: u64) -> Owner {
        Owner { process: Age { began_ns: 1, node: 1, number: 1 }, session }
    }

    fn lock(name: i64, holders: &[u64], waiters: &[u64]) -> (Name, Vec<Entry>) {
        let entry = |session: u64, waits: bool| {
            let (owner, is_shared) = (owner(session), false);
            Entry { owner, pid: 0, is_shared, waits }
        };
        let holders = holders.iter().map(|session| entry(*session, false));
        let waiters = waiters.iter().map(|session| entry(*session, true));
        (Name::One(name), holders.chain(waiters).collect())
    }

    #[test]
    fn one_session_of_a_cycle_ends_it() {
        let cycle = [lock(1, &[1], &[3]), lock(2, &[2], &[1]), lock(3, &[3], &[2, 9])];
        let victims: Vec<u64> = (1..10).filter(|n| is_victim(owner(*n), &cycle)).collect();
        assert_eq!(victims, [3], "9 waits for the cycle, and is not in it");
        let chain = [lock(1, &[1], &[3]), lock(2, &[2], &[1]), lock(3, &[3], &[])];
        assert!((1..4).all(|session| !is_victim(owner(session), &chain)));
    }
}
