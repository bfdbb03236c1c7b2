//! Carries out the effects that only members of groups have.

use super::{Event, MS, ProtocolEvent, World};
use crate::Defect;
use crate::journal;
use crate::node_process::Install;
use crate::shard::Leaders;
use meridian_machine::{Role, ShardId};
use meridian_mvcc::StoreError;
use meridian_store::Split;
use meridian_store::courier::Order;
use meridian_systems::shard::{Effect, Message, Participant, Serve};
use meridian_txn::shards::{RequestOutcome, Response};
use rand::Rng;

impl<P: Participant> World<Leaders<P>> {
    pub(super) fn act(&mut self, node: usize, shard: ShardId, effect: Effect) {
        let target = self.target(node);
        let Some(process) = &mut self.nodes[node].process else { return };
        let Some(member) = process.members.get_mut(&shard) else { return };
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
                    return self.push(after, target, Event::Of(ProtocolEvent::Late(shard)));
                }
                let halves = self.options.defect == Some(Defect::HalfInstalled) && node == 1;
                let all = if halves && writes.len() > 1 {
                    &writes[..writes.len() - 1]
                } else {
                    &writes[..]
                };
                let Some(member) = self.member(node, shard) else { return };
                member.shard_store.install(at, all, index.0, term.0);
            }
            Effect::Divide { at, key, shard: child, rows, hollow, index, term } => {
                // The child gets all versions, even those that a planted defect delays.
                member.install_late();
                process.router.map().learn_route(&key, key.clone(), child);
                member.shard_store.divide(
                    Split { at, key, child: child.0, rows, hollow },
                    index.0,
                    term.0,
                );
                self.push(0, target, Event::Of(ProtocolEvent::FlushSplit));
            }
            Effect::Serve(mut serve) => {
                if self.options.defect == Some(Defect::ReadOneBefore) {
                    serve.at.nanos = serve.at.nanos.saturating_sub(1);
                }
                match serve.reply_to.role {
                    Role::Coordinator(number) if serve.reply_to.node == self.members[node] => {
                        let Serve { id, lock_epoch, at, deadline, waited_ns, .. } = serve;
                        self.push(
                            0,
                            target,
                            Event::Of(ProtocolEvent::Hear(
                                (number, id),
                                RequestOutcome::Read { lock_epoch, at, deadline, waited_ns },
                            )),
                        );
                    }
                    _ => {
                        let longest = if self.options.profile.is_some() { 2 } else { MS };
                        let after = self.rng.random_range(0..longest);
                        self.push(
                            after,
                            target,
                            Event::Of(ProtocolEvent::Serve(shard, Box::new(serve))),
                        );
                    }
                }
            }
            Effect::ReadLease(mut read_lease) => {
                if self.options.defect == Some(Defect::LeaseNotChecked) && read_lease.until > 0 {
                    read_lease.until = u64::MAX;
                }
                process.router.set_read_lease(shard, read_lease);
            }
            Effect::Leader(leader) => {
                if let Some(log) = self.options.log {
                    log(&format!("{} follows {leader:?} in shard {}", self.members[node], shard.0));
                }
                if let Some(leader) = leader {
                    process.router.map().set_leader(shard, leader);
                }
            }
            Effect::SendSnapshot { to, index, witness, term } => {
                let order =
                    Order { key: journal::key(shard), to, index: index.0, term: term.0, witness };
                self.push(MS, target, Event::Of(ProtocolEvent::Copy(order)));
            }
            Effect::Members(_) | Effect::CountPush => {}
            Effect::Removed { index } => {
                self.push(0, target, Event::Of(ProtocolEvent::Removed { shard, index }))
            }
            Effect::Stop { why } => self.fail(format!("{} stops: {why}", self.members[node])),
        }
    }

    pub(super) fn serve(&mut self, node: usize, shard: ShardId, serve: Serve) {
        let Some(member) = self.member(node, shard) else { return };
        let Serve {
            reply_to,
            id,
            lock_epoch,
            at,
            range,
            reverse,
            limit_rows,
            versions,
            deadline,
            waited_ns,
        } = serve;
        let found = member.shard_store.scan(&range, at, reverse, limit_rows as usize, 1 << 16);
        if found.is_ok() {
            self.watch_read(shard, range, at);
        }
        let reply = match found {
            Ok(chunk) => {
                let committed_at = if versions { chunk.at } else { Vec::new() };
                Response::Rows {
                    id,
                    lock_epoch,
                    at,
                    rows: chunk.rows,
                    rest: chunk.rest,
                    committed_at,
                    waited_ns,
                }
            }
            Err(error) if matches!(error, StoreError::Damaged { .. }) => {
                return self.node_failure(node, "read", error.into());
            }
            Err(error) => Response::refused(id, error),
        };
        self.send(node, shard, 0, deadline, reply_to, Message::Response(reply));
    }
}
