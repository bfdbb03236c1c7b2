//! Runs `tests/slt/*.slt` over the wire, each file on a fresh database, by the simple protocol.

mod common;
#[path = "common/slt.rs"]
mod slt;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_file_passes_over_the_wire() {
    slt::run("slt", common::start).await;
}
