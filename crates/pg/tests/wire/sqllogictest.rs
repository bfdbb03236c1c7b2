//! Runs `tests/slt/*.slt` over the wire, each file on a fresh database of each protocol, by the
//! simple protocol.

use crate::common;
use crate::slt;
use meridian_systems::Protocol;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_file_passes_over_the_wire_whichever_protocol_runs() {
    for protocol in Protocol::with_transactions() {
        slt::run("slt", protocol.name, || common::start_by(protocol)).await;
    }
}
