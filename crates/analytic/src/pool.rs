//! The memory that operators hold, counted together with that of the SQL layer's executor.

use datafusion::error::DataFusionError;
use datafusion::execution::memory_pool::{MemoryLimit, MemoryPool, MemoryReservation};
use meridian_sql::{QueryMemory, SqlError};
use std::fmt;
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct Shared(pub(crate) Arc<QueryMemory>);

impl fmt::Display for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "shared: {} of {} bytes held", self.0.held_bytes(), self.0.limit_bytes())
    }
}

impl MemoryPool for Shared {
    fn name(&self) -> &str {
        "shared"
    }

    fn grow(&self, _: &MemoryReservation, additional: usize) {
        self.0.take(additional);
    }

    fn shrink(&self, _: &MemoryReservation, shrink: usize) {
        self.0.give_back(shrink);
    }

    fn try_grow(&self, _: &MemoryReservation, additional: usize) -> Result<(), DataFusionError> {
        let detail = |error: SqlError| error.detail.unwrap_or(error.message);
        self.0
            .try_take(additional)
            .map_err(|error| DataFusionError::ResourcesExhausted(detail(error)))
    }

    fn reserved(&self) -> usize {
        self.0.held_bytes()
    }

    fn memory_limit(&self) -> MemoryLimit {
        MemoryLimit::Finite(self.0.limit_bytes())
    }
}
