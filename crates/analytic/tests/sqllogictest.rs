//! Runs `tests/analytic/*.slt` over the wire, each file on a fresh database of each protocol, by
//! the simple protocol.

#[path = "../../pg/tests/common/mod.rs"]
mod common;
#[path = "../../pg/tests/common/slt.rs"]
mod slt;

use common::Memory;
use meridian_analytic::DataFusion;
use meridian_sql::Engine;
use meridian_systems::Protocol;
use std::sync::Arc;

struct One(Arc<Engine>);

impl meridian_pg::Databases for One {
    fn engine<'a>(
        &'a self,
        name: &'a str,
    ) -> futures::future::BoxFuture<'a, Result<Option<Arc<Engine>>, String>> {
        let found = (self.0.name() == name).then(|| self.0.clone());
        Box::pin(std::future::ready(Ok(found)))
    }

    fn names(&self) -> Vec<String> {
        vec![self.0.name().to_owned()]
    }
}

async fn start(protocol: &'static Protocol) -> common::Running {
    let analytic = DataFusion::new(Default::default());
    let engine =
        Engine::new("meridian", Arc::new(Memory::of(protocol))).with_analytic(Arc::new(analytic));
    common::start_over(common::local(), Arc::new(One(Arc::new(engine)))).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_file_passes_over_the_wire_whichever_protocol_runs() {
    for protocol in Protocol::with_transactions() {
        slt::run("analytic", protocol.name, || start(protocol)).await;
    }
}
