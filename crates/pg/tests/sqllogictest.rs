//! Runs `tests/slt/*.slt` over the wire, each file on a fresh database of each recipe, by the simple protocol.

mod common;
#[path = "common/slt.rs"]
mod slt;

use meridian_systems::Recipe;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_file_passes_over_the_wire_whichever_protocol_runs() {
    for recipe in Recipe::OF_TRANSACTIONS {
        slt::run("slt", || common::start_by(recipe)).await;
    }
}
