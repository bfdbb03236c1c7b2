//! Carries out the effects that only members of groups have.

use super::{Event, Happening, MS, World};
use crate::Defect;
use crate::journal;
use crate::life::Install;
use crate::spanner::Spanner;
use meridian_machine::{Role, ShardId};
use meridian_mvcc::StoreError;
use meridian_store::Split;
use meridian_store::courier::Order;
use meridian_systems::spanner::{Effect, Message, Serve};
use meridian_txn::locking::{Heard, Reply};
use rand::Rng;

impl World<Spanner> {
    pub(super) fn act(&mut self, node: usize, shard: ShardId, effect: Effect) {
        let whom = self.whom(node);
        let Some(life) = &mut self.nodes[node].life else { return };
        let Some(member) = life.members.get_mut(&shard) else { return };
        match effect {
            Effect::Install { at, writes, index, term, decided_elsewhere } => {
                if !member.replica.is_witness() {
                    self.watch_install(
                        node,
                        (shard, at),
                        &writes,
                        (index, term),
                        decided_elsewhere,
                    );
                }
                if self.options.defect == Some(Defect::InstalledLate) {
                    let Some(member) = self.member(node, shard) else { return };
                    member.late.push(Install { at, writes, position: index.0, term: term.0 });
                    let after = self.rng.random_range(0..20 * MS);
                    return self.push(after, whom, Event::Of(Happening::Late(shard)));
                }
                let halves = self.options.defect == Some(Defect::HalfInstalled) && node == 1;
                let all = if halves && writes.len() > 1 {
                    &writes[..writes.len() - 1]
                } else {
                    &writes[..]
                };
                let Some(member) = self.member(node, shard) else { return };
                member.space.install(at, all, index.0, term.0);
            }
            Effect::Divide { at, key, shard: child, rows, hollow, index, term } => {
                // The child gets all versions, even those that a planted defect delays.
                member.install_late();
                life.desk.map().learn_route(&key, key.clone(), child);
                member.space.divide(
                    Split { at, key, child: child.0, rows, hollow },
                    index.0,
                    term.0,
                );
                self.push(0, whom, Event::Of(Happening::Bear));
            }
            Effect::Serve(mut serve) => {
                if self.options.defect == Some(Defect::ReadOneBefore) {
                    serve.at.nanos = serve.at.nanos.saturating_sub(1);
                }
                match serve.reply_to.role {
                    Role::Coordinator(number) if serve.reply_to.node == self.members[node] => {
                        let Serve { id, footing, at, deadline, .. } = serve;
                        self.push(
                            0,
                            whom,
                            Event::Of(Happening::Hear(
                                (number, id),
                                Heard::Read { footing, at, deadline },
                            )),
                        );
                    }
                    _ => {
                        let longest = if self.options.profile.is_some() { 2 } else { MS };
                        let after = self.rng.random_range(0..longest);
                        self.push(after, whom, Event::Of(Happening::Serve(shard, Box::new(serve))));
                    }
                }
            }
            Effect::Readable(mut readable) => {
                if self.options.defect == Some(Defect::LeaseNotChecked) && readable.until > 0 {
                    readable.until = u64::MAX;
                }
                life.desk.set_readable(shard, readable);
            }
            Effect::Leader(leader) => {
                if let Some(tell) = self.options.tell {
                    tell(&format!(
                        "{} follows {leader:?} in shard {}",
                        self.members[node], shard.0
                    ));
                }
                if let Some(leader) = leader {
                    life.desk.map().set_leader(shard, leader);
                }
            }
            Effect::SendSnapshot { to, index, witness, term } => {
                let order =
                    Order { key: journal::key(shard), to, index: index.0, term: term.0, witness };
                self.push(MS, whom, Event::Of(Happening::Copy(order)));
            }
            Effect::Members(_) => {}
            Effect::Removed { index } => {
                self.push(0, whom, Event::Of(Happening::Removed { shard, index }))
            }
            Effect::Stop { why } => self.fail(format!("{} stops: {why}", self.members[node])),
        }
    }

    pub(super) fn serve(&mut self, node: usize, shard: ShardId, serve: Serve) {
        let Some(member) = self.member(node, shard) else { return };
        let Serve { reply_to, id, footing, at, range, reverse, limit_rows, versions, deadline } =
            serve;
        let found = member.space.scan(&range, at, reverse, limit_rows as usize, 1 << 16);
        if found.is_ok() {
            self.watch_read(shard, range, at);
        }
        let reply = match found {
            Ok(chunk) => {
                let committed_at = if versions { chunk.at } else { Vec::new() };
                Reply::Rows { id, footing, at, rows: chunk.rows, rest: chunk.rest, committed_at }
            }
            Err(error) if matches!(error, StoreError::Damaged { .. }) => {
                return self.unfit(node, "read", error.into());
            }
            Err(error) => Reply::refused(id, error),
        };
        self.send(node, shard, 0, deadline, reply_to, Message::Answer(reply));
    }
}
