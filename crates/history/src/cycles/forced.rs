//! Inferred order of writes that no read shows directly.
//!
//! ```text
//!   R read x from W, and V wrote x, too: V comes before W, or after R.
//!   W precedes V, in whatever way        R precedes V     (rw)
//!   V precedes R, in whatever way        V precedes W     (ww)
//! ```
//!
//! Under snapshot isolation a path counts if it has no two successive rw, including the rw that the
//! other choice would add.
//!
//! The rules are applied until nothing more follows (the polygraph of Papadimitriou, "The
//! serializability of concurrent database updates", JACM 1979; Cobra, OSDI 2020, prunes with the
//! same two rules). Only a search decides what remains open.

use super::graph::Graph;
use super::registers::Register;
use super::{Violation, Why};

/// Above this number of transactions only the real-time rule applies: the table of precedence is
/// square.
const TRANSACTIONS: usize = 1 << 14;

/// The most pairs of a read and another write to check, in all rounds together.
const PAIRS: usize = 200_000_000;

/// Adds the edges that follow, or returns the cycle that they make.
pub(super) fn relate<'a>(
    registers: &[Register<'a>],
    happened: &[bool],
    graph: &mut Graph<'a>,
) -> Result<(), Violation> {
    if happened.len() > TRANSACTIONS {
        registers.iter().for_each(|register| overwritten(register, happened, graph));
        return graph.cycle().map_or(Ok(()), |cycle| Err(Violation::Cycle(cycle)));
    }
    let mut left = PAIRS;
    let blind: Vec<&Register<'a>> =
        registers.iter().filter(|register| register.is_open(happened)).collect();
    while !blind.is_empty() {
        let Some(order) = graph.sorted() else { break };
        let mut place = vec![0; graph.nodes()];
        order.iter().enumerate().for_each(|(at, node)| place[*node] = at);
        let (_, last) = graph.copies(happened.len() - 1);
        let mut after = Closure::new(graph, &order, last + 1);
        let mut forced = Vec::new();
        for register in &blind {
            let mut writers: Vec<usize> = register.writers(happened).collect();
            writers.sort_by_key(|writer| place[*writer]);
            for (reader, from) in register.reads() {
                let Some(less) = left.checked_sub(writers.len()) else { return Ok(()) };
                left = less;
                let others =
                    || writers.iter().copied().filter(|other| *other != from && *other != reader);
                // First the first one: what follows from it needs no edge of its own.
                for other in others() {
                    let (plain, by_rw) = graph.copies(other);
                    let follows = after.has(from, plain) || after.has(from, by_rw);
                    if follows && !after.has(reader, by_rw) {
                        after.put(reader, by_rw);
                        forced.push((reader, other, Why::Rw, register.key, from));
                    }
                }
                // First the last one, for the same reason.
                let mut linked: Vec<usize> = Vec::new();
                for other in others().rev() {
                    let (plain, by_rw) = graph.copies(other);
                    let new = after.has(by_rw, reader) && !after.has(by_rw, from);
                    if new && !linked.iter().any(|last| after.has(by_rw, *last)) {
                        after.put(by_rw, from);
                        after.put(plain, from);
                        linked.push(other);
                        forced.push((other, from, Why::Ww, register.key, reader));
                    }
                }
            }
        }
        if forced.is_empty() {
            break;
        }
        forced
            .into_iter()
            .for_each(|(from, to, why, key, through)| graph.force(from, to, why, key, through));
        if let Some(cycle) = graph.cycle() {
            return Err(Violation::Cycle(cycle));
        }
    }
    Ok(())
}

/// Adds an edge from each read to the first-ended of the writes that began after the read one had
/// ended. That finds every read that is stale in real time, and costs little.
fn overwritten<'a>(register: &Register<'a>, happened: &[bool], graph: &mut Graph<'a>) {
    let mut writers: Vec<(u64, u64, usize)> = register
        .writers(happened)
        .filter_map(|writer| graph.lasted(writer).map(|(start, end)| (start, end, writer)))
        .collect();
    writers.sort_unstable();
    let mut first = writers.clone();
    for at in (1..first.len()).rev() {
        first[at - 1] = std::cmp::min_by_key(first[at - 1], first[at], |(_, end, _)| *end);
    }
    for (reader, from) in register.reads() {
        let Some((_, ended)) = graph.lasted(from) else { continue };
        let later = writers.partition_point(|(start, ..)| *start <= ended);
        if let Some((_, _, other)) = first.get(later).filter(|(.., other)| *other != reader) {
            graph.force(reader, *other, Why::Rw, register.key, from);
        }
    }
}

/// The transactions, among the first nodes, that come after each node.
struct Closure {
    words: usize,
    bits: Vec<u64>,
}

impl Closure {
    fn new(graph: &Graph<'_>, order: &[usize], columns: usize) -> Closure {
        let words = columns.div_ceil(64);
        let mut closure = Closure { words, bits: vec![0; words * graph.nodes()] };
        for node in order.iter().rev() {
            for next in graph.next(*node) {
                closure.join(*node, next);
                if next < columns {
                    closure.bits[node * words + next / 64] |= 1 << (next % 64);
                }
            }
        }
        closure
    }

    fn has(&self, node: usize, next: usize) -> bool {
        self.bits[node * self.words + next / 64] >> (next % 64) & 1 == 1
    }

    /// Notes that a transaction, and what comes after it, comes after a node. The nodes before the
    /// node learn that in the next round.
    fn put(&mut self, node: usize, next: usize) {
        self.join(node, next);
        self.bits[node * self.words + next / 64] |= 1 << (next % 64);
    }

    /// Notes that everything after `next` comes after `node`.
    fn join(&mut self, node: usize, next: usize) {
        if node != next {
            for word in 0..self.words {
                self.bits[node * self.words + word] |= self.bits[next * self.words + word];
            }
        }
    }
}
